import { type FileHandle, open, readFile, rename } from 'node:fs/promises'

const LOG_BYTES_MAX = 10_000_000
const TAIL_LINES = 20

/** `%p` and `%e` let us find what one process said and why by number, not by sentence. */
export const LOG_LINE_PREFIX = '%m [%p] %e '

/** The server's log file, and where in it the present attempt begins. */
export class ServerLog {
  readonly path: string
  readonly file: FileHandle
  readonly #startsAt: number

  private constructor(path: string, file: FileHandle, startsAt: number) {
    this.path = path
    this.file = file
    this.#startsAt = startsAt
  }

  /** Opened by us and inherited by the server, so that it needs no right of its own to it. One old file is kept. */
  static async open(path: string): Promise<ServerLog> {
    let file = await open(path, 'a', 0o600)
    let { size } = await file.stat()
    if (size > LOG_BYTES_MAX) {
      await file.close()
      await rename(path, `${path}.1`)
      file = await open(path, 'a', 0o600)
      size = 0
    }
    return new ServerLog(path, file, size)
  }

  async tail(): Promise<string> {
    return lastLines(await this.#text())
  }

  /** Whether this process reported this SQLSTATE. */
  async reports(pid: number, sqlState: string): Promise<boolean> {
    return (await this.#text()).includes(` [${pid}] ${sqlState} `)
  }

  async #text(): Promise<string> {
    return (await readFile(this.path)).subarray(this.#startsAt).toString('utf8')
  }
}

export function lastLines(text: string): string {
  return text.trimEnd().split('\n').slice(-TAIL_LINES).join('\n')
}
