import { setTimeout as delay } from 'node:timers/promises'
import type { Client } from 'pg'
import { expect } from 'vitest'
import { quoteIdentifier, type Queryable } from '../../libs/db/index.js'
import type { TestDatabase } from './database.js'
import { POLL_OPTIONS } from './pollOptions.js'

/** A single connection in one role. The wrappers of the SQL functions accept it as their first argument. */
export interface Connection extends Queryable {
  readonly schema: string
  /** Process id of its backend. */
  readonly pid: number
  readonly client: Client
  close(): Promise<void>
}

/** Opens a connection in a role, or as superuser. */
export async function openConnection(db: TestDatabase, role?: string): Promise<Connection> {
  return connectionOf(db, await db.connect(role))
}

export async function connectionOf(db: TestDatabase, client: Client): Promise<Connection> {
  const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  return {
    schema: db.schema,
    pid: rows[0]!.pid,
    client,
    query: (text, values) => client.query<never>(text, values === undefined ? undefined : [...values]),
    close: () => client.end(),
  }
}

export interface RaceResult<T> {
  readonly values: readonly T[]
  readonly errors: readonly unknown[]
}

export interface RaceOptions {
  /**
   * Releases a lock that all runners need, once every one of them waits for it. They then compete inside the functions.
   */
  readonly releaseWhenAllWait?: () => Promise<unknown>
}

/** Runs n calls on n connections at once. Returns their values and errors. */
export async function race<T>(
  db: TestDatabase,
  role: string,
  count: number,
  run: (connection: Connection, index: number) => Promise<T>,
  { releaseWhenAllWait }: RaceOptions = {},
): Promise<RaceResult<T>> {
  // Connects all before the first call starts.
  const connections = await Promise.all(Array.from({ length: count }, () => takeRunner(db, role)))
  try {
    const runs = Promise.allSettled(connections.map((connection, index) => run(connection, index)))
    if (releaseWhenAllWait !== undefined) {
      await untilWaiting(db, ...connections)
      await releaseWhenAllWait()
    }
    const settled = await runs
    return {
      values: settled.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : [])),
      errors: settled.flatMap((result): unknown[] => (result.status === 'rejected' ? [result.reason] : [])),
    }
  } finally {
    await Promise.all(connections.map((connection) => keepRunner(db, connection)))
  }
}

/** Connections that no race uses now, for the next one: a new connection takes 20 to 50 ms of CPU in the server. */
const idleRunners = new WeakMap<TestDatabase, Connection[]>()

async function takeRunner(db: TestDatabase, role: string): Promise<Connection> {
  const idle = idleRunners.get(db)?.pop()
  if (idle === undefined) return openConnection(db, role)
  await idle.query(`SET ROLE ${quoteIdentifier(role)}`)
  return idle
}

/** Makes the session like a new one. A connection that was lost is left out. */
async function keepRunner(db: TestDatabase, connection: Connection): Promise<void> {
  try {
    await connection.query('ROLLBACK')
    await connection.query('DISCARD ALL')
  } catch {
    return connection.close()
  }
  idleRunners.set(db, [...(idleRunners.get(db) ?? []), connection])
}

/** Resolves when each of these connections waits for a lock. */
export async function untilWaiting(db: TestDatabase, ...connections: readonly Connection[]): Promise<void> {
  const pids = connections.map(({ pid }) => pid)
  const deadline = Date.now() + 20_000
  for (;;) {
    const { rows } = await db.queryNoRole<{ pid: number }>(
      `SELECT pid FROM unnest($1::integer[]) AS pid WHERE cardinality(pg_blocking_pids(pid)) > 0`,
      [pids],
    )
    if (rows.length === pids.length) return
    if (Date.now() > deadline) throw new Error(`${rows.length} of ${pids.length} connections wait for a lock`)
    await delay(5)
  }
}

/** Resolves when a connection waits for a lock of this table. */
export async function untilTableWaits(db: TestDatabase, table: string): Promise<void> {
  const waiting = 'SELECT FROM pg_locks WHERE NOT granted AND relation = $1::regclass'
  await expect.poll(async () => (await db.queryNoRole(waiting, [table])).rows.length, POLL_OPTIONS).toBe(1)
}

/** Returns the error of a call. Throws if the call succeeds. */
export async function failureOf(call: Promise<unknown>): Promise<unknown> {
  const [result] = await Promise.allSettled([call])
  if (result.status === 'fulfilled') throw new Error('expected the call to fail, but it succeeded')
  return result.reason
}
