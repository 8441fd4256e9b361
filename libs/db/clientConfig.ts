import type { ClientConfig } from 'pg'
import type { ConnectionTarget, ResolvedOptions } from './options.js'
import { asStartupOptions, sessionSettings } from './sessionSettings.js'
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
    // A connection is lent to one caller at a time, so what it carries is one caller's statements in their order. Sent
    // without waiting for each other, COMMIT and the proof of the role cost no round trip of their own. It also makes
    // the driver close a connection whose answer is overdue, which otherwise would give the late answer to the next.
    pipeline: true,
  }
}

/** The same, for a server that is reached without a pooler: a session of our own, with our settings. */
export function directClientConfig(target: ConnectionTarget, options: ResolvedOptions): ClientConfig {
  return { ...clientConfig(target, options), options: asStartupOptions(sessionSettings(options)) }
}
