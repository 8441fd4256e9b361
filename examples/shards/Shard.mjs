// PostgreSQL cluster of the example: a primary and a standby on one machine, with the embedded server. In production,
// Patroni manages the nodes.
import { execFile } from 'node:child_process'
import { chown, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'
import { deploy } from 'symphony-pg/admin'
import { startEmbedded, stopEmbedded } from '@symphony-pg/embedded'

export class Shard {
  #folder
  #primary
  #promoting
  #standbyUrl

  constructor(name, folder) {
    this.name = name
    this.#folder = join(folder, name)
  }

  /** Returns the URL of the current primary. */
  get url() {
    return this.#primary.url
  }

  async start() {
    this.#primary = await startEmbedded({ dataDir: join(this.#folder, 'first') })
    await deploy({ url: this.url })
  }

  /** Adds a synchronous standby: a copy of the primary that streams from it. */
  async follow() {
    const [first, second] = ['first', 'second'].map((name) => join(this.#folder, name))
    await this.#primary.stop()
    await promisify(execFile)('cp', ['-a', first, second])
    this.#primary = await startEmbedded({ dataDir: first, port: this.#primary.port })
    const data = join(second, 'postgres', 'data')
    await writeFile(join(data, 'standby.signal'), '')
    const { uid, gid } = await stat(data)
    await chown(join(data, 'standby.signal'), uid, gid)
    const { hostname, port, username, password } = new URL(this.url)
    const conninfo = `host=${hostname} port=${port} user=${username} password=${decodeURIComponent(password)}`
    const standbyPort = this.#primary.port + 1
    // `startEmbedded` resolves when the server accepts writes, which is after its promotion.
    this.#promoting = startEmbedded({ dataDir: second, port: standbyPort, settings: { primary_conninfo: conninfo } })
    this.#promoting.catch(() => {})
    this.#standbyUrl = Object.assign(new URL(this.url), { port: String(standbyPort) }).href
    await until(() => ask(this.url, `SELECT state = 'streaming' AS answer FROM pg_stat_replication`))
    await ask(this.url, `ALTER SYSTEM SET synchronous_standby_names = '*'`)
    await ask(this.url, 'SELECT pg_reload_conf() AS answer')
    await until(() => ask(this.url, `SELECT sync_state = 'sync' AS answer FROM pg_stat_replication`))
  }

  /** Kills the primary with SIGKILL and promotes the standby, which has another URL. */
  async failOver() {
    const pidFile = join(this.#folder, 'first', 'postgres', 'data', 'postmaster.pid')
    process.kill(Number.parseInt(await readFile(pidFile, 'utf8'), 10), 'SIGKILL')
    await ask(this.#standbyUrl, 'SELECT pg_promote() AS answer')
    this.#primary = await this.#promoting
  }

  async stop() {
    for (const name of ['first', 'second']) await stopEmbedded(join(this.#folder, name), { force: true })
  }
}

async function ask(url, sql) {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query(sql)).rows[0]?.answer
  } finally {
    await client.end()
  }
}

async function until(look) {
  while (!(await look().catch(() => false))) await sleep(50)
}
