import { stat, writeFile, chown } from 'node:fs/promises'
import { join } from 'node:path'
import { Client } from 'pg'
import { startEmbedded, stopEmbedded, type EmbeddedServer } from '../../embedded/index.js'
import { choosePort } from '../../embedded/ports.js'
import { waitUntil } from '../scorecard/waitUntil.js'
import { copyFolder, makeTestFolder, MEMORY_IN_FILES, removeTestFolder } from './server.js'

/** Copies of the folders of stopped servers, passwords included, from which an older state or a standby starts. */
export class ServerCopies {
  readonly #folders: string[] = []

  async of(dataDir: string): Promise<string> {
    const folder = await makeTestFolder()
    this.#folders.push(folder)
    const copy = join(folder, 'symphony')
    await copyFolder(dataDir, copy)
    return copy
  }

  /** Stops servers in these folders and deletes the folders. */
  async remove(): Promise<void> {
    for (const folder of this.#folders) await removeTestFolder(folder)
  }
}

interface Launch {
  readonly dataDir: string
  readonly port: number
  readonly binaries: string | undefined
  /** Settings of the standby. Limits must not be lower than on the primary. */
  readonly settings: Readonly<Record<string, string>>
}

/** A streaming standby in a copy of its primary's folder. */
export class Standby {
  readonly #launch: Launch
  readonly #primaryUrl: string
  #starting: Promise<EmbeddedServer> | undefined

  private constructor(launch: Launch, primaryUrl: string) {
    this.#launch = launch
    this.#primaryUrl = primaryUrl
  }

  static async of(
    primaryUrl: string,
    copy: string,
    binaries: string | undefined,
    settings: Launch['settings'] = {},
  ): Promise<Standby> {
    const port = await choosePort(undefined, undefined)
    const standby = new Standby({ dataDir: copy, port, binaries, settings }, primaryUrl)
    const signal = join(copy, 'postgres/data/standby.signal')
    await writeFile(signal, '')
    // Gives the file to the server's account, which removes it at the promotion.
    const { uid, gid } = await stat(join(copy, 'postgres/data'))
    await chown(signal, uid, gid)
    await standby.start()
    return standby
  }

  get url(): string {
    const url = new URL(this.#primaryUrl)
    url.port = String(this.#launch.port)
    return url.href
  }

  /**
   * Resolves when the standby answers. `startEmbedded` itself resolves only after the promotion, when the server is
   * writable.
   */
  async start(): Promise<void> {
    const { hostname, port, username, password } = new URL(this.#primaryUrl)
    const conninfo = `host=${hostname} port=${port} user=${username} password=${decodeURIComponent(password)}`
    const { settings } = this.#launch
    this.#starting = startEmbedded({
      ...this.#launch,
      settings: { ...MEMORY_IN_FILES, ...settings, primary_conninfo: conninfo },
    })
    // `promote` reports the error.
    this.#starting.catch(() => {})
    await waitUntil('the standby answers', () =>
      askYes(this.url, 'SELECT pg_is_in_recovery() AS answer').catch(() => false),
    )
  }

  async stop(): Promise<void> {
    await stopEmbedded(this.#launch.dataDir, { force: true })
  }

  async promote(): Promise<EmbeddedServer> {
    await ask(this.url, 'SELECT pg_promote() AS answer')
    return this.#starting!
  }

  /** Waits until the standby has replayed all commits of the primary. */
  async catchUp(): Promise<void> {
    const lsn = await ask(this.#primaryUrl, 'SELECT pg_current_wal_lsn() AS answer')
    await waitUntil('the standby has replayed all commits', () =>
      askYes(this.url, `SELECT pg_last_wal_replay_lsn() >= '${String(lsn)}' AS answer`),
    )
  }
}

async function askYes(serverUrl: string, sql: string): Promise<boolean> {
  return (await ask(serverUrl, sql)) === true
}

/** Runs a query as superuser and returns the column `answer` of the first row. */
export async function ask(serverUrl: string, sql: string): Promise<unknown> {
  const client = new Client({ connectionString: serverUrl })
  // A server that goes down sends an error.
  client.on('error', () => {})
  await client.connect()
  try {
    const { rows } = await client.query<{ answer: unknown }>(sql)
    return rows[0]?.answer
  } finally {
    await client.end()
  }
}
