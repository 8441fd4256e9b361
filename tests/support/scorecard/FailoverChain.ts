import { startEmbedded, type EmbeddedServer } from '../../../embedded/index.js'
import { killServer } from '../killServer.js'
import { ask, ServerCopies, Standby } from '../standby.js'
import type { RelayScenario } from './RelayScenario.js'
import type { ScenarioFixture } from './ScenarioFixture.js'
import { waitUntil } from './waitUntil.js'

/** A standby, and the folder it lives in. */
export interface Follower {
  readonly standby: Standby
  readonly home: ServerCopies
}

/** Servers that become primary one after the other, and the proxy that leads to the current one. */
export class FailoverChain {
  readonly #fixture: ScenarioFixture
  readonly #scenario: RelayScenario
  #primary: EmbeddedServer
  /** Where the primary lives; undefined for the first, whose folder is the scenario's. */
  #home: ServerCopies | undefined

  constructor(fixture: ScenarioFixture, scenario: RelayScenario) {
    this.#fixture = fixture
    this.#scenario = scenario
    this.#primary = scenario.server
  }

  get primaryUrl(): string {
    return this.#primary.url
  }

  /** A copy of the primary as it is now, made while it is down for a moment. */
  async copy(): Promise<{ readonly dataDir: string; readonly home: ServerCopies }> {
    const home = new ServerCopies()
    this.#fixture.defer(() => home.remove())
    await this.#primary.stop()
    const dataDir = await home.of(this.#primary.dataDir)
    const { dataDir: own, port } = this.#primary
    this.#primary = await startEmbedded({ dataDir: own, port, settings: SETTINGS })
    return { dataDir, home }
  }

  /** A standby that streams from the primary. Synchronous: nothing is committed any more that it does not have. */
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

  /** `kill -9` of the primary with all its processes. */
  async kill(): Promise<void> {
    await killServer(this.#primary)
  }

  async promote({ standby, home }: Follower): Promise<void> {
    await this.#succeed(await standby.promote(), home)
  }

  /** The primary goes down in good order, and an older copy takes its place. */
  async putBack({ dataDir, home }: { readonly dataDir: string; readonly home: ServerCopies }): Promise<void> {
    await this.#primary.stop()
    await this.#succeed(await startEmbedded({ dataDir, settings: SETTINGS }), home)
  }

  async #succeed(next: EmbeddedServer, home: ServerCopies): Promise<void> {
    this.#primary = next
    this.#scenario.proxy.leadTo(next.url)
    // Nobody comes back to it; thirty of them would fill a disk.
    await this.#home?.remove()
    this.#home = home
  }
}

/** As the fixture has them: a standby that may have fewer connections than its primary refuses to follow it. */
const SETTINGS = { max_connections: '200' }
