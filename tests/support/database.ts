import { createHash, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { Client, type ClientConfig } from 'pg'
import { afterAll, inject } from 'vitest'
import {
  openDatabase,
  quoteIdentifier,
  type Database,
  type Queryable,
  type RoleHandle,
  type Rows,
} from '../../libs/db/index.js'
import { valueParsers } from '../../libs/db/values.js'
import { deploy } from '../../libs/deployment/index.js'
import { abandonDatabase } from './abandonedDatabases.js'
import { quickPassword } from './quickPassword.js'
import { appendBranchHits, instrumentBranches, readBranchHits } from '../sqlBranches/sqlBranches.js'

export interface TestDatabaseOptions {
  /** Server of the database. @default the run's own server */
  readonly serverUrl?: string
  /** @default SYMPHONY_TEST_SCHEMA, else `symphony` */
  readonly schema?: string
  /** `empty` for a test that deploys itself. @default `deployed` */
  readonly content?: 'deployed' | 'empty'
  /**
   * Whether functions count executed branches, if SYMPHONY_TEST_SQL_BRANCHES names a folder. A test of the catalog
   * turns it off, because counters change the bodies.
   * @default true
   */
  readonly countBranches?: boolean
}

/** Database of one test file, cloned from the deployed template and dropped at the end. */
export interface TestDatabase extends AsyncDisposable {
  /** URL for the superuser. */
  readonly url: string
  readonly name: string
  readonly schema: string
  /** Pool of a login that is a member of every runtime role and inherits none, like Symphony's processes. */
  readonly database: Database
  /** Returns the pool in one role. `symphony_owner` uses the superuser, because no login may be its member. */
  as(role: string): RoleHandle
  /** Returns the qualified name of an object, for connections without the schema in their search path. */
  qualify(objectName: string): string
  /** Runs a statement as superuser, with the schema first in the search path. */
  queryNoRole<R = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Rows<R>>
  /** Opens a single connection in a role or as superuser, with the schema first in the search path. */
  connect(role?: string): Promise<Client>
  /** Creates a login named `${name}_${database}`, dropped with the database. */
  createLogin(name: string, options?: LoginOptions): Promise<TestLogin>
  /** Moves the item's lease into the past. */
  expireLease(outboxId: string): Promise<void>
  /** Moves the item's due time into the past. */
  makeDue(outboxId: string): Promise<void>
  drop(): Promise<void>
}

export interface LoginOptions {
  readonly roles?: readonly string[]
  /** @default false */
  readonly inherit?: boolean
}

export interface TestLogin {
  readonly name: string
  readonly url: string
  readonly database: Database
  connect(): Promise<Client>
}

const RUNTIME_ROLES = [
  'symphony_control',
  'symphony_ingest',
  'symphony_executor',
  'symphony_readonly',
  'symphony_auditor',
  'symphony_auth',
]

/** Login for every database of the run, because logins belong to the cluster. */
const TEST_LOGIN = 'symphony_test_login'
const PASSWORD = 'test'
const PASSWORD_KEPT = quickPassword(PASSWORD)
/** Few, because a new connection takes 20 to 50 ms of CPU in the server. A race of more calls uses `race()`. */
const CONNECTIONS_MAX = 16

export function testSchema(): string {
  return process.env['SYMPHONY_TEST_SCHEMA'] ?? 'symphony'
}

export async function createTestDatabase(options: TestDatabaseOptions = {}): Promise<TestDatabase> {
  const { serverUrl = inject('serverUrl'), schema = testSchema(), content = 'deployed' } = options
  const countsFolder = options.countBranches === false ? undefined : process.env['SYMPHONY_TEST_SQL_BRANCHES']
  const recipe = { serverUrl, schema, countsFolder: content === 'empty' ? undefined : countsFolder }
  // Has no digits, because stored error texts may contain it, and redaction replaces long runs of digits.
  const name = `test_${randomBytes(6)
    .toString('hex')
    .replaceAll(/\d/g, (digit) => 'ghijklmnop'[Number(digit)]!)}`
  await onServer(serverUrl, async (server) => {
    const template = content === 'empty' ? 'template0' : await ensureTemplate(server, recipe)
    await server.query(`CREATE DATABASE ${name} TEMPLATE ${quoteIdentifier(template)}`)
  })
  return new ClonedDatabase(name, recipe)
}

/** Creates the database of a spec file and drops it after all other hooks of the file. */
export async function useTestDatabase(options: TestDatabaseOptions = {}): Promise<TestDatabase> {
  const database = await createTestDatabase(options)
  afterAll(() => database.drop())
  return database
}

/** Runs the body with a new database and drops it afterwards. */
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

interface Recipe {
  readonly serverUrl: string
  readonly schema: string
  /** Folder for the counts of executed branches. Undefined if functions do not count. */
  readonly countsFolder: string | undefined
}

class ClonedDatabase implements TestDatabase {
  readonly url: string
  readonly name: string
  readonly schema: string
  readonly database: Database
  readonly #recipe: Recipe
  readonly #asSuperuser: Database
  readonly #databases: Database[] = []
  readonly #clients: Client[] = []
  #free: Client[] = []

  constructor(name: string, recipe: Recipe) {
    const { serverUrl, schema } = recipe
    this.#recipe = recipe
    this.name = name
    this.schema = schema
    this.url = urlTo(serverUrl, name)
    this.database = this.#open(urlTo(serverUrl, name, TEST_LOGIN))
    this.#asSuperuser = this.#open(this.url)
  }

  as(role: string): RoleHandle {
    return (role === 'symphony_owner' ? this.#asSuperuser : this.database).as(role)
  }

  qualify(objectName: string): string {
    return `${quoteIdentifier(this.schema)}.${quoteIdentifier(objectName)}`
  }

  async queryNoRole<R = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Rows<R>> {
    const client = this.#free.pop() ?? (await this.connect())
    let isOpen = true
    try {
      return await asQueryable(client).query<R>(text, values)
    } catch (error) {
      // An error of the driver has no SQLSTATE: the server was killed, and the connection is lost.
      isOpen = error instanceof Error && 'code' in error
      throw error
    } finally {
      if (isOpen) this.#free.push(client)
    }
  }

  async connect(role?: string): Promise<Client> {
    const asSuperuser = role === undefined || role === 'symphony_owner'
    const client = await this.#connect(asSuperuser ? this.url : urlTo(this.#recipe.serverUrl, this.name, TEST_LOGIN))
    if (role !== undefined) await client.query(`SET ROLE ${quoteIdentifier(role)}`)
    return client
  }

  async createLogin(name: string, { roles = [], inherit = false }: LoginOptions = {}): Promise<TestLogin> {
    const login = `${name}_${this.name}`
    const quoted = quoteIdentifier(login)
    await this.queryNoRole(
      `CREATE ROLE ${quoted} LOGIN ${inherit ? 'INHERIT' : 'NOINHERIT'} PASSWORD '${PASSWORD_KEPT}'`,
    )
    for (const role of roles) await this.queryNoRole(`GRANT ${quoteIdentifier(role)} TO ${quoted}`)
    const url = urlTo(this.#recipe.serverUrl, this.name, login)
    return { name: login, url, database: this.#open(url), connect: () => this.#connect(url) }
  }

  async expireLease(outboxId: string): Promise<void> {
    const { rows } = await this.queryNoRole(
      `UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() - interval '1 second'
       WHERE outbox_id = $1 AND lease_token IS NOT NULL RETURNING outbox_id`,
      [outboxId],
    )
    if (rows.length === 0) throw new Error(`${outboxId} has no lease to expire`)
  }

  async makeDue(outboxId: string): Promise<void> {
    const { rows } = await this.queryNoRole(
      `UPDATE payment_outbox_pending SET next_attempt_at = clock_timestamp() - interval '1 second'
       WHERE outbox_id = $1 RETURNING outbox_id`,
      [outboxId],
    )
    if (rows.length === 0) throw new Error(`${outboxId} is not pending`)
  }

  async drop(): Promise<void> {
    this.#free = []
    await Promise.all(this.#databases.map((database) => database.close()))
    await Promise.all(this.#clients.map((client) => client.end().catch(() => {})))
    await this.#leaveCounts()
    // Dropping waits for a checkpoint, so a background process does it.
    await onServer(this.#recipe.serverUrl, (server) => abandonDatabase(server, this.name))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.drop()
  }

  /** Runs after the connections are closed, because a backend reports its last calls when it ends. */
  async #leaveCounts(): Promise<void> {
    const { countsFolder, schema } = this.#recipe
    if (countsFolder === undefined) return
    const hits = await onServer(this.url, (client) => readBranchHits(asQueryable(client), schema))
    await appendBranchHits(join(countsFolder, `${this.name}.jsonl`), hits)
  }

  #open(url: string): Database {
    const database = openDatabase({ url, schema: this.schema, connectionsMax: CONNECTIONS_MAX })
    this.#databases.push(database)
    return database
  }

  async #connect(url: string): Promise<Client> {
    const client = await connectClient(url, { options: `-c search_path=${startupValue(this.schema)},pg_temp` })
    this.#clients.push(client)
    return client
  }
}

/**
 * Deploys the template once per server and schema. It gets its final name only when complete, so that a killed run
 * leaves no broken template.
 */
async function ensureTemplate(server: Client, { serverUrl, schema, countsFolder }: Recipe): Promise<string> {
  const counts = countsFolder !== undefined
  const template = `template_${createHash('sha256').update(schema).digest('hex').slice(0, 12)}${counts ? '_counts' : ''}`
  // The session holds the lock until this call ends. Files that start together wait for the first one.
  await server.query(`SELECT pg_advisory_lock(hashtext('symphony test template'))`)
  const { rows } = await server.query(`SELECT 1 FROM pg_database WHERE datname = $1`, [template])
  if (rows.length > 0) return template
  const draft = `${template}_draft`
  await server.query(`DROP DATABASE IF EXISTS ${draft} WITH (FORCE)`)
  await server.query(`CREATE DATABASE ${draft} TEMPLATE template0`)
  await deploy({ url: urlTo(serverUrl, draft), schema })
  if (counts) await onServer(urlTo(serverUrl, draft), (client) => instrumentBranches(asQueryable(client), schema))
  await ensureTestLogin(server)
  await server.query(`ALTER DATABASE ${draft} RENAME TO ${template}`)
  await server.query(`ALTER DATABASE ${template} ALLOW_CONNECTIONS false`)
  return template
}

async function ensureTestLogin(server: Client): Promise<void> {
  const { rows } = await server.query(`SELECT 1 FROM pg_roles WHERE rolname = $1`, [TEST_LOGIN])
  if (rows.length > 0) return
  await server.query(`CREATE ROLE ${TEST_LOGIN} LOGIN NOINHERIT PASSWORD '${PASSWORD_KEPT}'`)
  await server.query(`GRANT ${RUNTIME_ROLES.join(', ')} TO ${TEST_LOGIN}`)
}

async function onServer<T>(serverUrl: string, body: (server: Client) => Promise<T>): Promise<T> {
  const server = await connectClient(serverUrl)
  try {
    return await body(server)
  } finally {
    await server.end()
  }
}

async function connectClient(url: string, config: ClientConfig = {}): Promise<Client> {
  const client = new Client({ connectionString: url, types: valueParsers, ...config })
  // Ignores the error: the running query fails with it as well, or DROP DATABASE … WITH (FORCE) has caused it.
  client.on('error', () => {})
  await client.connect()
  return client
}

/** Adapts a client of the driver, whose types are wider: it returns more and takes a mutable array. */
export function asQueryable(client: Client): Queryable {
  return { query: (text, values) => client.query<never>(text, values === undefined ? undefined : [...values]) }
}

function urlTo(serverUrl: string, database: string, login?: string): string {
  const url = new URL(serverUrl)
  url.pathname = `/${database}`
  if (login !== undefined) {
    url.username = encodeURIComponent(login)
    url.password = PASSWORD
  }
  return url.href
}

/** Escapes a name for the options of the start-up packet, where a space separates words and a backslash escapes it. */
function startupValue(name: string): string {
  return quoteIdentifier(name).replaceAll(/[\\ ]/g, '\\$&')
}
