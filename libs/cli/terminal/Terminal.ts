import type { Writable } from 'node:stream'
import pc from 'picocolors'

export type Colors = ReturnType<typeof pc.createColors>

type Stream = Writable & { readonly isTTY?: boolean }

interface TerminalOptions {
  readonly stdout: Stream
  readonly stderr: Stream
  readonly env: Readonly<Record<string, string | undefined>>
  /**
   * Name under which the user called this program, and the names of its commands. Printed commands use this name.
   * @default symphony
   */
  readonly program?: { readonly name: string; readonly commands: readonly string[] }
}

/** Environment, output and stop signal of a command. Commands use nothing else of the process. */
export interface Cli {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly terminal: Terminal
  /**
   * Aborts on SIGINT or SIGTERM, or when the output is closed, with an `InterruptedError` as the reason. A long-running command waits for the abort,
   * cleans up and returns. Any other command throws the reason.
   */
  readonly signal: AbortSignal
}

/** Writes results to stdout, so that they can be piped, and messages for people to stderr. */
export class Terminal {
  readonly #stdout: Stream
  readonly #stderr: Stream
  /** Colours for `print`, without effect unless stdout is a terminal. */
  readonly colors: Colors
  /** Colours for `note`, without effect unless stderr is a terminal. */
  readonly noteColors: Colors

  readonly #program: TerminalOptions['program']

  constructor({ stdout, stderr, env, program }: TerminalOptions) {
    this.#program = program
    this.#stdout = stdout
    this.#stderr = stderr
    this.colors = pc.createColors(wantsColors(stdout, env))
    this.noteColors = pc.createColors(wantsColors(stderr, env))
  }

  /** True if stderr is a terminal. Progress is shown only then. */
  get isInteractive(): boolean {
    return this.#stderr.isTTY === true
  }

  /** True if stdout is a terminal, not a file or a pipe. A secret is printed only then. */
  get isPrintedToPerson(): boolean {
    return this.#stdout.isTTY === true
  }

  print(line: string): void {
    this.printRaw(this.#callable(line))
  }

  /** Prints JSON, SQL or a script, in which the program name must not be replaced. */
  printRaw(text: string): void {
    this.#stdout.write(`${text}\n`)
  }

  /**
   * Prints a value as one line of JSON, so that several values form NDJSON. Writes bigints as text, to keep all digits.
   */
  printJson(value: unknown): void {
    this.printRaw(JSON.stringify(value, bigintAsText))
  }

  note(line: string): void {
    this.#stderr.write(`${this.#callable(line)}\n`)
  }

  /** Replaces the last line on a terminal. Does nothing elsewhere, so that logs contain no progress. */
  redraw(line: string): void {
    if (this.isInteractive) this.#stderr.write(`\r\u001B[2K${line}`)
  }

  /** Replaces the previous page on a terminal. Elsewhere appends the page. */
  printPage(lines: readonly string[]): void {
    const page = lines.map((line) => `${this.#callable(line)}\n`).join('')
    this.#stdout.write(this.#stdout.isTTY === true ? `\u001B[H\u001B[2J${page}` : page)
  }

  /** Replaces `symphony COMMAND` by the name under which this program is called. */
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
  // By https://no-color.org, any non-empty value of NO_COLOR turns colours off.
  return stream.isTTY === true && (env['NO_COLOR'] ?? '') === '' && env['TERM'] !== 'dumb'
}

/** Progress bar on a terminal; prints nothing to a pipe or a log. */
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

  clear(): void {
    this.#terminal.redraw('')
  }
}

const WIDTH = 30

/** Returns a count with its noun: `1 payment`, `2 payments`. */
export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}
