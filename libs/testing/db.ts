import { qualify, quoteIdentifier, type Queryable } from '../db/index.js'

/**
 * Statements of the testing module, run as the superuser who created the database. Outside schema/, only these
 * statements write Symphony's tables. They only move times, and only in databases marked for tests.
 */

/** Comment on each database created here. Clones do not inherit comments, so no other database has it. */
const MARK = 'made by symphony-pg/testing; may be dropped'

export async function createMarkedDatabase(server: Queryable, name: string, template: string): Promise<void> {
  await server.query(`CREATE DATABASE ${quoteIdentifier(name)} TEMPLATE ${quoteIdentifier(template)}`)
  await server.query(`COMMENT ON DATABASE ${quoteIdentifier(name)} IS '${MARK}'`)
}

export async function dropDatabase(server: Queryable, name: string): Promise<void> {
  await server.query(`DROP DATABASE IF EXISTS ${quoteIdentifier(name)} WITH (FORCE)`)
}

export async function databaseExists(server: Queryable, name: string): Promise<boolean> {
  const { rows } = await server.query('SELECT 1 FROM pg_database WHERE datname = $1', [name])
  return rows.length > 0
}

/** Locks templates until the transaction ends, so that one process at a time creates and copies them. */
export async function lockTemplates(tx: Queryable): Promise<void> {
  await tx.query(`SELECT pg_advisory_xact_lock(hashtext('symphony-pg/testing'))`)
}

/**
 * Moves all due times, leases and claims back, as if this time had passed. The ledger stays, and so do occurrences of
 * jobs, which are calendar times. Returns false if the database is not marked for tests.
 */
export async function moveTimes(superuser: Queryable, ms: number): Promise<boolean> {
  const table = (name: string) => qualify(superuser, name)
  const { rows } = await superuser.query(
    `WITH made_for_tests AS MATERIALIZED (
       SELECT make_interval(secs => $1::float8 / 1000) AS passed FROM pg_database
       WHERE datname = current_database() AND shobj_description(oid, 'pg_database') = $2
     ), items AS (
       UPDATE ${table('payment_outbox_pending')} SET next_attempt_at = next_attempt_at - passed,
         lease_expires_at = lease_expires_at - passed, claimed_at = claimed_at - passed
       FROM made_for_tests
     ), messages AS (
       UPDATE ${table('inbox_messages')} SET due_at = due_at - passed, claim_expires_at = claim_expires_at - passed,
         claimed_at = claimed_at - passed
       FROM made_for_tests
     ), tasks AS (
       UPDATE ${table('scheduler_tasks')} SET due_at = due_at - passed, lease_expires_at = lease_expires_at - passed
       FROM made_for_tests WHERE state IN ('READY', 'CLAIMED')
     ), leases AS (
       UPDATE ${table('symphony_leases')} SET expires_at = expires_at - passed FROM made_for_tests
     )
     SELECT FROM made_for_tests`,
    [ms, MARK],
  )
  return rows.length > 0
}

/** Work that a drain covers. Undefined means every rail or every topic. */
export interface DrainedWork {
  readonly rails: readonly string[] | undefined
  readonly inboxTopics: readonly string[] | undefined
  /** Whether to include timers that become messages. */
  readonly scheduler: boolean
}

/** Returns the milliseconds until the next due time or lease expiry of this work; null without one in the future. */
export async function nextMomentMs(
  superuser: Queryable,
  { rails, inboxTopics, scheduler }: DrainedWork,
): Promise<number | null> {
  const { rows } = await superuser.query<{ ms: number | null }>(
    `SELECT ceil(extract(epoch FROM min(moment) - clock_timestamp()) * 1000)::float8 AS ms
     FROM (
       SELECT CASE WHEN lease_token IS NULL THEN next_attempt_at ELSE lease_expires_at END AS moment
       FROM ${qualify(superuser, 'payment_outbox_pending')}
       WHERE hold_reason IS NULL AND ($1::text[] IS NULL OR rail_type = ANY ($1))
       UNION ALL
       SELECT CASE WHEN state = 'seen' THEN due_at ELSE claim_expires_at END
       FROM ${qualify(superuser, 'inbox_messages')}
       WHERE state IN ('seen', 'processing') AND ($2::text[] IS NULL OR topic = ANY ($2))
       UNION ALL
       SELECT due_at FROM ${qualify(superuser, 'scheduler_tasks')}
       WHERE $3 AND state = 'READY' AND delivery = 'outbox'
     ) AS waiting
     WHERE moment > clock_timestamp()`,
    [rails === undefined ? null : [...rails], inboxTopics === undefined ? null : [...inboxTopics], scheduler],
  )
  return rows[0]?.ms ?? null
}
