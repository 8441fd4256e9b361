import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { builtPath } from '../support/builtPath.js'
import type { RelayScenario } from './RelayScenario.js'
import { retryUntilSuccess } from './waitUntil.js'
import type { WorkerFleet } from './WorkerFleet.js'

export interface LimitWritersOptions {
  readonly scenario: RelayScenario
  /** Folder for the journals. */
  readonly folder: string
  readonly seed: number
  readonly participants: readonly string[]
  readonly railType: string
}

/** Line of a journal. A transaction without an end was rolled back, or open when its writer was killed. */
type JournalLine =
  | { readonly begun: number; readonly size: number; readonly rollsBack: boolean; readonly repeated: number }
  | { readonly committed: number }
  | { readonly interrupted: number }
  | { readonly failed: number; readonly error: string }

/**
 * Program of a writer. Each transaction enqueues one to three batches of one participant, and one in ten is rolled
 * back. The writer repeats an interrupted transaction with the same keys. Its journal is a file, which a kill of the
 * process leaves complete.
 */
const PROGRAM = `
import { appendFileSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'
const [, settings] = process.argv
const { modules, schema, writerId, seed, participants, railType, journal } = JSON.parse(settings)
const [{ openDatabase }, { enqueuePaymentOutboxBatch }, { between, seededRandom }] =
  await Promise.all(modules.map((path) => import(path)))
const random = seededRandom(seed)
const database = openDatabase({ url: process.env.DATABASE_URL, schema, connectionsMax: 1 })
const ingest = database.as('symphony_ingest')
const note = (line) => appendFileSync(journal, JSON.stringify(line) + '\\n')
let isStopping = false
process.stdin.on('end', () => (isStopping = true)).resume()
console.log('ready')

class RolledBack extends Error {}

function plan(number) {
  const participantId = participants[between(random, 0, participants.length - 1)]
  let size = 0
  let repeated = 0
  const batches = []
  for (let calls = between(random, 1, 3); calls > 0; calls -= 1) {
    if (batches.length > 0 && random() < 0.2) {
      batches.push(batches.at(-1))
      repeated += batches.at(-1).length
      continue
    }
    batches.push(Array.from({ length: between(random, 1, 5) }, () => {
      const id = [writerId, number, (size += 1)].join('-')
      const amount = (between(random, 1, 9_999) / 100).toFixed(2)
      const payload = { amount, currency: random() < 0.02 ? 'USD' : 'EUR' }
      return { instructionId: id, idempotencyKey: id, participantId, railType, payload }
    }))
  }
  return { batches, begun: { begun: number, size, rollsBack: random() < 0.1, repeated } }
}

async function write(number, batches, rollsBack) {
  for (;;) {
    try {
      await ingest.transaction(async (tx) => {
        for (const batch of batches) await enqueuePaymentOutboxBatch(tx, batch)
        if (rollsBack) throw new RolledBack()
      })
      return note({ committed: number })
    } catch (error) {
      if (error instanceof RolledBack) return
      if (error.disposition !== 'retry' && error.disposition !== 'unknown') {
        return note({ failed: number, error: String(error) })
      }
      note({ interrupted: number })
      await delay(20)
    }
  }
}

for (let number = 1; !isStopping; number += 1) {
  const { batches, begun } = plan(number)
  note(begun)
  await write(number, batches, begun.rollsBack)
}
await database.close()
process.exit(0)
`

/** Processes that enqueue for participants with limits, and their journals. */
export class LimitWriters {
  readonly fleet: WorkerFleet
  readonly #db: RelayScenario['db']
  readonly #folder: string

  private constructor(db: RelayScenario['db'], folder: string, fleet: WorkerFleet) {
    this.#db = db
    this.#folder = folder
    this.fleet = fleet
  }

  static async create({ scenario, folder, seed, participants, railType }: LimitWritersOptions): Promise<LimitWriters> {
    const { db } = scenario
    const { url } = await db.createLogin('writer', { roles: ['symphony_ingest'] })
    const modules = ['db/index.js', 'outbox/index.js', 'cli/commands/demo/seededRandom.js'].map(
      (path) => pathToFileURL(builtPath(`libs/${path}`)).href,
    )
    const fleet = scenario.fleet({
      name: 'writer',
      env: { DATABASE_URL: url },
      command: (writerId) => {
        const journal = join(folder, writerId)
        const settings = { modules, schema: db.schema, writerId, seed: `${seed} ${writerId}` }
        const words = JSON.stringify({ ...settings, participants, railType, journal })
        return ['--input-type=module', '--eval', PROGRAM, words]
      },
    })
    return new LimitWriters(db, folder, fleet)
  }

  /** Compares the journals with the stored payments. No worker may have claimed a payment. */
  async check() {
    const { rows } = await retryUntilSuccess('a read of the payments', () =>
      this.#db.queryNoRole<{ transaction: string; stored: number }>(
        `SELECT regexp_replace(instruction_id, '-[0-9]+$', '') AS transaction, count(*)::int AS stored
       FROM payment_outbox_pending GROUP BY 1`,
      ),
    )
    const storedOf = new Map(rows.map(({ transaction, stored }) => [transaction, stored]))
    const figures = { committed: 0, rolledBack: 0, repeated: 0, interrupted: 0, openAtKill: 0, openAndStored: 0 }
    const defects: string[] = []
    for (const writerId of await readdir(this.#folder)) {
      const lines = (await readFile(join(this.#folder, writerId), 'utf8')).trim().split('\n')
      const journal = lines.map((line): JournalLine => JSON.parse(line))
      const committed = new Set(journal.flatMap((line) => ('committed' in line ? [line.committed] : [])))
      for (const line of journal) {
        if ('interrupted' in line) figures.interrupted += 1
        if ('failed' in line) defects.push(`${writerId}-${line.failed} failed: ${line.error}`)
        if (!('begun' in line)) continue
        const { begun, size, rollsBack, repeated } = line
        const name = `${writerId}-${begun}`
        const stored = storedOf.get(name) ?? 0
        storedOf.delete(name)
        figures.repeated += repeated
        if (committed.has(begun)) {
          figures.committed += size
          if (stored !== size) defects.push(`${name} was committed with ${size} payments, and ${stored} are stored`)
        } else if (rollsBack) {
          figures.rolledBack += size
          if (stored !== 0) defects.push(`${name} was rolled back, and ${stored} payments are stored`)
        } else {
          figures.openAtKill += size
          figures.openAndStored += stored
          if (stored !== 0 && stored !== size) defects.push(`${name} has ${size} payments, and ${stored} are stored`)
        }
      }
    }
    defects.push(...[...storedOf.keys()].map((name) => `${name} is stored, and no journal has it`))
    return { figures, defects }
  }
}
