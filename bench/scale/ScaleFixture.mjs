// Fixture of the scale cases: one embedded server (fsync on), and databases cloned from a deployed template.
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Client } from 'pg'
import { openDatabase } from '../../dist/libs/db/index.js'
import { deploy } from '../../dist/libs/deployment/index.js'
import { startEmbedded } from '@symphony-pg/embedded'
import { fillLedger } from '../fill.mjs'
import { temporaryFolder } from '../folder.mjs'

const TEMPLATE = 'scale_template'

export class ScaleFixture {
  #folder
  #server
  #databases = 0
  #ledgers = new Map()

  constructor(folder, server) {
    this.#folder = folder
    this.#server = server
  }

  static async open() {
    const folder = await temporaryFolder('symphony-scale-')
    // Avoids a checkpoint after each gigabyte of a large fill. All other settings are the defaults.
    const server = await startEmbedded({ dataDir: join(folder, 'server'), settings: { max_wal_size: '4GB' } })
    const fixture = new ScaleFixture(folder, server)
    try {
      await fixture.#asAdministrator(`CREATE DATABASE ${TEMPLATE}`)
      await deploy({ url: fixture.#urlOf(TEMPLATE) })
      return fixture
    } catch (error) {
      await fixture.close()
      throw error
    }
  }

  async close() {
    for (const { database } of this.#ledgers.values()) await database.close()
    await this.#server.stop()
    await rm(this.#folder, { recursive: true, force: true })
  }

  /** Creates a database, passes it to the body and drops it afterwards. */
  async withDatabase(body) {
    const database = await this.#createDatabase()
    try {
      return await body(database)
    } finally {
      await database.close()
      await this.#asAdministrator(`DROP DATABASE ${database.name} WITH (FORCE)`)
    }
  }

  /**
   * Returns a database with `payments` payments in the ledger. Cases of the same size share it, because filling takes
   * minutes.
   */
  async filledLedger(payments, print) {
    const kept = this.#ledgers.get(payments)
    if (kept !== undefined) return kept
    const startedMs = performance.now()
    const database = await this.#createDatabase()
    const filler = await database.connect()
    await fillLedger(filler, { payments })
    await filler.query('CHECKPOINT')
    const [ingest, executor, readonly] = await Promise.all(
      ['symphony_ingest', 'symphony_executor', 'symphony_readonly'].map((role) => database.connect(role)),
    )
    const filled = { database, filler, ingest, executor, readonly }
    this.#ledgers.set(payments, filled)
    print(`${payments} payments filled in ${Math.round((performance.now() - startedMs) / 1_000)} s`)
    return filled
  }

  async #createDatabase() {
    const name = `scale_${(this.#databases += 1)}`
    await this.#asAdministrator(`CREATE DATABASE ${name} TEMPLATE ${TEMPLATE}`)
    return new StageDatabase(name, this.#urlOf(name))
  }

  async serverVersion() {
    const { rows } = await this.#asAdministrator('SHOW server_version')
    return rows[0].server_version
  }

  async #asAdministrator(sql) {
    const client = new Client({ connectionString: this.#server.url })
    await client.connect()
    try {
      return await client.query(sql)
    } finally {
      await client.end()
    }
  }

  #urlOf(name) {
    const url = new URL(this.#server.url)
    url.pathname = `/${name}`
    return url.href
  }
}

class StageDatabase {
  #clients = []
  #opened = []

  constructor(name, url) {
    this.name = name
    this.url = url
  }

  /** Connects as superuser with the deployment's schema in the search path; with `role`, switches to that role. */
  async connect(role) {
    const client = new Client({ connectionString: this.url })
    await client.connect()
    this.#clients.push(client)
    await client.query('SET search_path = symphony')
    if (role !== undefined) await client.query(`SET ROLE ${role}`)
    return client
  }

  /** Opens the database with the library's own pools. */
  open(options = {}) {
    const database = openDatabase({ url: this.url, ...options })
    this.#opened.push(database)
    return database
  }

  async close() {
    await Promise.all(this.#clients.map((client) => client.end()))
    await Promise.all(this.#opened.map((database) => database.close()))
  }
}
