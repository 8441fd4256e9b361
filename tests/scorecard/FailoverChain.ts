import { startEmbedded, type EmbeddedServer } from '../../embedded/index.js'
import { killServer } from '../support/killServer.js'
import { MEMORY_IN_FILES } from '../support/server.js'
import { ask, ServerCopies, Standby } from '../support/standby.js'
import type { RelayScenario } from './RelayScenario.js'
import type { ScenarioFixture } from './ScenarioFixture.js'
import { waitUntil } from './waitUntil.js'

/** A standby and its folder. */
export interface Follower {
  readonly standby: Standby
  readonly home: ServerCopies
}

/** Servers that become primary one after another, and the proxy that leads to the current primary. */
export class FailoverChain {
  readonly #fixture: ScenarioFixture
  readonly #scenario: RelayScenario
  #primary: EmbeddedServer
  /** Folder of the primary. Undefined for the first, whose folder belongs to the scenario. */
  #home: ServerCopies | undefined

  constructor(fixture: ScenarioFixture, scenario: RelayScenario) {
    this.#fixture = fixture
    this.#scenario = scenario
    this.#primary = scenario.server
  }

  get primaryUrl(): string {
    return this.#primary.url
  }

  /** Copies the data of the primary while it is briefly stopped. */
  async copy(): Promise<{ readonly dataDir: string; readonly home: ServerCopies }> {
    const home = new ServerCopies()
    this.#fixture.defer(() => home.remove())
    await this.#primary.stop()
    const dataDir = await home.of(this.#primary.dataDir)
    const { dataDir: own, port } = this.#primary
    this.#primary = await startEmbedded({ dataDir: own, port, settings: SETTINGS })
    return { dataDir, home }
  }

  /** Adds a standby that streams from the primary. If `synchronous`, every commit waits for it. */
  async addStandby({ synchronous }: { readonly synchronous: boolean }): Promise<Follower> {
    const { dataDir, home } = await this.copy()
    const standby = await Standby.of(this.primaryUrl, dataDir, undefined, SETTINGS)
    const isSo = (column: string, value: string) => async () =>
      (await ask(this.primaryUrl, `SELECT ${column} AS answer FROM pg_stat_replication`)) === value
    await waitUntil('the standby streams', isSo('state', 'streaming'))
    if (synchronous) {
      await ask(this.primaryUrl, `ALTER SYSTEM SET synchronous_standby_names = '*'`)
      await ask(this.primaryUrl, 'SELECT pg_reload_conf() AS answer')
      await waitUntil('commits wait for the standby', isSo('sync_state', 'sync'))
    }
    return { standby, home }
  }

  /** Kills the primary with all its processes (`kill -9`). */
  async kill(): Promise<void> {
    await killServer(this.#primary)
  }

  async promote({ standby, home }: Follower): Promise<void> {
    await this.#succeed(await standby.promote(), home)
  }

  /** Stops the primary cleanly and starts an older copy in its place. */
  async putBack({ dataDir, home }: { readonly dataDir: string; readonly home: ServerCopies }): Promise<void> {
    await this.#primary.stop()
    await this.#succeed(await startEmbedded({ dataDir, settings: SETTINGS }), home)
  }

  async #succeed(next: EmbeddedServer, home: ServerCopies): Promise<void> {
    this.#primary = next
    this.#scenario.proxy.leadTo(next.url)
    // Removes the folder of the former primary: 30 such folders would fill a disk.
    await this.#home?.remove()
    this.#home = home
  }
}

/** Same value as in the fixture, because a standby with fewer connections than its primary refuses to start. */
const SETTINGS = { ...MEMORY_IN_FILES, max_connections: '200' }
