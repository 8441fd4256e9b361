import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { readRailEffects } from '../../libs/cli/commands/ledger/withLedger.js'
import type { EmbeddedServer } from '../../embedded/index.js'
import type { AuditReport } from '../../libs/ledger/index.js'
import {
  enqueuePaymentOutbox,
  enqueuePaymentOutboxBatch,
  readOutboxStatus,
  type EnqueuedItem,
  type OutboxInstruction,
  type OutboxStatus,
} from '../../libs/outbox/index.js'
import type { startRailBook } from '../../libs/rails/index.js'
import { builtPath } from '../support/builtPath.js'
import type { TestDatabase } from '../support/database.js'
import { killServer } from '../support/killServer.js'
import type { PrivateServer } from '../support/server.js'
import { TcpProxy } from '../support/tcpProxy.js'
import type { ScenarioFixture } from './ScenarioFixture.js'
import { retryUntilSuccess, waitUntil } from './waitUntil.js'
import { WorkerFleet } from './WorkerFleet.js'
import { auditLedger } from '../support/ledgerFixture.js'

export interface RelayScenarioOptions {
  /**
   * Rails, as the text of an array that may use `simulatedRail`, `bookUrl` and `appendFileSync`. Each payment they make
   * is a line in the rail book.
   */
  readonly rails: string
  readonly settings?: Readonly<Record<string, string>>
  /** Folder of PostgreSQL programs that replace the default ones. */
  readonly binaries?: string
  /** Whether all connections pass `proxy`, which can lead to another server. @default false */
  readonly proxied?: boolean
}

export interface FleetSettings {
  readonly name?: string
  readonly words?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** Port that replaces the server's port, for example the port of a proxy. */
  readonly port?: number
  /** Folder of another release. @default this release */
  readonly dist?: string
  /** @see WorkerFleetOptions */
  readonly command?: (workerId: string) => readonly string[]
}

export interface ServerCycle {
  readonly kill: boolean
  readonly downMs: number
  /** Called when the server has stopped. */
  readonly whenDown?: () => void
}

/** A server, a database, a rail book in its own process, and fleets of workers. */
export class RelayScenario {
  readonly db: TestDatabase
  readonly server: PrivateServer
  readonly bookFile: string
  readonly bookUrl: string
  readonly #fixture: ScenarioFixture
  readonly #railsFile: string
  /** URL of the database for workers. */
  readonly workerUrl: string
  readonly #proxy: TcpProxy | undefined
  #running: EmbeddedServer
  serverKills = 0

  private constructor(
    fixture: ScenarioFixture,
    given: Pick<RelayScenario, 'db' | 'server' | 'bookFile' | 'bookUrl'>,
    files: { readonly railsFile: string; readonly workerUrl: string; readonly proxy: TcpProxy | undefined },
  ) {
    this.#fixture = fixture
    this.db = given.db
    this.server = given.server
    this.bookFile = given.bookFile
    this.bookUrl = given.bookUrl
    this.#railsFile = files.railsFile
    this.workerUrl = files.workerUrl
    this.#proxy = files.proxy
    this.#running = given.server
  }

  static async create(fixture: ScenarioFixture, options: RelayScenarioOptions): Promise<RelayScenario> {
    const { rails, settings = {}, binaries, proxied = false } = options
    const server = await fixture.startServer(settings, binaries)
    const proxy = proxied ? await TcpProxy.before(server.url) : undefined
    fixture.defer(() => proxy?.close())
    const db = await fixture.createDatabase({ url: urlThrough(server.url, proxy?.port) })
    const { url: workerUrl } = await db.createLogin('worker', { roles: ['symphony_executor', 'symphony_readonly'] })
    const bookFile = join(fixture.folder, 'rail-book.ndjson')
    // Imported from dist/, because startRailBook starts a program file of the same folder.
    const built: { startRailBook: typeof startRailBook } = await import(
      /* @vite-ignore */ pathToFileURL(builtPath('libs/rails/index.js')).href
    )
    const book = await built.startRailBook({ file: bookFile })
    fixture.defer(() => book.stop())
    const railsFile = join(fixture.folder, 'rails.mjs')
    await writeFile(railsFile, railsModule(rails))
    return new RelayScenario(fixture, { db, server, bookFile, bookUrl: book.url }, { railsFile, workerUrl, proxy })
  }

  /** Proxy before the server. Throws if the scenario was created without the option `proxied`. */
  get proxy(): TcpProxy {
    if (this.#proxy === undefined) throw new Error('this scenario has no proxy')
    return this.#proxy
  }

  /** Returns the log lines of all workers so far. */
  async logLines(): Promise<readonly string[]> {
    return (await readFile(join(this.#fixture.folder, 'workers.log'), 'utf8')).split('\n')
  }

  fleet({ name = 'worker', words = [], env = {}, port, dist, command }: FleetSettings = {}): WorkerFleet {
    const fleet = new WorkerFleet({
      name,
      words: ['--rails', this.#railsFile, ...words],
      env: {
        DATABASE_URL: urlThrough(this.workerUrl, port),
        SYMPHONY_SCHEMA: this.db.schema,
        RAILS_MODULE: pathToFileURL(builtPath('libs/rails/index.js')).href,
        BOOK_URL: this.bookUrl,
        ...env,
      },
      logFile: join(this.#fixture.folder, 'workers.log'),
      dist,
      command,
    })
    this.#fixture.defer(() => fleet.killAll())
    return fleet
  }

  enqueueOnce(instruction: OutboxInstruction): Promise<EnqueuedItem> {
    return enqueuePaymentOutbox(this.db.as('symphony_ingest'), instruction)
  }

  /** Enqueues and repeats the call with the same keys until it succeeds. */
  enqueue(instructions: readonly OutboxInstruction[]): Promise<EnqueuedItem[]> {
    const ingest = this.db.as('symphony_ingest')
    return retryUntilSuccess('an enqueue', () => enqueuePaymentOutboxBatch(ingest, instructions))
  }

  status(): Promise<OutboxStatus> {
    return retryUntilSuccess('a read of the queue', () => readOutboxStatus(this.db.as('symphony_readonly')))
  }

  /** Resolves when only held items are left. */
  async untilDrained(timeoutMs = 600_000): Promise<OutboxStatus> {
    return waitUntil(
      'the queue is drained',
      async () => {
        const status = await this.status()
        this.#fixture.progress(`${status.pendingCount} left, ${status.heldCount} of them held`)
        return status.pendingCount === status.heldCount ? status : undefined
      },
      { timeoutMs, everyMs: 500 },
    )
  }

  /** Kills PostgreSQL (`kill`) or stops it cleanly, and starts it again after `downMs`. */
  async cycleServer({ kill, downMs, whenDown }: ServerCycle): Promise<void> {
    if (kill) {
      await killServer(this.#running)
      this.serverKills += 1
    }
    await this.#running.stop()
    whenDown?.()
    await delay(downMs)
    this.#running = await this.server.restart()
  }

  /** Compares the ledger with the rail book. */
  async audit(): Promise<{ readonly report: AuditReport; readonly defects: readonly string[] }> {
    const effects = await readRailEffects(this.bookFile)
    const report = await auditLedger(this.db, { effects, drained: true })
    const broken = report.invariants.filter(({ ok }) => !ok)
    return {
      report,
      defects: [
        ...report.notJudged.map((id) => `${id} was not checked`),
        ...broken.map(({ id, found }) => `${id} is broken ${found.length} times: ${found.slice(0, 3).join(', ')}`),
      ],
    }
  }
}

/** Returns the URL with another port, if one is given. */
function urlThrough(url: string, port: number | undefined): string {
  const through = new URL(url)
  if (port !== undefined) through.port = String(port)
  return through.href
}

function railsModule(rails: string): string {
  return `
import { appendFileSync } from 'node:fs'
const { simulatedRail } = await import(process.env.RAILS_MODULE)
const bookUrl = process.env.BOOK_URL
export default ${rails}
`
}
