import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadEmbedded } from '../db/index.js'

export interface TestServer extends AsyncDisposable {
  /** URL of the superuser. Pass it to `createTestSymphony` as `serverUrl`. */
  readonly url: string
  /** Stops the server and deletes its folder. */
  stop(): Promise<void>
}

/**
 * Starts a PostgreSQL in a temporary folder. Start one server per test run, in its global set-up, and let each test
 * create a database on it. The server ends with this process.
 */
export async function startTestServer(): Promise<TestServer> {
  const folder = await mkdtemp(join(tmpdir(), 'symphony-testing-'))
  // If this process runs as root, the server runs under another account, which must be able to enter the folder.
  await chmod(folder, 0o711)
  const remove = () => rm(folder, { recursive: true, force: true })
  try {
    const { startEmbedded } = await loadEmbedded()
    const server = await startEmbedded({ dataDir: join(folder, 'server') })
    const stop = async () => {
      await server.stop()
      await remove()
    }
    return { url: server.url, stop, [Symbol.asyncDispose]: stop }
  } catch (error) {
    await remove()
    throw error
  }
}
