import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { seededRandom, type Random } from '../../libs/cli/commands/demo/seededRandom.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { makeTestFolder, removeTestFolder, startPrivateServer, type PrivateServer } from '../support/server.js'
import { ask } from '../support/standby.js'

export interface ScenarioFixtureOptions {
  readonly id: string
  readonly seed: number
  /**
   * URL of a shared server, for the short form of a scenario that neither stops nor configures it. @default each
   * scenario starts its own
   */
  readonly serverUrl?: string
  /** Receives the progress of a scenario. */
  readonly onProgress?: (text: string) => void
}

/**
 * Resources of one run of a scenario: a folder, servers, seeded random numbers. `dispose` removes them in reverse
 * order.
 */
export class ScenarioFixture {
  readonly id: string
  readonly seed: number
  /** Random numbers that depend only on scenario and seed. */
  readonly random: Random
  readonly folder: string
  readonly #serverUrl: string | undefined
  readonly #onProgress: (text: string) => void
  readonly #cleanUps: (() => unknown)[] = []
  #postgres: string | undefined
  #reportedAt = 0n

  private constructor({ id, seed, serverUrl, onProgress = () => {} }: ScenarioFixtureOptions, folder: string) {
    this.id = id
    this.seed = seed
    this.random = seededRandom(`${id} ${seed}`)
    this.folder = folder
    this.#serverUrl = serverUrl
    this.#onProgress = onProgress
  }

  static async create(options: ScenarioFixtureOptions): Promise<ScenarioFixture> {
    const folder = await makeTestFolder()
    const fixture = new ScenarioFixture(options, folder)
    fixture.defer(() => removeTestFolder(folder))
    return fixture
  }

  /** Version of the server; undefined before the first one started. */
  get postgres(): string | undefined {
    return this.#postgres
  }

  /** Records the version for a scenario that starts its server itself. */
  setPostgresVersion(postgres: string): void {
    this.#postgres = postgres
  }

  /** Creates a further seeded source, so that parts of a scenario draw independent numbers. */
  randomFor(purpose: string): Random {
    return seededRandom(`${this.id} ${this.seed} ${purpose}`)
  }

  /** Reports progress, at most once every few seconds. */
  progress(text: string): void {
    const now = process.hrtime.bigint()
    if (now - this.#reportedAt < PROGRESS_EVERY_NS) return
    this.#reportedAt = now
    this.#onProgress(text)
  }

  /** Registers a clean-up for `dispose`. */
  defer(cleanUp: () => unknown): void {
    this.#cleanUps.push(cleanUp)
  }

  /** Creates a folder below the folder of the fixture. */
  async subfolder(name: string): Promise<string> {
    const folder = join(this.folder, name)
    await mkdir(folder, { recursive: true })
    return folder
  }

  /**
   * Starts a PostgreSQL server that the scenario may kill, freeze, restart and configure. With `serverUrl`, returns the
   * shared server instead.
   */
  async startServer(settings: Readonly<Record<string, string>> = {}, binaries?: string): Promise<PrivateServer> {
    const server =
      this.#serverUrl === undefined
        ? await startPrivateServer({
            settings: { max_connections: '200', ...settings },
            ...(binaries === undefined ? {} : { binaries }),
          })
        : sharedServer(this.#serverUrl)
    this.defer(() => server.remove())
    this.#postgres = String(
      await ask(server.url, `SELECT split_part(current_setting('server_version'), ' ', 1) AS answer`),
    )
    return server
  }

  /** Creates a database of that server and deploys Symphony in it. */
  async createDatabase(server: { readonly url: string }): Promise<TestDatabase> {
    const db = await createTestDatabase({ serverUrl: server.url, countBranches: false })
    // If the server is gone, so is its database.
    this.defer(() => db.drop().catch(() => {}))
    return db
  }

  /** Runs all clean-ups, also after one has failed. */
  async dispose(): Promise<void> {
    const failures: unknown[] = []
    for (const cleanUp of this.#cleanUps.splice(0).toReversed()) {
      try {
        await cleanUp()
      } catch (error) {
        failures.push(error)
      }
    }
    if (failures.length > 0) throw new AggregateError(failures, `the fixture of ${this.id} could not be disposed`)
  }
}

const PROGRESS_EVERY_NS = 3_000_000_000n

/** Wraps a shared server that the scenario must not stop. */
function sharedServer(url: string): PrivateServer {
  return {
    url,
    dataDir: '',
    port: Number(new URL(url).port),
    version: 0,
    adopted: true,
    ownerPid: undefined,
    stop: refuseToEnd,
    restart: refuseToEnd,
    remove: async () => {},
  }
}

async function refuseToEnd(): Promise<never> {
  throw new Error('the server is shared; a scenario that stops it needs a server of its own')
}
