import type { Client, ClientConfig } from 'pg'
import { parseConnectionUrl } from './connectionTarget.js'
import { embeddedRemedy, startEmbeddedIn } from './embedded.js'
import { type DatabaseError, TransactionPoolerError } from './errors.js'
import type { ConnectionTarget, ResolvedOptions } from './options.js'
import { isServerError } from './serverError.js'
import { SQLSTATE } from './sqlstates.js'
import { toDatabaseError } from './toDatabaseError.js'
import { valueParsers } from './values.js'

/** Time that the client waits for an answer after the server's own timeout. Then the server counts as unreachable. */
const ANSWER_GRACE_MS = 5_000

/** Idle time after which the operating system starts to probe the connection. */
const KEEPALIVE_DELAY_MS = 10_000

/** Returns the driver's complete configuration of a connection; the driver reads no URL. */
export function clientConfig(target: ConnectionTarget, options: ResolvedOptions): ClientConfig {
  const { url, ssl } = target
  return {
    host: url.host,
    port: url.port,
    user: url.user,
    password: url.password,
    database: url.database,
    ssl,
    sslnegotiation: ssl !== false && url.parameters.get('sslnegotiation') === 'direct' ? 'direct' : 'postgres',
    application_name: options.applicationName,
    types: valueParsers,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEPALIVE_DELAY_MS,
    connectionTimeoutMillis: options.connectTimeoutMs,
    query_timeout: options.statementTimeoutMs + ANSWER_GRACE_MS,
    // One caller at a time uses a connection, so its statements stay in order. Pipelined, COMMIT and SET ROLE cost no
    // separate round trip. In this mode the driver also closes a connection whose answer is overdue. Otherwise the next
    // caller would receive the late answer.
    pipeline: true,
  }
}

/** Adds the address of an embedded server to a configuration. Starts the server unless it runs. */
export async function locate(config: ClientConfig, { embedded }: ConnectionTarget): Promise<ClientConfig> {
  if (embedded === undefined) return config
  const { host, port, user, password, database } = parseConnectionUrl('url', await startEmbeddedIn(embedded))
  return { ...config, host, port, user, password, database }
}

/** Returns the configuration of a connection without a pooler: its own session, with our settings. */
export function directClientConfig(target: ConnectionTarget, options: ResolvedOptions): ClientConfig {
  return { ...clientConfig(target, options), options: asStartupOptions(sessionSettings(options)) }
}

/**
 * Returns the settings of every session. Each connection sets them, because SET ROLE does not apply a role's settings,
 * and the database's defaults belong to its owner.
 */
export function sessionSettings(options: ResolvedOptions): ReadonlyMap<string, string> {
  return new Map([
    ['statement_timeout', String(options.statementTimeoutMs)],
    ['lock_timeout', String(options.lockTimeoutMs)],
    ['idle_in_transaction_session_timeout', String(options.idleInTransactionTimeoutMs)],
    // If a crash lost a committed claim or outcome, the work would be done twice.
    ['synchronous_commit', 'on'],
    // The functions lock a row and then read it again. With a fixed snapshot, a concurrent change of the row would fail
    // with 40001.
    ['default_transaction_isolation', 'read committed'],
    // Objects are called by their full names. An unqualified name must fail in the first test instead of finding
    // another object.
    ['search_path', 'pg_catalog,pg_temp'],
    // Formats that the driver's parsers understand.
    ['datestyle', 'ISO, YMD'],
    ['bytea_output', 'hex'],
  ])
}

/** Formats the settings for the startup packet, so that RESET ALL restores them. */
function asStartupOptions(settings: ReadonlyMap<string, string>): string {
  return [...settings].map(([name, value]) => `-c ${name}=${value.replaceAll(/[\\ ]/g, '\\$&')}`).join(' ')
}

/** Formats the settings for the beginning of a transaction behind a pooler. They apply only to that transaction. */
export function asLocalSettings(settings: ReadonlyMap<string, string>): string {
  return `SELECT ${[...settings].map(([name, value]) => `pg_catalog.set_config('${name}', '${value}', true)`).join(', ')}`
}

export function connectFailure(error: unknown, { url, embedded }: ConnectionTarget): DatabaseError {
  if (embedded === undefined) {
    return toDatabaseError(error, { phase: 'connecting', destination: `${url.host}:${url.port}/${url.database}` })
  }
  return toDatabaseError(error, {
    phase: 'connecting',
    destination: `the embedded server of ${embedded}`,
    remedy: embeddedRemedy(error) ?? 'Read postgres/server.log in the folder, or set DATABASE_URL to your own server.',
  })
}

/**
 * Describes a failed attempt to connect with session settings. PgBouncer refuses such settings with a protocol
 * violation.
 */
export function directConnectFailure(error: unknown, target: ConnectionTarget): DatabaseError {
  if (isServerError(error) && error.code === SQLSTATE.protocolViolation) return transactionPoolerError(error)
  return connectFailure(error, target)
}

export function transactionPoolerError(cause?: unknown): TransactionPoolerError {
  return new TransactionPoolerError(
    'a transaction pooler is between this process and PostgreSQL: the role and the settings of a session would be lost',
    "open the database with pooler: 'transaction' (and a direct listenUrl), or connect to the server itself",
    cause,
  )
}

/** Maximum time of an orderly close. After it the socket is destroyed. */
const CLOSE_TIMEOUT_MS = 1_000

/** Closes a connection by protocol, or destroys its socket if the server does not answer in time. */
export async function disconnect(client: Client): Promise<void> {
  const destroyTimer = setTimeout(() => client.connection.stream.destroy(), CLOSE_TIMEOUT_MS)
  await client.end()
  clearTimeout(destroyTimer)
}
