import { fileURLToPath } from 'node:url'
import { systemClock } from '../../../core/index.js'
import { openDatabase, type Database } from '../../../db/index.js'
import { openLedger, type AuditReport } from '../../../ledger/index.js'
import { enqueuePaymentOutboxBatch, readOutboxStatus, type OutboxStatus } from '../../../outbox/index.js'
import { sleep } from '../../../worker/index.js'
import { ProgressBar, type Cli } from '../../terminal/Terminal.js'
import { readRailEffects } from '../ledger/withLedger.js'
import { DemoEnvironment } from './DemoEnvironment.js'
import { DemoFleet } from './DemoFleet.js'
import { BOOK_URL, demoPayment } from './demoRails.js'
import { between, seededRandom, type Random } from './seededRandom.js'

export interface DemoOptions {
  readonly payments: number
  readonly workers: number
  readonly seed: string
  readonly databaseUrl: string | undefined
}

/** What `--json` prints. */
export interface DemoResult {
  readonly payments: number
  readonly dispatched: number
  readonly failed: number
  readonly held: number
  readonly railEffects: number
  readonly doublePaid: number
  readonly lost: number
  readonly workerKills: number
  readonly seconds: number
}

export interface DemoOutcome {
  readonly result: DemoResult
  readonly audit: AuditReport
  /** Where everything is kept that shows what went wrong; undefined when nothing did. */
  readonly kept: string | undefined
  /** The schema and login left behind in a database that was given. */
  readonly leftBehind: string | undefined
}

/**
 * The whole story on one machine: payments, real workers, somebody who kills them, a rail that fails in every way. At the
 * end our book is held against the rail's, which is kept by a process that nobody kills.
 */
export async function runDemo(options: DemoOptions, cli: Cli): Promise<DemoOutcome> {
  const stage = await DemoEnvironment.open({ ...options, searchPath: cli.env['PATH'], signal: cli.signal })
  let sound = false
  try {
    const database = openDatabase({ url: stage.url, schema: stage.schema, applicationName: 'symphony demo' })
    try {
      const startedMs = systemClock.monotonicMs()
      const workerKills = await carryAll(options, { stage, database, cli })
      const seconds = (systemClock.monotonicMs() - startedMs) / 1_000
      const ledger = await openLedger({ url: stage.url, schema: stage.schema })
      const report = await ledger.audit({ effects: await readRailEffects(stage.bookFile), drained: true })
      await ledger.close()
      const result = summarise(options.payments, report, workerKills, seconds)
      sound = report.ok && result.lost === 0 && result.doublePaid === 0
      return {
        result,
        audit: report,
        kept: sound ? undefined : stage.folder,
        leftBehind: stage.leavesSchema ? stage.schema : undefined,
      }
    } finally {
      await database.close()
    }
  } finally {
    await stage.close()
    // An interrupted demo has shown nothing; one that found something keeps its evidence.
    if (sound || cli.signal.aborted) await stage.remove()
  }
}

interface DemoTools {
  readonly stage: DemoEnvironment
  readonly database: Database
  readonly cli: Cli
}

/** Returns the number of kills when nothing but held items is left. */
async function carryAll(options: DemoOptions, { stage, database, cli }: DemoTools): Promise<number> {
  const { payments, workers, seed } = options
  const fleet = new DemoFleet({
    size: workers,
    args: [programFile('../../childMain.js'), 'worker', '--no-http', '--until-stdin-closes', '--log-level', 'error'],
    env: { ...cli.env, ...workerSettings(stage) },
    logFile: `${stage.folder}/workers.log`,
    random: seededRandom(`victims ${seed}`),
  })
  const bar = new ProgressBar(cli.terminal, payments)
  const look = async () => {
    const status = await readOutboxStatus(database.as('symphony_readonly'))
    const ended = Number(status.dispatchedTotal + status.failedTotal)
    bar.show(ended, `${fleet.kills} workers killed, ${status.leasedCount} in flight, ${status.heldCount} held`)
    fleet.requireHealth()
    cli.signal.throwIfAborted()
    return status
  }
  fleet.start()
  try {
    await enqueueAmongKills(options, { database, fleet, look, signal: cli.signal })
    while (!isDrained(await look())) await sleep(LOOK_MS, cli.signal)
    return fleet.kills
  } finally {
    bar.clear()
    await fleet.stop()
  }
}

interface KillTools {
  readonly database: Database
  readonly fleet: DemoFleet
  readonly look: () => Promise<OutboxStatus>
  readonly signal: AbortSignal
}

/**
 * Each kill is followed by the next few payments, so that there is work in somebody's hands at every kill, however fast the
 * machine is: 5000 payments see at least fifty.
 */
async function enqueueAmongKills(
  { payments, seed }: DemoOptions,
  { database, fleet, look, signal }: KillTools,
): Promise<void> {
  const ofPayments = seededRandom(`payments ${seed}`)
  const ofPauses = seededRandom(`pauses ${seed}`)
  const run = `demo-${seed}`
  for (let first = 1; first <= payments; first += PAYMENTS_PER_KILL) {
    const count = Math.min(PAYMENTS_PER_KILL, payments - first + 1)
    await enqueueSome({ first, count, run }, ofPayments, database)
    await sleep(between(ofPauses, PAUSE_MS.min, PAUSE_MS.max), signal)
    do await look()
    while (!fleet.killOne() && (await pause(signal)))
  }
}

async function pause(signal: AbortSignal): Promise<true> {
  await sleep(LOOK_MS, signal)
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

/** Short leases: what a killed worker had in hand is taken over within seconds instead of a minute. */
function workerSettings(stage: DemoEnvironment): Record<string, string> {
  return {
    DATABASE_URL: stage.url,
    SYMPHONY_SCHEMA: stage.schema,
    SYMPHONY_RAILS: programFile('demoRails.js'),
    LEASE_SECONDS: '3',
    OUTBOX_BATCH_SIZE: '5',
    OUTBOX_CONCURRENCY: '8',
    LEASE_REPAIR_INTERVAL_MS: '2000',
    [BOOK_URL]: stage.book.url,
  }
}

function programFile(name: string): string {
  return fileURLToPath(new URL(name, import.meta.url))
}

function summarise(payments: number, report: AuditReport, workerKills: number, seconds: number): DemoResult {
  const { counts, invariants, railEffects, doublePaid } = report
  const dispatched = Number(counts.dispatched)
  const failed = Number(counts.failed)
  const held = Number(counts.held)
  // Gone from our book, or in it as paid and not in the rail's: either way somebody waits for money that will not come.
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
    workerKills,
    seconds: Math.round(seconds * 10) / 10,
  }
}

const PAYMENTS_PER_KILL = 90
const PAUSE_MS = { min: 150, max: 750 }
const LOOK_MS = 200
