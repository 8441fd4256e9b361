import { type FileHandle, open, readFile, rename } from 'node:fs/promises'

const LOG_BYTES_MAX = 10_000_000
const TAIL_LINES = 20

/** Prefix with pid (`%p`) and SQLSTATE (`%e`), by which `reports` finds a line. */
export const LOG_LINE_PREFIX = '%m [%p] %e '

/** Log file of the server, and the position where one call of `startEmbedded` begins. */
export class ServerLog {
  readonly path: string
  #startsAt: number | undefined

  constructor(path: string) {
    this.path = path
  }

  /** Opens the log. The server inherits the open file, so its account needs no right to open it. Keeps one old file. */
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

  /** Returns the last lines that were written since `startEmbedded` was called. */
  async tail(): Promise<string> {
    return lastLines(await this.#text())
  }

  /** True if the process reported this SQLSTATE. */
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
