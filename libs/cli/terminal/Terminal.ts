import type { Writable } from 'node:stream'
import pc from 'picocolors'

export type Colors = ReturnType<typeof pc.createColors>

type Stream = Writable & { readonly isTTY?: boolean }

interface TerminalOptions {
  readonly stdout: Stream
  readonly stderr: Stream
  readonly env: Readonly<Record<string, string | undefined>>
  /** How this program is called from here, and its commands. Printed commands begin with it. @default symphony */
  readonly program?: { readonly name: string; readonly commands: readonly string[] }
}

/** Process of a command: its environment, its output and the signal that stops it. Commands use nothing else of the process. */
export interface Cli {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly terminal: Terminal
  /**
   * Aborted by SIGINT or SIGTERM, with an `InterruptedError` as the reason. A command that runs until told to stop
   * waits for it, cleans up and returns; any other passes it on and lets the reason be thrown.
   */
  readonly signal: AbortSignal
}

/** Results go to stdout, so that they can be piped; everything said to a person goes to stderr. */
export class Terminal {
  readonly #stdout: Stream
  readonly #stderr: Stream
  /** For `print`. They do nothing unless stdout is a terminal. */
  readonly colors: Colors
  /** For `note`. They do nothing unless stderr is a terminal. */
  readonly noteColors: Colors

  readonly #program: TerminalOptions['program']

  constructor({ stdout, stderr, env, program }: TerminalOptions) {
    this.#program = program
    this.#stdout = stdout
    this.#stderr = stderr
    this.colors = pc.createColors(wantsColors(stdout, env))
    this.noteColors = pc.createColors(wantsColors(stderr, env))
  }

  /** Whether a person is looking: only then is there progress to show. */
  get isInteractive(): boolean {
    return this.#stderr.isTTY === true
  }

  /** Whether a person, and no file or pipe, gets what is printed: only then a secret may be. */
  get isPrintedToPerson(): boolean {
    return this.#stdout.isTTY === true
  }

  print(line: string): void {
    this.printRaw(this.#callable(line))
  }

  /** For text that is no message: JSON, SQL, scripts. */
  printRaw(text: string): void {
    this.#stdout.write(`${text}\n`)
  }

  /** One line, so that many of them are NDJSON. bigints are written as text: their digits must survive the reader. */
  printJson(value: unknown): void {
    this.printRaw(JSON.stringify(value, bigintAsText))
  }

  note(line: string): void {
    this.#stderr.write(`${this.#callable(line)}\n`)
  }

  /** Draws a line over the one before, on a terminal; elsewhere nothing: a log is no place for progress. */
  redraw(line: string): void {
    if (this.isInteractive) this.#stderr.write(`\r\u001B[2K${line}`)
  }

  /** Draws a page over the one before, where stdout is a terminal; elsewhere the pages follow each other. */
  printPage(lines: readonly string[]): void {
    const page = lines.map((line) => `${this.#callable(line)}\n`).join('')
    this.#stdout.write(this.#stdout.isTTY === true ? `\u001B[H\u001B[2J${page}` : page)
  }

  /** Replaces `symphony COMMAND` by the words that call it from here. */
  #callable(text: string): string {
    if (this.#program === undefined || this.#program.name === 'symphony') return text
    const { name, commands } = this.#program
    const called = new RegExp(`(?<![\\w./-])symphony (?=(?:${commands.join('|')}|--help)\\b)`, 'g')
    return text.replaceAll(called, () => `${name} `)
  }
}

function bigintAsText(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value
}

function wantsColors(stream: Stream, env: TerminalOptions['env']): boolean {
  // https://no-color.org: present and not empty, whatever the value.
  return stream.isTTY === true && (env['NO_COLOR'] ?? '') === '' && env['TERM'] !== 'dumb'
}

/** One line that is drawn over and over, for a person who is looking; nothing at all for a pipe or a log. */
export class ProgressBar {
  readonly #terminal: Terminal
  readonly #total: number

  constructor(terminal: Terminal, total: number) {
    this.#terminal = terminal
    this.#total = total
  }

  show(done: number, note = ''): void {
    const share = this.#total === 0 ? 1 : Math.min(1, done / this.#total)
    const filled = Math.round(share * WIDTH)
    const { cyan, dim } = this.#terminal.noteColors
    this.#terminal.redraw(
      `${cyan('█'.repeat(filled))}${dim('░'.repeat(WIDTH - filled))} ${done}/${this.#total} ${dim(note)}`,
    )
  }

  /** Takes the line away. */
  clear(): void {
    this.#terminal.redraw('')
  }
}

const WIDTH = 30

/** Returns a count with its noun: `1 payment`, `2 payments`. */
export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}
