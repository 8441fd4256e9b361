import type { Writable } from 'node:stream'
import pc from 'picocolors'

export type Colors = ReturnType<typeof pc.createColors>

type Stream = Writable & { readonly isTTY?: boolean }

interface TerminalOptions {
  readonly stdout: Stream
  readonly stderr: Stream
  readonly env: Readonly<Record<string, string | undefined>>
}

/** Results go to stdout, so that they can be piped; everything said to a person goes to stderr. */
export class Terminal {
  readonly #stdout: Stream
  readonly #stderr: Stream
  /** For `print`. They do nothing unless stdout is a terminal. */
  readonly colors: Colors
  /** For `note`. They do nothing unless stderr is a terminal. */
  readonly noteColors: Colors

  constructor({ stdout, stderr, env }: TerminalOptions) {
    this.#stdout = stdout
    this.#stderr = stderr
    this.colors = pc.createColors(wantsColors(stdout, env))
    this.noteColors = pc.createColors(wantsColors(stderr, env))
  }

  /** Whether a person is looking: only then is there progress to show. */
  get isInteractive(): boolean {
    return this.#stderr.isTTY === true
  }

  print(line: string): void {
    this.#stdout.write(`${line}\n`)
  }

  /** One line, so that many of them are NDJSON. bigints are written as text: their digits must survive the reader. */
  printJson(value: unknown): void {
    this.print(JSON.stringify(value, bigintAsText))
  }

  note(line: string): void {
    this.#stderr.write(`${line}\n`)
  }
}

export function bigintAsText(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value
}

function wantsColors(stream: Stream, env: TerminalOptions['env']): boolean {
  // https://no-color.org: present and not empty, whatever the value.
  return stream.isTTY === true && (env['NO_COLOR'] ?? '') === '' && env['TERM'] !== 'dumb'
}
