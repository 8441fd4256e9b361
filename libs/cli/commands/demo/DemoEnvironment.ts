import { chmod, mkdtemp, readlink, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { deploy } from '../../../deployment/index.js'
import { openServer, type OpenedServer } from '../../database/target.js'
import { startRailBook, type RailBookProcess } from '../../../rails/index.js'
import { newLogin, urlOfLogin } from '../../processes/secrets.js'

interface DemoEnvironmentOptions {
  readonly databaseUrl: string | undefined
  readonly searchPath: string | undefined
  readonly signal: AbortSignal
}

export class DemoEnvironment {
  readonly folder: string
  readonly bookFile: string
  /** Database URL of the workers. Their login inherits no privileges and switches roles. */
  readonly url: string
  readonly schema: string
  readonly book: RailBookProcess
  readonly #server: OpenedServer

  private constructor(
    fields: Pick<DemoEnvironment, 'folder' | 'bookFile' | 'url' | 'schema' | 'book'>,
    server: OpenedServer,
  ) {
    this.folder = fields.folder
    this.bookFile = fields.bookFile
    this.url = fields.url
    this.schema = fields.schema
    this.book = fields.book
    this.#server = server
  }

  static async open({ databaseUrl, searchPath, signal }: DemoEnvironmentOptions): Promise<DemoEnvironment> {
    const folder = await mkdtemp(join(tmpdir(), 'symphony-demo-'))
    // If this process runs as root, the server runs under another account, which must be able to enter the folder.
    await chmod(folder, 0o711)
    const server = await openServer({ databaseUrl, dataDir: join(folder, 'symphony') }, { searchPath, signal })
    try {
      const login = newLogin('symphony_demo')
      const schema = login.name
      await deploy({
        url: server.url,
        schema,
        createLogins: [{ ...login, roles: ['ingest', 'executor', 'control', 'readonly', 'auditor'] }],
      })
      signal.throwIfAborted()
      const bookFile = join(folder, 'rail-book.ndjson')
      const book = await startRailBook({ file: bookFile })
      return new DemoEnvironment({ folder, bookFile, url: urlOfLogin(server.url, login), schema, book }, server)
    } catch (error) {
      await server.stop()
      await removeFolder(folder)
      throw error
    }
  }

  /** Returns whether the schema and the login remain in the database of `--database-url`. */
  get leavesSchema(): boolean {
    return this.#server.embedded === undefined
  }

  async close(): Promise<void> {
    await this.book.stop()
    await this.#server.stop()
  }

  async remove(): Promise<void> {
    await removeFolder(this.folder)
  }
}

async function removeFolder(folder: string): Promise<void> {
  // If the server's account could not enter the folder, its data is elsewhere, and this link points to it.
  const outside = await readlink(join(folder, 'symphony', 'outside')).catch(() => undefined)
  for (const path of [outside, folder]) {
    if (path !== undefined) await rm(path, { recursive: true, force: true })
  }
}
