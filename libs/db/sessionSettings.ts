import type { ResolvedOptions } from './options.js'

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
export function asStartupOptions(settings: ReadonlyMap<string, string>): string {
  return [...settings].map(([name, value]) => `-c ${name}=${value.replaceAll(/[\\ ]/g, '\\$&')}`).join(' ')
}

/** For the beginning of a transaction behind a pooler: gone when it ends. */
export function asLocalSettings(settings: ReadonlyMap<string, string>): string {
  return `SELECT ${[...settings].map(([name, value]) => `pg_catalog.set_config('${name}', '${value}', true)`).join(', ')}`
}
