import { randomBytes } from 'node:crypto'
import { SymphonyError, boundedInteger, requiredText, requireKnownOptions } from '../core/index.js'
import { DEFAULT_SCHEMA, openDatabase, type Database } from '../db/index.js'
import type { RailContract, TopicContracts } from '../rails/index.js'
import {
  Symphony,
  SYMPHONY_OPTIONS,
  type SymphonyOptions,
  type SymphonyWorker,
  type WorkerCounts,
  type WorkerOptions,
} from '../symphony/index.js'
import { createMarkedDatabase, dropDatabase, lockTemplates, moveTimes, nextMomentMs, type DrainedWork } from './db.js'
import { ensureTemplate } from './ensureTemplate.js'
import { databaseOf, loginOf, urlTo } from './serverUrl.js'
import { startTestServer } from './startTestServer.js'

/** Options of a Symphony without `url`, because the database is created for the test. */
export interface TestSymphonyOptions<
  Rails extends readonly RailContract[] = readonly RailContract[],
  Topics extends TopicContracts = TopicContracts,
> extends Omit<SymphonyOptions<Rails, Topics>, 'url' | 'pooler' | 'listenUrl'> {
  /**
   * URL of a superuser on a server where databases may be created and dropped: from `startTestServer`, or your own.
   * @default an embedded PostgreSQL for this test, which takes one or two seconds to start
   */
  readonly serverUrl?: string | undefined
}

export interface DrainOptions<Topics extends TopicContracts = TopicContracts> extends Pick<
  WorkerOptions<Topics>,
  'rails' | 'topics' | 'inbox' | 'scheduler'
> {
  /**
   * Whether to move time to the next due time whenever nothing is due, until nothing is left. Covers retries, delayed
   * payments and expired leases. @default false
   */
  readonly throughTime?: boolean
  /** Maximum number of rounds. More rounds probably mean an endless loop in the test. @default 200 */
  readonly roundsMax?: number
}

/** Names of the options: those of a Symphony, with `serverUrl` instead of the options that name a server. */
const TEST_OPTIONS = ['serverUrl', ...SYMPHONY_OPTIONS.filter((name) => !['url', 'pooler', 'listenUrl'].includes(name))]

const DRAIN_OPTIONS = Object.keys({
  throughTime: true,
  roundsMax: true,
  rails: true,
  topics: true,
  inbox: true,
  scheduler: true,
} satisfies Record<keyof DrainOptions, true>)

/** Bounds of `advance`, up to a year. A longer wait is a mistake in the test. */
const ADVANCE_MS = Object.freeze({ min: 0, max: 366 * 86_400_000 })
const ROUNDS = Object.freeze({ min: 1, max: 100_000 })

/**
 * Symphony with its own database, which `close()` drops. The SQL functions are the real ones; only time is moved by the
 * test.
 */
export class TestSymphony<
  const Rails extends readonly RailContract[] = readonly RailContract[],
  const Topics extends TopicContracts = TopicContracts,
> extends Symphony<Rails, Topics> {
  /** URL of the superuser, for migrations and your own client. */
  readonly url: string
  readonly schema: string
  readonly #admin: Database
  readonly #rails: readonly RailContract[]
  readonly #release: () => Promise<void>
  #dropped: Promise<void> | undefined

  /** Called by `createTestSymphony`. */
  constructor(options: SymphonyOptions<Rails, Topics> & { readonly url: string }, release: () => Promise<void>) {
    super(options)
    this.url = options.url
    this.schema = options.schema ?? DEFAULT_SCHEMA
    this.#admin = openDatabase({ url: this.url, schema: this.schema, connectionsMax: 1 })
    this.#rails = options.rails ?? []
    this.#release = release
  }

  /**
   * Runs rounds of a worker until a round finds nothing, and returns the sum of their counts. With `throughTime`, moves
   * time whenever a round finds nothing, and ends when nothing is left. Uses the rails of this Symphony that have an
   * adapter, and the given handlers. Circuit breakers open only after 1000 failures, so that a failing rail does not
   * stop the drain.
   */
  async drain(options: DrainOptions<Topics> = {}): Promise<WorkerCounts> {
    requireKnownOptions(options, DRAIN_OPTIONS)
    const { throughTime = false, roundsMax = 200, ...parts } = options
    boundedInteger('roundsMax', roundsMax, ROUNDS)
    const worker = this.worker({ ...parts, maintenance: false, listen: false, breakerFailures: 1_000 })
    try {
      return await this.#drainBy(worker, roundsMax, throughTime ? this.#workOf(parts) : undefined)
    } finally {
      // stop() would close the given rails, which the caller may use again. With given rails, close() stops the worker
      // later.
      if (parts.rails === undefined) await worker.stop()
    }
  }

  /**
   * Moves all due times, retries, leases and claims in the database back, as if this time had passed. The ledger stays.
   */
  async advance(ms: number): Promise<void> {
    boundedInteger('ms', ms, ADVANCE_MS)
    if (!(await moveTimes(this.#superuser, ms))) throw new NotATestDatabaseError(databaseOf(this.url))
  }

  /**
   * Moves time to the next due time or lease expiry of a payment or message, or to the next timer that becomes a
   * message. Returns the distance in milliseconds; null without one.
   */
  advanceToNextEvent(): Promise<number | null> {
    return this.#advanceToNext({ rails: undefined, inboxTopics: undefined, scheduler: true })
  }

  /** Stops the workers, closes the connections and drops the database. Safe to call twice. */
  override close(): Promise<void> {
    this.#dropped ??= this.#drop()
    return this.#dropped
  }

  async #drop(): Promise<void> {
    try {
      await super.close()
    } finally {
      await this.#admin.close()
      await this.#release()
    }
  }

  async #drainBy(worker: SymphonyWorker, roundsMax: number, work: DrainedWork | undefined): Promise<WorkerCounts> {
    let total = NOTHING
    let idleRounds = 0
    for (let round = 0; round < roundsMax; round += 1) {
      const counts = await worker.runOnce()
      total = sum(total, counts)
      const isIdle = counts.claimed + counts.inboxClaimed + counts.scheduled === 0
      idleRounds = isIdle ? idleRounds + 1 : 0
      if (!isIdle) continue
      if (work === undefined) return total
      const moved = await this.#advanceToNext(work)
      // An item may become due between the round and the query. Another round finds it.
      if (moved === null && idleRounds > 1) return total
    }
    throw new DrainUnfinishedError(roundsMax)
  }

  async #advanceToNext(work: DrainedWork): Promise<number | null> {
    const wait = await nextMomentMs(this.#superuser, work)
    if (wait !== null) await this.advance(wait)
    return wait
  }

  #workOf({ rails, topics = {}, inbox, scheduler = false }: DrainParts<Topics>): DrainedWork {
    return {
      rails: [...(rails ?? this.#rails).map(({ type }) => type), ...Object.keys(topics)],
      inboxTopics: Object.keys(inbox?.handlers ?? {}),
      scheduler: scheduler !== false,
    }
  }

  get #superuser() {
    return this.#admin.as(loginOf(this.url))
  }
}

type DrainParts<Topics extends TopicContracts> = Omit<DrainOptions<Topics>, 'throughTime' | 'roundsMax'>

/** Runs the body with a new Symphony, and drops its database afterwards. */
export async function withTestSymphony<
  T,
  const Rails extends readonly RailContract[] = readonly RailContract[],
  const Topics extends TopicContracts = TopicContracts,
>(
  options: TestSymphonyOptions<Rails, Topics>,
  body: (symphony: TestSymphony<Rails, Topics>) => Promise<T>,
): Promise<T> {
  const symphony = await createTestSymphony(options)
  try {
    return await body(symphony)
  } finally {
    await symphony.close()
  }
}

/** Creates a database with Symphony deployed, by cloning a template. `close()` drops it. */
export async function createTestSymphony<
  const Rails extends readonly RailContract[] = readonly RailContract[],
  const Topics extends TopicContracts = TopicContracts,
>(options: TestSymphonyOptions<Rails, Topics> = {}): Promise<TestSymphony<Rails, Topics>> {
  requireKnownOptions(options, TEST_OPTIONS)
  const { serverUrl, ...own } = options
  requiredText('schema', options.schema ?? DEFAULT_SCHEMA, 63)
  if (serverUrl !== undefined) return cloneTemplate(requiredText('serverUrl', serverUrl, 4_096), own)
  const server = await startTestServer()
  try {
    return await cloneTemplate(server.url, own, () => server.stop())
  } catch (error) {
    await server.stop()
    throw error
  }
}

async function cloneTemplate<Rails extends readonly RailContract[], Topics extends TopicContracts>(
  serverUrl: string,
  options: SymphonyOptions<Rails, Topics>,
  stop = async () => {},
): Promise<TestSymphony<Rails, Topics>> {
  const name = `symphony_test_${randomBytes(8).toString('hex')}`
  // Allows a long idle time, because the transaction that holds the lock is idle while the template is deployed.
  const server = openDatabase({ url: serverUrl, idleInTransactionTimeoutMs: 300_000 })
  const superuser = server.as(loginOf(serverUrl))
  // The constructor checks the options before the database is created.
  const symphony = new TestSymphony({ ...options, url: urlTo(serverUrl, name) }, async () => {
    await dropDatabase(superuser, name)
    await server.close()
    await stop()
  })
  try {
    await superuser.transaction(async (tx) => {
      await lockTemplates(tx)
      await createMarkedDatabase(superuser, name, await ensureTemplate(superuser, serverUrl, symphony.schema))
    })
  } catch (error) {
    await server.close()
    throw error
  }
  return symphony
}

/** Thrown for a move of time in a database that was not created for a test. */
export class NotATestDatabaseError extends SymphonyError {
  constructor(name: string) {
    super('NOT_A_TEST_DATABASE', `the database ${name} was not created by symphony-pg/testing`, {
      remedy: 'Use createTestSymphony or withTestSymphony.',
    })
  }
}

/** Thrown if work is left after the last round. */
export class DrainUnfinishedError extends SymphonyError {
  constructor(rounds: number) {
    super('DRAIN_UNFINISHED', `work is left after ${rounds} rounds`, {
      remedy: 'Find the item that is enqueued repeatedly, or raise roundsMax.',
    })
  }
}

function sum(a: WorkerCounts, b: WorkerCounts): WorkerCounts {
  return {
    claimed: a.claimed + b.claimed,
    dispatched: a.dispatched + b.dispatched,
    failed: a.failed + b.failed,
    retryable: a.retryable + b.retryable,
    held: a.held + b.held,
    released: a.released + b.released,
    leasesLost: a.leasesLost + b.leasesLost,
    inboxClaimed: a.inboxClaimed + b.inboxClaimed,
    handled: a.handled + b.handled,
    scheduled: a.scheduled + b.scheduled,
    sealed: a.sealed + b.sealed,
  }
}

const NOTHING: WorkerCounts = Object.freeze({
  claimed: 0,
  dispatched: 0,
  failed: 0,
  retryable: 0,
  held: 0,
  released: 0,
  leasesLost: 0,
  inboxClaimed: 0,
  handled: 0,
  scheduled: 0,
  sealed: 0,
})
