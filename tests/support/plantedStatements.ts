import { randomUUID } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { formatMoney } from '../../libs/core/index.js'
import {
  generateStatement,
  PLANTED_KINDS,
  type ExpectedFinding,
  type GeneratedStatement,
} from '../../libs/cli/commands/statements/generateStatement.js'
import { CSV_COLUMNS } from '../../libs/cli/commands/statements/writeRows.js'
import { between, seededRandom, type Random } from '../../libs/cli/commands/demo/seededRandom.js'
import type { Queryable } from '../../libs/db/index.js'
import {
  claimOutboxBatch,
  completeOutboxAttempts,
  enqueuePaymentOutboxBatch,
  type ClaimedItem,
} from '../../libs/outbox/index.js'
import type { StatementFormat } from '../../libs/reconciliation/index.js'
import { readLedgerPayments } from '../../bench/ledgerPayments.mjs'
import type { TestDatabase } from './database.js'

const DAY_MS = 86_400_000
const BATCH = 1_000
const CURRENCIES = ['EUR', 'EUR', 'EUR', 'USD', 'JPY']
/** States of payments that a bank may have paid although they are not DISPATCHED. */
const UNPAID_STATES = ['FAILED', 'held', 'retried', 'pending'] as const

/** Returns a client for SQL as superuser, with the schema of the deployment first in its path. */
export function superuserOf(db: TestDatabase): Queryable {
  return { schema: db.schema, query: (text, values) => db.queryNoRole<never>(text, values) }
}

export interface PlantedStatement extends GeneratedStatement {
  readonly railType: string
  /** Words of `symphony` that reconcile the statement. */
  readonly words: readonly string[]
}

export interface PlantedOptions {
  readonly seed: string
  readonly format: StatementFormat
  /** Number of planted errors of each kind. */
  readonly perKind: number
  /** Folder of the statement. */
  readonly folder: string
}

/** Creates payments of the last days on a rail of their own, and a statement about them with planted errors. */
export async function plantStatement(db: TestDatabase, options: PlantedOptions): Promise<PlantedStatement> {
  const { seed, perKind } = options
  const railType = `rail-${randomUUID()}`
  const random = seededRandom(`ledger ${seed}`)
  await createPayments(db, railType, { paid: perKind * 9 + 20, unpaid: perKind + between(random, 4, 20), random })
  const settlementDays = between(random, 0, 2)
  const daysBefore = between(random, 6, 9)
  return writePlantedStatement(db, railType, { ...options, settlementDays, daysBefore })
}

interface WrittenOptions extends PlantedOptions {
  readonly settlementDays: number
  /** Number of days before today that the statement covers. */
  readonly daysBefore: number
}

/** Writes a statement about all payments of the rail, until today, with planted errors. */
export async function writePlantedStatement(
  db: TestDatabase,
  railType: string,
  { seed, format, perKind, folder, settlementDays, daysBefore }: WrittenOptions,
): Promise<PlantedStatement> {
  const payments = await readLedgerPayments(superuserOf(db), railType)
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS
  const statement = generateStatement({
    payments,
    errors: Object.fromEntries(PLANTED_KINDS.map((kind) => [kind, perKind])),
    format,
    seed,
    settlementDays,
    from: new Date(today - daysBefore * DAY_MS),
    to: new Date(today + DAY_MS),
  })
  const file = join(folder, `${railType}.${format}`)
  await writeFile(file, [...statement.text()].join(''))
  const csv = ['--columns', CSV_COLUMNS.map(([name, header]) => `${name}=${header}`).join(','), '--decimal-comma']
  const days = ['--settlement-days', String(settlementDays)]
  const words = ['reconcile', '--rail', railType, '--statement', file, '--format', format, ...days, '--keep-unknown']
  return { ...statement, railType, words: [...words, ...(format === 'csv' ? csv : []), '--json'] }
}

interface PaymentsOptions {
  readonly paid: number
  readonly unpaid: number
  readonly random: Random
}

async function createPayments(db: TestDatabase, railType: string, { paid, unpaid, random }: PaymentsOptions) {
  const [ingest, executor] = [db.as('symphony_ingest'), db.as('symphony_executor')]
  const states = Array.from({ length: unpaid }, (_, n) => UNPAID_STATES[n % UNPAID_STATES.length]!)
  const pending = states.filter((state) => state === 'pending').length
  const enqueue = async (count: number) => {
    for (let left = count; left > 0; left -= BATCH) {
      const instructions = Array.from({ length: Math.min(BATCH, left) }, () => buildPayment(railType, random))
      await enqueuePaymentOutboxBatch(ingest, instructions)
    }
  }
  await enqueue(paid + unpaid - pending)
  const others = states.filter((state) => state !== 'pending')
  for (;;) {
    const items = await claimOutboxBatch(executor, BATCH, 'worker', 600, { rails: [railType] })
    if (items.length === 0) break
    const outcomes = items.map((item) => outcomeOf(item, others.pop()))
    await completeOutboxAttempts(executor, 'worker', outcomes)
  }
  await enqueue(pending)
  await spreadOverDays(db, railType, random)
}

function outcomeOf({ outboxId, leaseToken }: ClaimedItem, state: (typeof UNPAID_STATES)[number] | undefined) {
  const lease = { outboxId, leaseToken }
  if (state === undefined) return { ...lease, state: 'DISPATCHED', railReference: `TX-${outboxId}` } as const
  if (state === 'FAILED') return { ...lease, state, errorCode: 'REFUSED' } as const
  const unknown = { ...lease, state: 'RETRYABLE', outcomeUnknown: true, errorCode: 'TIMEOUT' } as const
  return state === 'held' ? { ...unknown, holdReason: 'no answer' } : { ...unknown, retryDelaySeconds: 300 }
}

function buildPayment(railType: string, random: Random) {
  const id = randomUUID()
  const currency = CURRENCIES[between(random, 0, CURRENCIES.length - 1)]!
  const amount = formatMoney({ amountMinor: BigInt(between(random, 1, 999_999)), currency })
  const participantId = `${railType}-${between(random, 1, 20)}`
  return { instructionId: id, idempotencyKey: id, participantId, railType, payload: { amount, currency } }
}

/** Spreads the attempts of the rail over the last eight days, and writes the new times into their ids as well. */
async function spreadOverDays(db: TestDatabase, railType: string, random: Random): Promise<void> {
  const { rows } = await db.queryNoRole<{ attempt_id: string }>(
    `SELECT attempt_id FROM payment_outbox_attempts WHERE rail_type = $1 ORDER BY attempt_id`,
    [railType],
  )
  const now = Date.now()
  const times = rows.map(() => new Date(now - Math.floor(random() * 8 * DAY_MS)).toISOString())
  const client = await db.connect()
  try {
    await client.query('BEGIN')
    await client.query('ALTER TABLE payment_outbox_attempts DISABLE TRIGGER payment_outbox_attempts_is_append_only')
    await client.query(
      `UPDATE payment_outbox_attempts a SET completed_at = t.at, claimed_at = t.at, created_at = t.at,
         attempt_id = overlay(a.attempt_id::text PLACING encode(substr(int8send(floor(extract(epoch FROM t.at) * 1000)::bigint), 3, 4), 'hex')
           || '-' || encode(substr(int8send(floor(extract(epoch FROM t.at) * 1000)::bigint), 7, 2), 'hex') FROM 1)::uuid
       FROM unnest($1::uuid[], $2::timestamptz[]) AS t(attempt_id, at) WHERE a.attempt_id = t.attempt_id`,
      [rows.map((row) => row.attempt_id), times],
    )
    await client.query(
      'ALTER TABLE payment_outbox_attempts ENABLE ALWAYS TRIGGER payment_outbox_attempts_is_append_only',
    )
    await client.query('COMMIT')
  } finally {
    await client.end()
  }
}

/**
 * Compares all that is stored about the rail with the expected findings. Returns the differences: empty if one run
 * found every planted error and nothing else.
 */
export async function findDifferences(client: Queryable, statement: PlantedStatement): Promise<string[]> {
  const { railType, counts, findings } = statement
  const { rows: runs } = await client.query<{ run_id: string; counts: Readonly<Record<string, number>> }>(
    'SELECT run_id, counts FROM reconciliation_runs WHERE rail_type = $1',
    [railType],
  )
  const { rows: found } = await client.query<{ kind: string; key: string }>(
    `SELECT f.kind, coalesce(f.outbox_id::text, split_part(f.detail -> 'entries' -> 0 ->> 'bankReference', '/', 1)) AS key
     FROM reconciliation_findings f JOIN reconciliation_runs r USING (run_id) WHERE r.rail_type = $1`,
    [railType],
  )
  const [run] = runs
  if (run === undefined || runs.length > 1) return [`${railType}: ${runs.length} runs`]
  const differences = Object.entries(counts)
    .map(([name, count]) => ({ name, count, got: run.counts[snakeCase(name)] }))
    .filter(({ count, got }) => count !== got)
    .map(({ name, count, got }) => `${railType}: ${name} counts ${got}, expected ${count}`)
  const got = found.map(({ kind, key }) => `${kind} ${key}`)
  const expected = findings.map(keyOf)
  const [gotSet, expectedSet] = [new Set(got), new Set(expected)]
  if (gotSet.size < got.length) differences.push(`${railType}: ${got.length - gotSet.size} findings are repeated`)
  for (const key of expectedSet) if (!gotSet.has(key)) differences.push(`${railType}: not found: ${key}`)
  for (const key of gotSet) if (!expectedSet.has(key)) differences.push(`${railType}: not planted: ${key}`)
  return differences
}

/** Returns a text per kind of row that belongs to no run; none if a killed run of this rail left nothing behind. */
export async function findRemains(client: Queryable, railType: string): Promise<string[]> {
  const { rows } = await client.query<{ what: string; count: bigint | string }>(
    `SELECT 'entries' AS what, count(*) FROM reconciliation_entries e
       WHERE NOT EXISTS (SELECT 1 FROM reconciliation_runs r WHERE r.run_id = e.run_id)
     UNION ALL SELECT 'findings', count(*) FROM reconciliation_findings f
       WHERE NOT EXISTS (SELECT 1 FROM reconciliation_runs r WHERE r.run_id = f.run_id)
     UNION ALL SELECT 'events', abs((SELECT count(*) FROM payment_outbox_events WHERE event_type = 'RECONCILED')
       - (SELECT count(*) FROM reconciliation_runs))
     UNION ALL SELECT 'returns and proposals', count(*) FROM payment_outbox_identities i
       WHERE i.rail_type = $1 AND NOT EXISTS (SELECT 1 FROM reconciliation_runs r WHERE r.rail_type = $1)
         AND (EXISTS (SELECT 1 FROM payment_outbox_events e WHERE e.outbox_id = i.outbox_id AND e.event_type = 'RETURN_RECORDED')
           OR EXISTS (SELECT 1 FROM payment_outbox_proposals p WHERE p.outbox_id = i.outbox_id))`,
    [railType],
  )
  return rows
    .filter(({ count }) => Number(count) > 0)
    .map(({ what, count }) => `${railType}: ${count} ${what} of no run`)
}

function keyOf({ kind, outboxId, bankReference }: ExpectedFinding): string {
  return `${snakeCase(kind)} ${outboxId ?? bankReference}`
}

function snakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
