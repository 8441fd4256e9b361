import { randomBytes } from 'node:crypto'
import { AppError, boundedInteger, requiredText } from '../core/index.js'
import { DEFAULT_SCHEMA, openDatabase, type Database, type RoleHandle } from '../db/index.js'
import { createMarkedDatabase, dropDatabase, lockTemplates, moveTimes, nextMomentMs } from './db.js'
import { ensureTemplate } from './ensureTemplate.js'
import { databaseOf, loginOf, urlTo } from './serverUrl.js'
import { startTestServer } from './startTestServer.js'

export interface TestDatabaseOptions {
  /**
   * A superuser's address of a server on which databases may be made and dropped: of `startTestServer`, or your own.
   * @default an embedded PostgreSQL of its own, which takes a second or two to start
   */
  readonly serverUrl?: string
  /** Where Symphony is deployed in it. @default `symphony` */
  readonly schema?: string
}

/** A year: a wait beyond it is a mistake of the test. */
const ADVANCE_MS = Object.freeze({ min: 0, max: 366 * 86_400_000 })

/** A database of one test, with Symphony deployed: shared with nobody, gone after `drop`. */
export class TestDatabase implements AsyncDisposable {
  /** The superuser's address, for your own migrations and your own client. */
  readonly url: string
  readonly name: string
  readonly schema: string
  /** What Symphony's own classes take. Its login may act as every role. */
  readonly database: Database
  readonly #superuser: RoleHandle
  readonly #release: () => Promise<void>
  #dropped: Promise<void> | undefined

  /** Made by `createTestDatabase`. */
  constructor(url: string, schema: string, release: () => Promise<void>) {
    this.url = url
    this.schema = schema
    this.name = databaseOf(url)
    this.database = openDatabase({ url, schema })
    this.#superuser = this.database.as(loginOf(url))
    this.#release = release
  }

  /** As if so much time had passed for everything that waits here: due times, leases, claims. */
  async advance(ms: number): Promise<void> {
    boundedInteger('ms', ms, ADVANCE_MS)
    if (!(await moveTimes(this.#superuser, ms))) throw new NotATestDatabaseError(this.name)
  }

  /**
   * Moves on to the next moment at which the outbox has something to do that it has not now, for all rails or for these. Returns
   * how many milliseconds that was; null if no such moment will come.
   */
  async advanceToNextEvent(rails?: readonly string[]): Promise<number | null> {
    const wait = await nextMomentMs(this.#superuser, rails)
    if (wait !== null) await this.advance(wait)
    return wait
  }

  /** Closes the connections and drops the database. Safe to call twice. */
  drop(): Promise<void> {
    this.#dropped ??= this.database.close().then(this.#release)
    return this.#dropped
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.drop()
  }
}

/** Runs the body with a database of its own, and drops it whatever happens. */
export async function withTestDatabase<T>(
  body: (database: TestDatabase) => Promise<T>,
  options: TestDatabaseOptions = {},
): Promise<T> {
  const database = await createTestDatabase(options)
  try {
    return await body(database)
  } finally {
    await database.drop()
  }
}

export async function createTestDatabase(options: TestDatabaseOptions = {}): Promise<TestDatabase> {
  const schema = requiredText('schema', options.schema ?? DEFAULT_SCHEMA, 63)
  if (options.serverUrl !== undefined) return cloneTemplate(requiredText('serverUrl', options.serverUrl, 4_096), schema)
  const server = await startTestServer()
  try {
    return await cloneTemplate(server.url, schema, () => server.stop())
  } catch (error) {
    await server.stop()
    throw error
  }
}

async function cloneTemplate(serverUrl: string, schema: string, stop = async () => {}): Promise<TestDatabase> {
  const name = `symphony_test_${randomBytes(8).toString('hex')}`
  // Deploying the template happens inside a transaction that only waits.
  const server = openDatabase({ url: serverUrl, idleInTransactionTimeoutMs: 300_000 })
  const superuser = server.as(loginOf(serverUrl))
  try {
    await superuser.transaction(async (tx) => {
      await lockTemplates(tx)
      await createMarkedDatabase(superuser, name, await ensureTemplate(superuser, serverUrl, schema))
    })
  } catch (error) {
    await server.close()
    throw error
  }
  return new TestDatabase(urlTo(serverUrl, name), schema, async () => {
    await dropDatabase(superuser, name)
    await server.close()
    await stop()
  })
}

/** Refuses to move time in a database that was not made for a test. */
export class NotATestDatabaseError extends AppError {
  constructor(name: string) {
    super('NOT_A_TEST_DATABASE', `the database ${name} was not made by symphony-pg/testing`, {
      remedy: 'Use the database of createTestDatabase or withTestDatabase.',
    })
  }
}
