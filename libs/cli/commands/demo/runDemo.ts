import { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { systemClock } from '../../../core/index.js'
import { openDatabase, type Database } from '../../../db/index.js'
import { openLedger, type AuditReport } from '../../../ledger/index.js'
import { enqueuePaymentOutboxBatch, readOutboxStatus, type OutboxStatus } from '../../../outbox/index.js'
import { FieldVault } from '../../../protection/index.js'
import { readBook } from '../../../rails/index.js'
import { reconcile } from '../../../reconciliation/index.js'
import { sleep } from '../../../worker/index.js'
import { SETTINGS } from '../../settings/settings.js'
import { ProgressBar, type Cli } from '../../terminal/Terminal.js'
import { readRailEffects } from '../ledger/withLedger.js'
import { DemoEnvironment } from './DemoEnvironment.js'
import { DemoFleet } from './DemoFleet.js'
import { generateStatement } from '../statements/generateStatement.js'
import { BOOK_URL, DEMO_RAILS, demoPayment } from './demoRails.js'
import { between, seededRandom, type Random } from './seededRandom.js'

export interface DemoOptions {
  readonly payments: number
  readonly workers: number
  readonly seed: string
  readonly databaseUrl: string | undefined
}

export interface DemoResult {
  readonly payments: number
  readonly dispatched: number
  readonly failed: number
  readonly held: number
  readonly railEffects: number
  readonly doublePaid: number
  readonly lost: number
  /** Payments that occur once in the statement of the rail, with the recorded amount. */
  readonly matched: number
  /** Critical findings of the reconciliation with the statement. */
  readonly criticalFindings: number
  readonly workerKills: number
  readonly seconds: number
}

function isSound({ lost, doublePaid, matched, dispatched, criticalFindings }: DemoResult): boolean {
  return lost === 0 && doublePaid === 0 && matched === dispatched && criticalFindings === 0
}

export interface DemoOutcome {
  readonly result: DemoResult
  readonly audit: AuditReport
  /** Folder with the evidence of a failure; undefined after a success. */
  readonly kept: string | undefined
  /** Name of the schema and login that remain in the database of `--database-url`. */
  readonly leftBehind: string | undefined
}

/**
 * Enqueues payments, runs worker processes on failing rails and kills some workers. Then audits the ledger against the
 * rail book, which a separate process keeps, and reconciles the ledger with a statement of that book.
 */
export async function runDemo(options: DemoOptions, cli: Cli): Promise<DemoOutcome> {
  const environment = await DemoEnvironment.open({ ...options, searchPath: cli.env['PATH'], signal: cli.signal })
  let sound = false
  try {
    const database = openDatabase({
      url: environment.url,
      schema: environment.schema,
      applicationName: 'symphony demo',
    })
    try {
      const startedMs = systemClock.monotonicMs()
      const workerKills = await dispatchAll(options, { environment, database, cli })
      const seconds = (systemClock.monotonicMs() - startedMs) / 1_000
      const ledger = await openLedger({ url: environment.url, schema: environment.schema })
      const report = await ledger.audit({ effects: await readRailEffects(environment.bookFile), drained: true })
      await ledger.close()
      const reconciled = await reconcileBook(environment.bookFile, options.seed, database)
      const result = summarise(options.payments, report, workerKills, seconds, reconciled)
      sound = report.ok && isSound(result)
      return {
        result,
        audit: report,
        kept: sound ? undefined : environment.folder,
        leftBehind: environment.leavesSchema ? environment.schema : undefined,
      }
    } finally {
      await database.close()
    }
  } finally {
    await environment.close()
    if (sound || cli.signal.aborted) await environment.remove()
  }
}

type Reconciled = Pick<DemoResult, 'matched' | 'criticalFindings'>

/** Writes the rail book as a camt.053 statement and reconciles each rail with it. */
async function reconcileBook(bookFile: string, seed: string, database: Database): Promise<Reconciled> {
  const payments = [...(await readBook(bookFile)).values()].flatMap((effect) => {
    const { reference: outboxId, amount, currency, at, count } = effect
    const payment = { outboxId, amount: amount ?? '', currency: currency ?? '', state: 'DISPATCHED' }
    return Array.from({ length: count }, () => ({ ...payment, completedAt: new Date(at) }))
  })
  const format = 'camt053'
  const { text } = generateStatement({ payments, errors: {}, format, seed })
  const statement = Buffer.from([...text()].join(''))
  const runs = await Promise.all(
    DEMO_RAILS.map((rail) =>
      reconcile(
        database.as('symphony_control'),
        { rail, statement: Readable.from([statement]), format },
        { vault: new FieldVault(new Map()) },
      ),
    ),
  )
  return {
    matched: runs.reduce((sum, { counts }) => sum + counts.matched, 0),
    criticalFindings: runs.flatMap(({ findings }) => findings.filter(({ severity }) => severity === 'critical')).length,
  }
}

interface DemoTools {
  readonly environment: DemoEnvironment
  readonly database: Database
  readonly cli: Cli
}

/** Runs and kills workers until only held items are left. Returns the number of kills. */
async function dispatchAll(options: DemoOptions, { environment, database, cli }: DemoTools): Promise<number> {
  const { payments, workers, seed } = options
  const fleet = new DemoFleet({
    size: workers,
    args: [programFile('../../childMain.js'), 'worker', '--no-http', '--until-stdin-closes', '--log-level', 'error'],
    env: { ...cli.env, ...NO_SETTINGS, ...workerSettings(environment) },
    logFile: `${environment.folder}/workers.log`,
    random: seededRandom(`victims ${seed}`),
  })
  const bar = new ProgressBar(cli.terminal, payments)
  const showProgress = async () => {
    const status = await readOutboxStatus(database.as('symphony_readonly'))
    const ended = Number(status.dispatchedTotal + status.failedTotal)
    bar.show(ended, `${fleet.kills} workers killed, ${status.leasedCount} in flight, ${status.heldCount} held`)
    fleet.requireHealth()
    cli.signal.throwIfAborted()
    return status
  }
  fleet.start()
  try {
    await enqueueAmongKills(options, { database, fleet, showProgress, signal: cli.signal })
    while (!isDrained(await showProgress())) await sleep(POLL_MS, cli.signal)
    return fleet.kills
  } finally {
    bar.clear()
    await fleet.stop()
  }
}

interface KillTools {
  readonly database: Database
  readonly fleet: DemoFleet
  readonly showProgress: () => Promise<OutboxStatus>
  readonly signal: AbortSignal
}

/**
 * Enqueues a few payments before each kill, so that the workers are busy when one is killed, also on a fast machine.
 */
async function enqueueAmongKills(
  { payments, seed }: DemoOptions,
  { database, fleet, showProgress, signal }: KillTools,
): Promise<void> {
  const ofPayments = seededRandom(`payments ${seed}`)
  const ofPauses = seededRandom(`pauses ${seed}`)
  const run = `demo-${seed}`
  for (let first = 1; first <= payments; first += PAYMENTS_PER_KILL) {
    const count = Math.min(PAYMENTS_PER_KILL, payments - first + 1)
    await enqueueSome({ first, count, run }, ofPayments, database)
    await sleep(between(ofPauses, PAUSE_MS.min, PAUSE_MS.max), signal)
    do await showProgress()
    while (!fleet.killOne() && (await pause(signal)))
  }
}

async function pause(signal: AbortSignal): Promise<true> {
  await sleep(POLL_MS, signal)
  return true
}

async function enqueueSome(
  { first, count, run }: { readonly first: number; readonly count: number; readonly run: string },
  random: Random,
  database: Database,
): Promise<void> {
  const payments = Array.from({ length: count }, (_, index) => demoPayment(first + index, run, random))
  await enqueuePaymentOutboxBatch(database.as('symphony_ingest'), payments)
}

function isDrained({ pendingCount, heldCount }: OutboxStatus): boolean {
  return pendingCount === heldCount
}

/**
 * Unsets each setting, because an empty variable counts as not set. A demo worker with the epoch file of a production
 * worker would overwrite that file, and the production worker would then freeze dispatch.
 */
const NO_SETTINGS = Object.fromEntries(
  Object.values(SETTINGS).flatMap(({ env }) => (env === undefined ? [] : [[env, '']])),
)

/** Returns settings with short leases, so that other workers take over the items of a killed worker within seconds. */
function workerSettings(environment: DemoEnvironment): Record<string, string> {
  return {
    DATABASE_URL: environment.url,
    SYMPHONY_SCHEMA: environment.schema,
    SYMPHONY_RAILS: programFile('demoRails.js'),
    LEASE_SECONDS: '3',
    OUTBOX_BATCH_SIZE: '5',
    OUTBOX_CONCURRENCY: '8',
    LEASE_REPAIR_INTERVAL_MS: '2000',
    [BOOK_URL]: environment.book.url,
  }
}

function programFile(name: string): string {
  return fileURLToPath(new URL(name, import.meta.url))
}

function summarise(
  payments: number,
  report: AuditReport,
  workerKills: number,
  seconds: number,
  reconciled: Reconciled,
): DemoResult {
  const { counts, invariants, railEffects, doublePaid } = report
  const dispatched = Number(counts.dispatched)
  const failed = Number(counts.failed)
  const held = Number(counts.held)
  // A payment is lost if the ledger does not contain it, or if it is paid in the ledger but not in the rail book.
  const unpaid = invariants.find(({ id }) => id === 'I3')?.found.length ?? 0
  const lost = payments - dispatched - failed - held + unpaid
  return {
    payments,
    dispatched,
    failed,
    held,
    railEffects,
    doublePaid,
    lost,
    ...reconciled,
    workerKills,
    seconds: Math.round(seconds * 10) / 10,
  }
}

const PAYMENTS_PER_KILL = 90
const PAUSE_MS = { min: 150, max: 750 }
const POLL_MS = 200
