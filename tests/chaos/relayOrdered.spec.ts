import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { between, seededRandom, type Random } from '../../libs/cli/commands/demo/seededRandom.js'
import { enqueuePaymentOutboxBatch, resumeOutbox, setParticipantOutboxPolicy } from '../../libs/outbox/index.js'
import { sleep } from '../../libs/worker/index.js'
import { useTestDatabase } from '../support/database.js'
import { KillableWorker } from '../support/killableWorker.js'
import { OrderedBook, orderDefects } from '../support/orderedBook.js'
import { buildInstruction } from '../support/outboxItems.js'
import { createPerson, approve, propose, type Person } from '../support/outboxPeople.js'
import { writeRailsFile } from '../support/railsFile.js'
import { makeTestFolder, removeTestFolder } from '../support/server.js'
import { auditLedger } from '../support/ledgerFixture.js'

const PARTICIPANTS = Array.from({ length: 20 }, (_, index) => `participant-${index}`)
const ITEMS_EACH = 25
const HALTING = new Set(PARTICIPANTS.slice(0, 5))
const WORKERS = 3
const HANGING = 4
const KILLS_AT_RANDOM = 2

const db = await useTestDatabase({ countBranches: false })

/** Makes retries due at once. Leased items stay as they are. */
async function hurry(): Promise<void> {
  await db.queryNoRole(
    `UPDATE payment_outbox_pending SET next_attempt_at = clock_timestamp() - interval '1 second'
     WHERE outbox_id IN (
       SELECT outbox_id FROM payment_outbox_pending
       WHERE lease_token IS NULL AND next_attempt_at > clock_timestamp() ORDER BY outbox_id FOR UPDATE SKIP LOCKED)`,
  )
}

/** Resumes streams that a failure has halted, and records each resume in `book`. */
async function resumeHalted(book: OrderedBook): Promise<number> {
  const { rows } = await db.queryNoRole<{ name: string }>(`SELECT name FROM outbox_pauses WHERE kind = 'stream'`)
  for (const { name } of rows) {
    await book.resumed(name)
    await resumeOutbox(db.as('symphony_control'), 'stream', name, 'looked at')
  }
  return rows.length
}

/** Proposes and approves a retry of items that were held after three lease expiries. */
async function retryHeld(maker: Person, checker: Person): Promise<void> {
  const { rows } = await db.queryNoRole<{ outbox_id: string }>(
    `SELECT outbox_id FROM payment_outbox_pending WHERE hold_reason = 'REPEATED_LEASE_EXPIRY' AND lease_token IS NULL`,
  )
  for (const { outbox_id } of rows) await approve(checker, await propose(maker, outbox_id, 'RETRY'))
}

function pick<T>(random: Random, choices: readonly T[]): T {
  return choices[between(random, 0, choices.length - 1)]!
}

async function countEnded(): Promise<number> {
  const { rows } = await db.queryNoRole<{ ended: number }>(
    `SELECT count(*)::int AS ended FROM payment_outbox_attempts WHERE state IN ('DISPATCHED', 'FAILED')`,
  )
  return rows[0]?.ended ?? 0
}

test(
  `ordered payments of ${PARTICIPANTS.length} streams keep their order despite worker kills`,
  { timeout: 240_000 },
  async () => {
    const seed = randomBytes(4).toString('hex')
    process.stdout.write(`relayOrdered: seed ${seed}\n`)
    const random = seededRandom(seed)
    const folder = await makeTestFolder()
    onTestFinished(() => removeTestFolder(folder))
    const book = new OrderedBook(join(folder, 'book.ndjson'))
    await writeFile(book.path, '')
    // Includes the first item of one participant, so that at least one call hangs before any kill.
    const hanging = [`${pick(random, PARTICIPANTS)}-0`]
    while (hanging.length < HANGING) hanging.push(`${pick(random, PARTICIPANTS)}-${between(random, 1, ITEMS_EACH - 1)}`)
    const railsFile = await writeRailsFile(folder, book.declaration(seed, hanging))
    const { url } = await db.createLogin('worker', { roles: ['symphony_executor', 'symphony_readonly'] })
    const [maker, checker] = await Promise.all([createPerson(db, 'maker'), createPerson(db, 'checker')])
    for (const name of HALTING) await setParticipantOutboxPolicy(db.as('symphony_control'), name, 'halt')
    const instructions = Array.from({ length: ITEMS_EACH }, (_, number) =>
      PARTICIPANTS.map((participantId) =>
        buildInstruction({
          instructionId: `${participantId}-${number}`,
          participantId,
          railType: 'ORDERED',
          ordered: true,
        }),
      ),
    ).flat()
    await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), instructions)

    let started = 0
    const startWorker = () => {
      const workerId = `worker-${(started += 1)}`
      const worker = new KillableWorker(db, { url, workerId, railsFile, words: ['--poll-ms', '50'] })
      onTestFinished(() => void worker.child.kill('SIGKILL'))
      return worker
    }
    const workers = Array.from({ length: WORKERS }, startWorker)
    await Promise.all(workers.map((worker) => worker.atWork()))
    const replace = async (victim: KillableWorker): Promise<number> => {
      workers.splice(workers.indexOf(victim), 1, startWorker())
      await victim.kill()
      return victim.outlive()
    }
    const killed = { leased: 0, atRandom: 0 }
    let resumes = 0
    for (let ended = 0; ended < instructions.length; ended = await countEnded()) {
      await hurry()
      resumes += await resumeHalted(book)
      await retryHeld(maker, checker)
      // Kills every worker whose call hangs.
      const stuck = new Set((await book.arrivals()).filter(({ answer }) => answer === 'hangs').map(({ pid }) => pid))
      for (const victim of workers.filter(({ child }) => stuck.has(child.pid ?? 0))) {
        expect(await replace(victim)).toBeGreaterThan(0)
        killed.leased += 1
      }
      // Kills another worker whenever a further fixed share of the items has ended, so that kills do not depend on the
      // clock.
      if (ended >= ((killed.atRandom + 1) * instructions.length) / (KILLS_AT_RANDOM + 1)) {
        const victim = pick(random, workers)
        await victim.atWork()
        await replace(victim)
        killed.atRandom += 1
      }
      await sleep(20)
    }
    resumes += await resumeHalted(book)
    await Promise.all(workers.map(async (worker) => worker.atWork().then(() => worker.stop())))

    const lines = await book.read()
    const seen = (wanted: string) => lines.filter(({ participant }) => participant === wanted)
    expect(
      PARTICIPANTS.flatMap((name) => orderDefects(seen(name), HALTING.has(name)).map((one) => [name, one])),
    ).toEqual([])
    const arrived = await book.arrivals()
    const everyone = PARTICIPANTS.map(
      (name) => new Set(arrived.filter((one) => one.participant === name).map((one) => one.sequence)).size,
    )
    expect(everyone).toEqual(PARTICIPANTS.map(() => ITEMS_EACH))
    const { rows } = await db.queryNoRole<{ halted: number; went_on: number }>(
      `SELECT count(*) FILTER (WHERE participant_id = ANY ($1))::int AS halted,
         count(*) FILTER (WHERE participant_id <> ALL ($1))::int AS went_on
       FROM payment_outbox_attempts WHERE state = 'FAILED'`,
      [[...HALTING]],
    )
    expect(rows).toEqual([{ halted: resumes, went_on: expect.any(Number) }])
    // Requires a halted stream, a stream that continued after a failure, a kill during a call and a random kill.
    expect(Math.min(resumes, rows[0]?.went_on ?? 0, killed.leased, killed.atRandom)).toBeGreaterThan(0)
    const { ok, invariants } = await auditLedger(db, { drained: true })
    expect({ ok, broken: invariants.filter((one) => !one.ok) }).toEqual({ ok: true, broken: [] })
  },
)

const arrived = (sequence: number, answer: 'success' | 'terminal' | 'retryable' = 'success') =>
  ({ what: 'arrived', participant: 'p', sequence, answer, pid: 1 }) as const
const resumed = { what: 'resumed', participant: 'p' } as const

describe('orderDefects', () => {
  test('reports an item sent out of order, or sent after a failure that halts its stream', () => {
    expect(orderDefects([arrived(1), arrived(3)], false)).toEqual(['3 arrived before 2'])
    expect(orderDefects([arrived(1), arrived(2), arrived(1)], false)).toEqual(['1 arrived after 2'])
    expect(orderDefects([arrived(1, 'terminal'), arrived(2)], true)).toEqual(['2 passed the failure of 1'])
  })

  test('accepts retries, failures under the policy "continue", and items sent after a resume', () => {
    expect(orderDefects([arrived(1, 'retryable'), arrived(1), arrived(2, 'terminal'), arrived(3)], false)).toEqual([])
    expect(orderDefects([arrived(1, 'terminal'), arrived(1, 'terminal'), resumed, arrived(2)], true)).toEqual([])
  })
})
