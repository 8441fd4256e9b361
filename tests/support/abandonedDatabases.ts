import { setTimeout as delay } from 'node:timers/promises'
import { Client } from 'pg'
import { quoteIdentifier } from '../../libs/db/index.js'

/**
 * Marks a database as abandoned. DROP DATABASE waits for a checkpoint, which takes longer than many tests. One process
 * drops all abandoned databases in the background. Those that are left disappear with the server.
 */
export async function abandonDatabase(server: Client, name: string): Promise<void> {
  await server.query(`ALTER DATABASE ${quoteIdentifier(name)} WITH ALLOW_CONNECTIONS false`)
}

/** Drops abandoned databases and the logins named after them. Returns a function that stops this. */
export function dropAbandonedDatabases(serverUrl: string): () => Promise<void> {
  const stopping = new AbortController()
  const sweeping = sweep(serverUrl, stopping.signal)
  // The stop function reports the error.
  sweeping.catch(() => {})
  return async () => {
    stopping.abort()
    await sweeping
  }
}

async function sweep(serverUrl: string, stopping: AbortSignal): Promise<void> {
  const server = new Client(serverUrl)
  await server.connect()
  while (!stopping.aborted) {
    const { rows } = await server.query<{ name: string }>(
      `SELECT datname AS name FROM pg_database WHERE datname LIKE 'test\\_%' AND NOT datallowconn ORDER BY oid`,
    )
    for (const { name } of rows) if (!stopping.aborted) await dropDatabase(server, name)
    await delay(PAUSE_MS, undefined, { signal: stopping }).catch(() => {})
  }
  await server.end()
}

async function dropDatabase(server: Client, name: string): Promise<void> {
  await server.query(`DROP DATABASE IF EXISTS ${quoteIdentifier(name)} WITH (FORCE)`)
  const { rows } = await server.query<{ login: string }>(
    `SELECT rolname AS login FROM pg_roles WHERE right(rolname, length($1) + 1) = '_' || $1`,
    [name],
  )
  for (const { login } of rows) await server.query(`DROP ROLE IF EXISTS ${quoteIdentifier(login)}`)
}

const PAUSE_MS = 500
