import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { onTestFinished } from 'vitest'
import { readRailEffects } from '../../libs/cli/commands/ledger/withLedger.js'
import type { JsonObject } from '../../libs/core/index.js'
import { enqueuePaymentOutboxBatch } from '../../libs/outbox/index.js'
import { readBook, type startRailBook, type UnknownPolicy } from '../../libs/rails/index.js'
import { builtPath } from './builtPath.js'
import { Checkpoints } from './checkpoints.js'
import { spawnSymphony, type Running } from './commandLine.js'
import { createTestDatabase, type TestDatabase } from './database.js'
import { buildInstruction, attemptRows, enqueue, pendingRow, type Enqueued } from './outboxItems.js'
import type { RelayOutcome } from './relayOutcomes.js'
import { makeTestFolder, removeTestFolder } from './server.js'
import { auditLedger } from './ledgerFixture.js'

/** Points at which a worker can be stopped with a leased payment, in order. */
export type RelayPoint =
  /** The payment is leased and being validated. The rail is not called yet. */
  | 'claimed'
  /** The adapter is called, and has sent nothing yet. */
  | 'called'
  /** The rail has answered, and the relayer has not received the answer yet. */
  | 'answered'

export interface WorkerOptions {
  readonly words?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** Port that replaces the server's port, for example the port of a proxy. */
  readonly port?: number
  /** Folder of another built release. */
  readonly dist?: string
}

/**
 * A database, a rail for each policy, a rail book in its own process, and checkpoints. Tests start the workers. All of
 * it is removed when the test ends.
 */
export class RelayFixture {
  readonly db: TestDatabase
  readonly checkpoints: Checkpoints
  readonly bookFile: string
  readonly #railsFile: string
  readonly #bookUrl: string
  readonly #loginUrl: string

  private constructor(given: Pick<RelayFixture, 'db' | 'checkpoints' | 'bookFile'>, files: FixtureFiles) {
    this.db = given.db
    this.checkpoints = given.checkpoints
    this.bookFile = given.bookFile
    this.#railsFile = files.railsFile
    this.#bookUrl = files.bookUrl
    this.#loginUrl = files.loginUrl
  }

  static async set({ serverUrl }: { readonly serverUrl?: string } = {}): Promise<RelayFixture> {
    const folder = await makeTestFolder()
    onTestFinished(() => removeTestFolder(folder))
    const db = await createTestDatabase({ countBranches: false, ...(serverUrl === undefined ? {} : { serverUrl }) })
    onTestFinished(() => db.drop())
    const { url: loginUrl } = await db.createLogin('worker', { roles: ['symphony_executor', 'symphony_readonly'] })
    const checkpoints = await Checkpoints.open()
    onTestFinished(() => checkpoints.stop())
    const bookFile = join(folder, 'rail-book.ndjson')
    // Imported from dist/, because startRailBook starts a program file of the same folder.
    const built: { startRailBook: typeof startRailBook } = await import(builtPath('libs/rails/index.js'))
    const book = await built.startRailBook({ file: bookFile })
    onTestFinished(() => book.stop())
    const railsFile = join(folder, 'rails.mjs')
    await writeFile(railsFile, RAILS)
    return new RelayFixture({ db, checkpoints, bookFile }, { railsFile, bookUrl: book.url, loginUrl })
  }

  /** Starts a worker with this name. Resolves when it is at work. */
  async startWorker(name: string, { words = [], env = {}, port, dist }: WorkerOptions = {}): Promise<Running> {
    const environment = {
      DATABASE_URL: this.urlThrough(port),
      SYMPHONY_SCHEMA: this.db.schema,
      SYMPHONY_ACCESS_TOKEN: ACCESS_TOKEN,
      RAILS_MODULE: pathToFileURL(builtPath('libs/rails/index.js')).href,
      BOOK_URL: this.#bookUrl,
      CHECKPOINTS_URL: this.checkpoints.url,
      OUTBOX_WORKER_ID: name,
      ...env,
    }
    const worker = spawnSymphony(['worker', '--rails', this.#railsFile, ...words], environment, dist)
    onTestFinished(async () => {
      worker.child.kill('SIGKILL')
      await worker.ended
    })
    await untilStarted(worker)
    return worker
  }

  /** Returns the URL for workers, with another port if given. */
  urlThrough(port: number | undefined): string {
    const url = new URL(this.#loginUrl)
    if (port !== undefined) url.port = String(port)
    return url.href
  }

  enqueue(policy: UnknownPolicy, payload: JsonObject = {}): Promise<Enqueued> {
    return enqueue(this.db, { railType: policy, payload: { ...MONEY, ...payload } })
  }

  /** Enqueues payments for these policies in one transaction. */
  async enqueueMany(count: number, policies: readonly UnknownPolicy[]): Promise<void> {
    const instructions = Array.from({ length: count }, (_, index) =>
      buildInstruction({ railType: policies[index % policies.length]!, payload: MONEY }),
    )
    await enqueuePaymentOutboxBatch(this.db.as('symphony_ingest'), instructions)
  }

  /** Counts the references that the rail has paid. */
  async paidCount(): Promise<number> {
    return (await readBook(this.bookFile)).size
  }

  async outcomeOf(outboxId: string): Promise<RelayOutcome> {
    const attempts = await attemptRows(this.db, outboxId)
    const pending = await pendingRow(this.db, outboxId)
    return {
      attempts: attempts
        .filter(({ error_code }) => error_code !== 'INQUIRY_TOO_EARLY')
        .map(({ state, worker_id }) => `${state} by ${worker_id}`),
      calls: this.checkpoints.arrivals
        .filter(({ point, reference }) => point === 'called' && reference === outboxId)
        .map(({ worker }) => worker),
      paid: (await readBook(this.bookFile)).get(outboxId)?.count ?? 0,
      pending: pending && { hold_reason: pending.hold_reason, outcome_unknown: pending.outcome_unknown },
    }
  }

  /** Returns the outcomes of payments by the policy of their rail. */
  async outcomesOf(items: readonly Enqueued[]): Promise<Record<string, RelayOutcome>> {
    const outcomes = items.map(async ({ railType, outboxId }) => [railType, await this.outcomeOf(outboxId)] as const)
    return Object.fromEntries(await Promise.all(outcomes))
  }

  /** Counts items that are neither terminal nor held, through a pool that survives a server restart. */
  async leftCount(): Promise<number | undefined> {
    const { rows } = await this.db
      .as('symphony_auditor')
      .query<{ left: number }>(
        `SELECT count(*)::int AS left FROM ${this.db.qualify('payment_outbox_pending')} WHERE hold_reason IS NULL`,
      )
    return rows[0]?.left
  }

  /** Expires all leases, as time does after a worker died. */
  async expireLeases(): Promise<void> {
    await this.db.queryNoRole(
      `UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() - interval '1 second'
       WHERE lease_token IS NOT NULL`,
    )
  }

  /** Compares ledger and rail book. Returns broken invariants; empty if all ten were checked and hold. */
  async auditFindings(): Promise<string[]> {
    const { invariants } = await auditLedger(this.db, {
      effects: await readRailEffects(this.bookFile),
      drained: true,
    })
    const unchecked = ALL_INVARIANTS.filter((id) => !invariants.some((verdict) => verdict.id === id))
    const broken = invariants.filter(({ ok }) => !ok).map(({ id, found }) => `${id}: ${found.join(', ')}`)
    return [...unchecked.map((id) => `${id} was not checked`), ...broken]
  }

  async metricOf(worker: Running, name: string): Promise<number> {
    const address = /"address":"([^"]+)"/.exec(worker.stderr())?.[1] ?? ''
    const answer = await fetch(`${address}/metrics`, { headers: { authorization: `Bearer ${ACCESS_TOKEN}` } })
    const line = (await answer.text()).split('\n').find((one) => one.startsWith(`${name} `))
    return Number(line?.slice(name.length))
  }
}

/** Resolves when the worker logs that it has started. Rejects with its output if it exits first. */
async function untilStarted({ child, ended, stderr }: Running): Promise<void> {
  const started = new Promise<void>((resolve) => {
    child.stderr?.on('data', () => {
      if (stderr().includes('worker_started')) resolve()
    })
  })
  const earlyExit = ended.then((output) => {
    throw new Error(`the worker ended with ${output.exitCode} before it was at work: ${output.stderr}`)
  })
  await Promise.race([started, earlyExit])
}

interface FixtureFiles {
  readonly railsFile: string
  readonly bookUrl: string
  readonly loginUrl: string
}

const MONEY = { amount: '10.50', currency: 'EUR', destination: 'account-1' }
const ACCESS_TOKEN = 'secret-of-the-fixture'
const ALL_INVARIANTS = ['I1', 'I2', 'I3', 'I4', 'I5', 'I6', 'I7', 'I8', 'I9', 'I10', 'I11']

/**
 * Rails of the workers, one for each policy. The adapter ignores its signal, so that only the rail itself can refuse a
 * late request.
 */
const RAILS = `
const { RAILS_MODULE, BOOK_URL, CHECKPOINTS_URL, OUTBOX_WORKER_ID } = process.env
const { simulatedRail } = await import(RAILS_MODULE)

async function pass(point, reference = '') {
  const where = new URLSearchParams({ worker: OUTBOX_WORKER_ID, point, reference })
  await (await fetch(CHECKPOINTS_URL + '?' + where)).text()
}

const validate = async (value) => {
  await pass('claimed')
  return { value }
}

export default ['inquire', 'resend', 'hold'].map((onUnknown) => {
  const rail = simulatedRail({ type: onUnknown, onUnknown, bookUrl: BOOK_URL })
  return {
    ...rail,
    payload: { '~standard': { version: 1, vendor: 'fixture', validate } },
    dispatch: async (request) => {
      await pass('called', request.reference)
      const answer = await rail.dispatch(request, { signal: new AbortController().signal })
      await pass('answered', request.reference)
      return answer
    },
  }
})
`
