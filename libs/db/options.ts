import { resolve } from 'node:path'
import { boundedInteger, type Bounds, InvalidArgumentError, requiredText, requireKnownOptions } from '../core/index.js'
import { type ConnectionUrl, resolveTls, parseConnectionUrl, type TlsOptions } from './connectionTarget.js'
import { embeddedFolder } from './embedded.js'
import { DEFAULT_SCHEMA } from './Queryable.js'

export interface DatabaseOptions {
  /**
   * `postgres://login:password@host:port/database`. The login is a member of the roles it acts as. For development
   * `embedded:FOLDER`: a PostgreSQL server in that folder, started by `@symphony-pg/embedded` at the first use, and
   * again after the process that started it has ended.
   */
  readonly url: string
  /**
   * `transaction` if the URL leads to a pooler (such as PgBouncer) that assigns each transaction to any session. Then
   * nothing is kept in a session: each call is a transaction that sets its role and settings, which costs one more
   * round trip. LISTEN then needs `listenUrl`.
   *
   * @default `none`
   */
  readonly pooler?: 'none' | 'transaction'
  /** URL of the server without the pooler, for LISTEN. @default `url`, unless there is a pooler */
  readonly listenUrl?: string
  /** Schema of the deployment. @default `symphony` */
  readonly schema?: string
  /** Encryption of the connection. @default verified for remote hosts, none for this machine */
  readonly tls?: TlsOptions
  /** Maximum number of connections: per role, or in total behind a pooler. @default 10 */
  readonly connectionsMax?: number
  /** Maximum wait for a new or a free connection. @default 10000 */
  readonly connectTimeoutMs?: number
  /** Maximum duration of one statement. The client stops waiting five seconds later. @default 30000 */
  readonly statementTimeoutMs?: number
  /** Maximum wait for a lock, at most `statementTimeoutMs`. @default 10000, or `statementTimeoutMs` if that is less */
  readonly lockTimeoutMs?: number
  /**
   * Maximum idle time inside a transaction. After it the server ends the session and frees its locks. @default 30000
   */
  readonly idleInTransactionTimeoutMs?: number
  /** Maximum wait of `close()` for running calls. After it their connections are closed. @default 10000 */
  readonly closeTimeoutMs?: number
  /** Name in `pg_stat_activity`. @default `symphony` */
  readonly applicationName?: string
}

export interface ResolvedOptions {
  readonly target: ConnectionTarget
  readonly listenTarget: ConnectionTarget | undefined
  readonly pooler: 'none' | 'transaction'
  readonly schema: string
  readonly connectionsMax: number
  readonly connectTimeoutMs: number
  readonly statementTimeoutMs: number
  readonly lockTimeoutMs: number
  readonly idleInTransactionTimeoutMs: number
  readonly closeTimeoutMs: number
  readonly applicationName: string
}

export interface ConnectionTarget {
  /** Folder of an embedded server, whose port and password are known once it runs. Undefined for any other server. */
  readonly embedded: string | undefined
  readonly url: ConnectionUrl
  readonly ssl: ReturnType<typeof resolveTls>
}

const HOUR_MS = 3_600_000

const BOUNDS = {
  connectionsMax: { min: 1, max: 100 },
  connectTimeoutMs: { min: 10, max: 120_000 },
  statementTimeoutMs: { min: 10, max: HOUR_MS },
  lockTimeoutMs: { min: 1, max: HOUR_MS },
  idleInTransactionTimeoutMs: { min: 10, max: HOUR_MS },
  closeTimeoutMs: { min: 0, max: 120_000 },
} as const satisfies Record<string, Bounds>

const DEFAULTS = Object.freeze({
  pooler: 'none',
  schema: DEFAULT_SCHEMA,
  connectionsMax: 10,
  connectTimeoutMs: 10_000,
  statementTimeoutMs: 30_000,
  idleInTransactionTimeoutMs: 30_000,
  closeTimeoutMs: 10_000,
  applicationName: 'symphony',
})

const LOCK_TIMEOUT_DEFAULT_MS = 10_000

/** Maximum size of a name. PostgreSQL truncates longer names without an error. */
const IDENTIFIER_BYTES_MAX = 63

export function resolveDatabaseOptions(given: DatabaseOptions): ResolvedOptions {
  requireKnownOptions(given, DATABASE_OPTIONS)
  const options = { ...DEFAULTS, ...given }
  const { pooler } = options
  if (pooler !== 'none' && pooler !== 'transaction') {
    throw new InvalidArgumentError('pooler', `expected none or transaction, got ${String(pooler)}`)
  }
  const target = resolveTarget('url', options.url, options.tls)
  const statementTimeoutMs = bounded(options, 'statementTimeoutMs')
  return {
    target,
    listenTarget: resolveListenTarget(options, target),
    pooler,
    schema: requiredIdentifier('schema', options.schema),
    connectionsMax: bounded(options, 'connectionsMax'),
    connectTimeoutMs: bounded(options, 'connectTimeoutMs'),
    statementTimeoutMs,
    lockTimeoutMs: boundedInteger(
      'lockTimeoutMs',
      options.lockTimeoutMs ?? Math.min(LOCK_TIMEOUT_DEFAULT_MS, statementTimeoutMs),
      // With a longer lock timeout, the statement timeout would hide the lock as the cause.
      { min: BOUNDS.lockTimeoutMs.min, max: statementTimeoutMs },
    ),
    idleInTransactionTimeoutMs: bounded(options, 'idleInTransactionTimeoutMs'),
    closeTimeoutMs: bounded(options, 'closeTimeoutMs'),
    applicationName: requiredIdentifier(
      'applicationName',
      given.applicationName ?? target.url.parameters.get('application_name') ?? DEFAULTS.applicationName,
    ),
  }
}

/** Checks that PostgreSQL keeps the name unchanged. */
export function requiredIdentifier(argument: string, value: unknown): string {
  const name = requiredText(argument, value, IDENTIFIER_BYTES_MAX)
  if (Buffer.byteLength(name) > IDENTIFIER_BYTES_MAX) {
    throw new InvalidArgumentError(argument, `expected at most ${IDENTIFIER_BYTES_MAX} bytes`)
  }
  return name
}

function resolveTarget(argument: string, text: unknown, tls: TlsOptions | undefined): ConnectionTarget {
  const embedded = embeddedFolder(text)
  if (embedded !== undefined) {
    // The path is absolute, because the server may be started again after the program has changed its working
    // directory.
    return { embedded: resolve(embedded), url: parseConnectionUrl(argument, EMBEDDED_URL), ssl: false }
  }
  const url = parseConnectionUrl(argument, text)
  return { embedded, url, ssl: resolveTls(url, tls) }
}

/** Login and database of every embedded server. Its port and password are added when it runs. */
const EMBEDDED_URL = 'postgres://postgres@127.0.0.1/postgres'

function resolveListenTarget(options: DatabaseOptions, target: ConnectionTarget): ConnectionTarget | undefined {
  if (options.listenUrl !== undefined) return resolveTarget('listenUrl', options.listenUrl, options.tls)
  return options.pooler === 'transaction' ? undefined : target
}

function bounded(options: DatabaseOptions, name: Exclude<keyof typeof BOUNDS, 'lockTimeoutMs'>): number {
  return boundedInteger(name, options[name], BOUNDS[name])
}

export const DATABASE_OPTIONS: readonly string[] = [
  ...new Set(['url', 'listenUrl', 'tls', ...Object.keys(DEFAULTS), ...Object.keys(BOUNDS)]),
]
