import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadEmbedded } from '../db/index.js'

export interface TestServer extends AsyncDisposable {
  /** Address of the superuser. Give it to `createTestSymphony` as `serverUrl`. */
  readonly url: string
  /** Stops the server and deletes its folder. */
  stop(): Promise<void>
}

/**
 * Starts a PostgreSQL in a temporary folder. Start one in the global set-up of a test run, and let each test create its
 * own database on it. The server ends with this process.
 */
export async function startTestServer(): Promise<TestServer> {
  const folder = await mkdtemp(join(tmpdir(), 'symphony-testing-'))
  // If this process runs as root, the server runs as another account, which must be able to enter the folder.
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
