import type { Client, ClientConfig } from 'pg'
import { parseConnectionUrl } from './connectionTarget.js'
import { embeddedRemedy, startEmbeddedIn } from './embedded.js'
import { type DatabaseError, TransactionPoolerError } from './errors.js'
import type { ConnectionTarget, ResolvedOptions } from './options.js'
import { isServerError } from './serverError.js'
import { SQLSTATE } from './sqlstates.js'
import { toDatabaseError } from './toDatabaseError.js'
import { valueParsers } from './values.js'

/** How much longer than the server's own limit the client waits: past it, the server is not slow but gone. */
const ANSWER_GRACE_MS = 5_000

/** Quiet time after which the operating system starts to ask whether the other side is still there. */
const KEEPALIVE_DELAY_MS = 10_000

/** The driver's configuration for a connection, with nothing left for it to read from a URL. */
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
    // round trip of their own. The driver also closes a connection whose answer is overdue, which otherwise would pass
    // the late answer to the next caller.
    pipeline: true,
  }
}

/** Completes a configuration with the address of an embedded server, which starts here unless it runs. */
export async function locate(config: ClientConfig, { embedded }: ConnectionTarget): Promise<ClientConfig> {
  if (embedded === undefined) return config
  const { host, port, user, password, database } = parseConnectionUrl('url', await startEmbeddedIn(embedded))
  return { ...config, host, port, user, password, database }
}

/** The same, for a server that is reached without a pooler: a session of our own, with our settings. */
export function directClientConfig(target: ConnectionTarget, options: ResolvedOptions): ClientConfig {
  return { ...clientConfig(target, options), options: asStartupOptions(sessionSettings(options)) }
}

/**
 * What every session of ours runs under, said on each connection because nothing else can be relied on: settings of a
 * role are not applied by SET ROLE, and the database's own defaults are its owner's affair.
 */
export function sessionSettings(options: ResolvedOptions): ReadonlyMap<string, string> {
  return new Map([
    ['statement_timeout', String(options.statementTimeoutMs)],
    ['lock_timeout', String(options.lockTimeoutMs)],
    ['idle_in_transaction_session_timeout', String(options.idleInTransactionTimeoutMs)],
    // A claim or an outcome that the server forgets in a crash would be acted on twice.
    ['synchronous_commit', 'on'],
    // The functions lock a row and then look at it again; a frozen snapshot would turn a lost race into 40001.
    ['default_transaction_isolation', 'read committed'],
    // Our objects are called by their full names: an unqualified one shall fail in the first test, not find a stranger.
    ['search_path', 'pg_catalog,pg_temp'],
    // The formats the driver's parsers understand.
    ['datestyle', 'ISO, YMD'],
    ['bytea_output', 'hex'],
  ])
}

/** For the startup packet: such values are also what RESET ALL goes back to. */
function asStartupOptions(settings: ReadonlyMap<string, string>): string {
  return [...settings].map(([name, value]) => `-c ${name}=${value.replaceAll(/[\\ ]/g, '\\$&')}`).join(' ')
}

/** For the beginning of a transaction behind a pooler: gone when it ends. */
export function asLocalSettings(settings: ReadonlyMap<string, string>): string {
  return `SELECT ${[...settings].map(([name, value]) => `pg_catalog.set_config('${name}', '${value}', true)`).join(', ')}`
}

/** Why a connection could not be made, and where to. */
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

/** The same, for a session that brings settings along: PgBouncer answers those with a protocol violation. */
export function directConnectFailure(error: unknown, target: ConnectionTarget): DatabaseError {
  if (isServerError(error) && error.code === SQLSTATE.protocolViolation) return transactionPoolerError(error)
  return connectFailure(error, target)
}

export function transactionPoolerError(cause?: unknown): TransactionPoolerError {
  return new TransactionPoolerError(
    'a transaction pooler is between this process and PostgreSQL: role and settings of a session would not last',
    "open the database with pooler: 'transaction' (and a direct listenUrl), or connect to the server itself",
    cause,
  )
}

/** How long a goodbye may take. A server that does not answer it is gone, and the socket is just dropped. */
const GOODBYE_MS = 1_000

/** Closes a connection of our own, politely if the other side is there to notice. */
export async function disconnect(client: Client): Promise<void> {
  const cut = setTimeout(() => client.connection.stream.destroy(), GOODBYE_MS)
  await client.end()
  clearTimeout(cut)
}
