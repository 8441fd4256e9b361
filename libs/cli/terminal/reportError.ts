import { CommanderError } from 'commander'
import { SymphonyError } from '../../core/index.js'
import type { Terminal } from './Terminal.js'

interface ReportOptions {
  readonly terminal: Terminal
  readonly json: boolean
  readonly debug: boolean
}

export function reportError(error: unknown, { terminal, json, debug }: ReportOptions): number {
  // Commander has printed the help or the version on request.
  if (error instanceof CommanderError && error.exitCode === 0) return EXIT.ok
  // Commander has printed the help, because no command was given.
  if (error instanceof CommanderError && error.code === 'commander.help') return EXIT.usage
  // The user closed the output, as in `symphony … | head`, and expects no message.
  if (error instanceof InterruptedError && error.exitCode === EXIT.outputClosed) return EXIT.outputClosed
  const described = describe(error)
  if (json) terminal.note(JSON.stringify({ error: described }))
  else for (const line of lines(described, terminal)) terminal.note(line)
  if (debug && error instanceof Error) terminal.note(stackOf(error))
  return exitCodeOf(error)
}

interface Described {
  readonly code: string
  readonly message: string
  readonly causes: readonly string[]
  readonly remedy: string | undefined
}

function describe(error: unknown): Described {
  const message = error instanceof Error ? error.message : String(error)
  const code = codeOf(error)
  if (error instanceof CommanderError) {
    return {
      code: 'USAGE',
      message: message.replace(/^error: /, ''),
      causes: [],
      remedy: 'See symphony --help, or --help after any command.',
    }
  }
  if (error instanceof SymphonyError)
    return { code: error.code, message, causes: causesOf(error), remedy: error.remedy }
  // @symphony-pg/embedded shares no class with this package, so its errors are recognised by their name.
  if (code !== undefined && error instanceof Error && error.name === 'EmbeddedError')
    return { code, message, causes: causesOf(error), remedy: String(Reflect.get(error, 'remedy') ?? '') || undefined }
  if (isUsage(error)) return { code: code ?? 'USAGE', message, causes: [], remedy: undefined }
  return {
    code: code ?? 'UNEXPECTED',
    message,
    causes: causesOf(error),
    remedy: 'This is an unexpected error. Run the command again with --debug to see its stack trace.',
  }
}

function lines({ code, message, causes, remedy }: Described, { noteColors: colors }: Terminal): readonly string[] {
  return [
    `${colors.red('error')} ${colors.dim(code)} ${message}`,
    ...causes.map((cause) => `  ${colors.dim('because')} ${cause}`),
    ...(remedy === undefined ? [] : [`  ${colors.cyan('what to do')} ${remedy}`]),
  ]
}

function exitCodeOf(error: unknown): number {
  if (error instanceof InterruptedError) return error.exitCode
  if (isUsage(error)) return EXIT.usage
  return UNAVAILABLE_CODES.has(codeOf(error) ?? '') ? EXIT.unavailable : EXIT.failed
}

function isUsage(error: unknown): boolean {
  return error instanceof CommanderError || USAGE_CODES.has(codeOf(error) ?? '')
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/** Returns the first line of each cause that adds a word to the printed text. */
function causesOf(error: unknown): readonly string[] {
  const causes: string[] = []
  let cause = error instanceof Error ? error.cause : undefined
  let printed = error instanceof Error ? `${codeOf(error)}: ${error.message}` : ''
  for (let depth = 0; cause instanceof Error && depth < CAUSES_MAX; depth += 1) {
    const line = cause.message.split('\n', 1)[0] ?? ''
    if (!repeats(line, `${printed} ${systemCallOf(cause)}`)) causes.push(line)
    printed += ` ${line}`
    cause = cause.cause
  }
  return causes
}

/** Returns whether the printed text already contains each word of the line. */
function repeats(line: string, printed: string): boolean {
  return line.split(/[\s"'“”‘’()]+/).every((word) => printed.includes(word))
}

/** Returns the system call of a Node.js error, such as `getaddrinfo`, which its message repeats. */
function systemCallOf(error: Error): string {
  return 'syscall' in error ? String(error.syscall) : ''
}

function stackOf(error: Error): string {
  const own = error.stack ?? error.message
  return error.cause instanceof Error ? `${own}\ncaused by ${stackOf(error.cause)}` : own
}

/** Maximum number of causes, because a chain of causes may loop. */
const CAUSES_MAX = 5

/** Exit codes. Scripts depend on them, so a number never changes its meaning. */
export const EXIT = Object.freeze({
  ok: 0,
  failed: 1,
  usage: 2,
  unavailable: 3,
  interrupted: 130,
  outputClosed: 141,
  terminated: 143,
})

export const EXIT_CODES_HELP = `
Exit codes:
  0    done; for a check: everything holds; for start, worker, api and scheduler: stopped by SIGINT or SIGTERM
  1    the command failed, a check found something, or the database refused a right that a process needs
  2    the command line is wrong; nothing was done
  3    no database: it is not running, starting up or shutting down, not reachable, or does not exist
  130  interrupted (SIGINT) before the command was done
  141  the reader of the output closed it, as head does, before the command was done; before you repeat a command that
       changes something, check what it has changed
  143  terminated (SIGTERM) before the command was done`

/** Error codes for an unreachable database. A script may start the database and repeat the command. */
const UNAVAILABLE_CODES: ReadonlySet<string> = new Set([
  'EMBEDDED_NOT_RUNNING',
  'EMBEDDED_NO_POSTGRES',
  'CANNOT_CONNECT_NOW',
  'CONNECT_FAILED',
  'ECONNREFUSED',
  'ENOTFOUND',
  'INVALID_CATALOG_NAME',
])

/** Error codes of wrong settings. Nothing was done. */
const USAGE_CODES: ReadonlySet<string> = new Set([
  'ARGUMENT_OUT_OF_RANGE',
  'CONFIG_UNREADABLE',
  'FILE_UNREADABLE',
  'INVALID_ARGUMENT',
  'INVALID_RELAYER_OPTION',
  'MASTER_KEYS_UNREADABLE',
  'RAILS_UNREADABLE',
  'VAULT_KEYS_MISSING',
])

export const EXIT_OF = { SIGINT: EXIT.interrupted, SIGPIPE: EXIT.outputClosed, SIGTERM: EXIT.terminated } as const

export type StopSignal = keyof typeof EXIT_OF

export class InterruptedError extends SymphonyError {
  readonly exitCode: number

  constructor(signal: StopSignal) {
    super('INTERRUPTED', `Stopped by ${signal}.`)
    this.exitCode = EXIT_OF[signal]
  }
}
