import { randomUUID } from 'node:crypto'
import { Client } from 'pg'
import { inject } from 'vitest'
import { openDatabase, type Database, type DatabaseOptions } from '../../libs/db/index.js'

/** A database with a login and uniquely named roles for the tests of libs/db. It has no product schema. */
export class DbFixture {
  readonly name = `db_fixture_${randomUUID().replaceAll('-', '')}`
  /** Login that is a member of the roles and inherits none. */
  readonly login = `${this.name}_app`
  readonly worker = `${this.name}_worker`
  readonly reader = `${this.name}_reader`
  /** Role that is not granted to the login. */
  readonly notGranted = `${this.name}_not_granted`
  /** Superuser connection to this database. */
  readonly admin = new Client(urlFor(this.name))
  readonly #opened: Database[] = []

  static async set(): Promise<DbFixture> {
    const fixture = new DbFixture()
    await asServerAdmin(async (server) => {
      await server.query(`CREATE DATABASE ${fixture.name}`)
      await server.query(`
        CREATE ROLE ${fixture.worker};
        CREATE ROLE ${fixture.reader};
        CREATE ROLE ${fixture.notGranted};
        CREATE ROLE ${fixture.login} LOGIN NOINHERIT PASSWORD 'fixture';
        GRANT ${fixture.worker}, ${fixture.reader} TO ${fixture.login}`)
    })
    await fixture.admin.connect()
    await fixture.admin.query(
      `CREATE SCHEMA symphony; GRANT USAGE ON SCHEMA symphony TO ${fixture.worker}, ${fixture.reader}`,
    )
    return fixture
  }

  /** Returns the URL of the login, with another port if given. */
  url(port?: number): string {
    const url = new URL(urlFor(this.name))
    url.username = this.login
    url.password = 'fixture'
    if (port !== undefined) url.port = String(port)
    return url.href
  }

  open(options: Partial<DatabaseOptions> = {}): Database {
    const database = openDatabase({ url: this.url(), ...options })
    this.#opened.push(database)
    return database
  }

  async sessionsOfLogin(): Promise<number> {
    const { rows } = await this.admin.query<{ count: string }>(
      'SELECT count(*) FROM pg_stat_activity WHERE usename = $1',
      [this.login],
    )
    return Number(rows[0]?.count)
  }

  /** Terminates every session of the login and waits until they are gone. */
  async endSessions(): Promise<void> {
    const end = 'SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename = $1'
    await this.admin.query(end, [this.login])
  }

  async close(): Promise<void> {
    await Promise.all(this.#opened.map((database) => database.close()))
    await this.admin.end()
    await asServerAdmin(async (server) => {
      await server.query(`DROP DATABASE ${this.name} WITH (FORCE)`)
      await server.query(`DROP ROLE ${this.login}, ${this.worker}, ${this.reader}, ${this.notGranted}`)
    })
  }
}

function urlFor(database: string): string {
  const url = new URL(inject('serverUrl'))
  url.pathname = `/${database}`
  return url.href
}

async function asServerAdmin(work: (server: Client) => Promise<void>): Promise<void> {
  const server = new Client(inject('serverUrl'))
  await server.connect()
  try {
    await work(server)
  } finally {
    await server.end()
  }
}
