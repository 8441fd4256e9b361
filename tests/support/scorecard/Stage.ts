import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { seededRandom, type Random } from '../../../libs/cli/commands/demo/seededRandom.js'
import { createTestDatabase, type TestDatabase } from '../database.js'
import { makeTestFolder, removeTestFolder, startPrivateServer, type PrivateServer } from '../server.js'
import { ask } from '../standby.js'

export interface StageOptions {
  readonly id: string
  readonly seed: number
  /**
   * A server that is there already, shared with others: for the short form of a scenario that neither ends its server nor
   * configures it. @default each scenario starts its own
   */
  readonly serverUrl?: string
  /** Told where a scenario has got to. */
  readonly onProgress?: (text: string) => void
}

/**
 * What one run of one scenario has to itself: a folder, servers, numbers that the seed decides, and everything that has to be
 * put away afterwards, in the reverse order of its making.
 */
export class Stage {
  readonly id: string
  readonly seed: number
  /** The same numbers for the same scenario and seed. */
  readonly random: Random
  readonly folder: string
  readonly #serverUrl: string | undefined
  readonly #onProgress: (text: string) => void
  readonly #undoing: (() => unknown)[] = []
  #postgres: string | undefined
  #heardAt = 0n

  private constructor({ id, seed, serverUrl, onProgress = () => {} }: StageOptions, folder: string) {
    this.id = id
    this.seed = seed
    this.random = seededRandom(`${id} ${seed}`)
    this.folder = folder
    this.#serverUrl = serverUrl
    this.#onProgress = onProgress
  }

  static async set(options: StageOptions): Promise<Stage> {
    const folder = await makeTestFolder()
    const stage = new Stage(options, folder)
    stage.defer(() => removeTestFolder(folder))
    return stage
  }

  /** The version of the server that was played on; undefined before there was one. */
  get postgres(): string | undefined {
    return this.#postgres
  }

  /** For a scenario whose server is started by somebody else. */
  playedOn(postgres: string): void {
    this.#postgres = postgres
  }

  /** A further source of numbers, so that one part of a scenario does not change what another draws. */
  randomFor(purpose: string): Random {
    return seededRandom(`${this.id} ${this.seed} ${purpose}`)
  }

  /** At most every few seconds one of them is heard. */
  progress(text: string): void {
    const now = process.hrtime.bigint()
    if (now - this.#heardAt < PROGRESS_EVERY_NS) return
    this.#heardAt = now
    this.#onProgress(text)
  }

  /** Has it done when the stage is struck. */
  defer(undo: () => unknown): void {
    this.#undoing.push(undo)
  }

  /** A folder below the stage's own. */
  async subfolder(name: string): Promise<string> {
    const folder = join(this.folder, name)
    await mkdir(folder, { recursive: true })
    return folder
  }

  /** A PostgreSQL of its own, which may be killed, frozen, restarted and configured. */
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

  /** A database of that server with Symphony deployed in it. */
  async createDatabase(server: { readonly url: string }): Promise<TestDatabase> {
    const db = await createTestDatabase({ serverUrl: server.url, countBranches: false })
    // A server that is down, or gone, takes its database along.
    this.defer(() => db.drop().catch(() => {}))
    return db
  }

  /** Puts everything away; what fails keeps nothing else from being put away. */
  async strike(): Promise<void> {
    const failures: unknown[] = []
    for (const undo of this.#undoing.splice(0).toReversed()) {
      try {
        await undo()
      } catch (error) {
        failures.push(error)
      }
    }
    if (failures.length > 0) throw new AggregateError(failures, `the stage of ${this.id} could not be struck`)
  }
}

const PROGRESS_EVERY_NS = 3_000_000_000n

/** To be used, and to be left as it was found. */
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
  throw new Error('this server is shared: a scenario that ends it needs one of its own')
}
