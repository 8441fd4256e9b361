import { type FileHandle, open, readFile, rename } from 'node:fs/promises'

const LOG_BYTES_MAX = 10_000_000
const TAIL_LINES = 20

/** `%p` and `%e` let us find what one process said and why by number, not by sentence. */
export const LOG_LINE_PREFIX = '%m [%p] %e '

/** The server's log file, and where in it one call of `startEmbedded` begins. */
export class ServerLog {
  readonly path: string
  #startsAt: number | undefined

  constructor(path: string) {
    this.path = path
  }

  /** Opened by us and inherited by the server, so that it needs no right of its own to it. One old file is kept. */
  async open(): Promise<FileHandle> {
    const file = await open(this.path, 'a', 0o600)
    const { size } = await file.stat()
    if (size <= LOG_BYTES_MAX) {
      this.#startsAt ??= size
      return file
    }
    await file.close()
    await rename(this.path, `${this.path}.1`)
    this.#startsAt = 0
    return open(this.path, 'a', 0o600)
  }

  /** The end of what was said since this call's first attempt: what was said before is not about it. */
  async tail(): Promise<string> {
    return lastLines(await this.#text())
  }

  /** Whether this process reported this SQLSTATE. */
  async reports(pid: number, sqlState: string): Promise<boolean> {
    return (await this.#text()).includes(` [${pid}] ${sqlState} `)
  }

  async #text(): Promise<string> {
    if (this.#startsAt === undefined) return ''
    return (await readFile(this.path)).subarray(this.#startsAt).toString('utf8')
  }
}

export function lastLines(text: string): string {
  return text.trimEnd().split('\n').slice(-TAIL_LINES).join('\n')
}
