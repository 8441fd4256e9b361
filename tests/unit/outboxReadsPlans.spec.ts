import { createHash } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import type { Queryable } from '../../libs/db/index.js'
import {
  countProjected,
  findItems,
  narrowProjected,
  readItemViews,
  readLatencySeries,
  readLatestAttempts,
  readRailStatistics,
  readRecentlyChanged,
  readSeries,
  searchItems,
  searchParticipant,
  searchProjected,
} from '../../libs/outbox/index.js'
import { readFindingsBySeverity } from '../../libs/reconciliation/index.js'
import { useTestDatabase } from '../support/database.js'

/** Tests that each query reads rows in proportion to its result, not to the ledger of 20,000 items. */

const ITEMS = 20_000
/** Number of pending items: the most that a search reads for one page. */
const PENDING = 50_000
const db = await useTestDatabase({ countBranches: false })
beforeAll(async () => {
  // Inserts rows as the functions write them, one second apart. Every 500th item failed.
  await db.queryNoRole(
    `INSERT INTO payment_outbox_identities
       (outbox_id, instruction_id, idempotency_key, participant_id, sequence_id, rail_type, content_hash, created_at)
     SELECT (lpad(to_hex((extract(epoch FROM now() - interval '6 hours') * 1000)::bigint + n * 1000), 12, '0') || '7000'
         || '8' || lpad(to_hex(n), 15, '0'))::uuid, 'i-' || n, 'k-' || n, 'p-' || n % 200, n / 200 + 1, 'sepa', '', now()
     FROM generate_series(0, ${ITEMS - 1}) n`,
  )
  await db.queryNoRole(
    `INSERT INTO payment_outbox_attempts
       (attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, attempt_no,
         state, completed_at, rail_reference, latency_ms, action, outcome_unknown)
     SELECT outbox_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, '{}', 1,
       (CASE WHEN substr(instruction_id, 3)::int % 500 = 0 THEN 'FAILED' ELSE 'DISPATCHED' END)::outbox_attempt_state, now(),
       'ref-' || instruction_id, 5, 'sent', false
     FROM payment_outbox_identities`,
  )
  await db.queryNoRole(
    `INSERT INTO payment_search (outbox_id, is_message, instruction_id, idempotency_key, participant_id, rail_type, state,
       rail_reference, returned, amount, currency)
     SELECT outbox_id, false, instruction_id, idempotency_key, participant_id,
       CASE WHEN substr(instruction_id, 3)::int % 400 = 0 THEN 'rare' ELSE 'sepa' END,
       CASE WHEN substr(instruction_id, 3)::int % 500 = 0 THEN 'FAILED' ELSE 'DISPATCHED' END, 'ref-' || instruction_id,
       false, substr(instruction_id, 3)::int + 1, CASE WHEN substr(instruction_id, 3)::int % 2 = 0 THEN 'EUR' ELSE 'USD' END
     FROM payment_outbox_identities`,
  )
  await db.queryNoRole(
    `INSERT INTO payment_search_destinations
     SELECT sha256(('d-' || substr(instruction_id, 3)::int % 2000)::bytea), outbox_id FROM payment_outbox_identities`,
  )
  // Counts of 200 participants in 100 minutes.
  await db.queryNoRole(
    `INSERT INTO outbox_series SELECT 'minute', CASE WHEN n % 200 = 0 THEN '' ELSE 'p-' || n % 200 END,
       date_trunc('hour', now() - interval '3 hours') + make_interval(mins => n / 200),
       'sepa', false, 1, 1, 0, 0, 0, 0, 0, 0
     FROM generate_series(0, ${ITEMS - 1}) n`,
  )
  await db.queryNoRole(
    `INSERT INTO outbox_attempt_series SELECT 'minute', 'rail-' || n % 200,
       date_trunc('hour', now() - interval '3 hours') + make_interval(mins => n / 200), '', 50, 1
     FROM generate_series(0, ${ITEMS - 1}) n`,
  )
  // Findings of one run. Two of the three oldest are critical, and one of 256 is open.
  await db.queryNoRole(
    `INSERT INTO reconciliation_runs VALUES (gen_random_uuid(), 'sepa', 'csv', '', '', '{}', '{}', now(),
       now() + interval '1 day', 1, false, now(), now(), 0, '{}', '{}', '', '', gen_random_uuid(), 'ann', now());
     INSERT INTO reconciliation_findings
     SELECT i.outbox_id, r.run_id, uuid_send(i.outbox_id), 'reversed',
       CASE WHEN i.instruction_id IN ('i-1', 'i-2') THEN 'critical' ELSE 'info' END, i.outbox_id, '{}', now()
     FROM payment_outbox_identities i, reconciliation_runs r;
     INSERT INTO reconciliation_open_findings
     SELECT finding_id, kind, severity, created_at FROM reconciliation_findings
     WHERE get_byte(finding_key, 15) = 0;
     INSERT INTO reconciliation_closings
     SELECT finding_id, gen_random_uuid(), 'ann', 'settled', now() FROM reconciliation_findings f
     WHERE NOT EXISTS (SELECT FROM reconciliation_open_findings o WHERE o.finding_id = f.finding_id)`,
  )
  // Inserts pending items and holds every 500th. The search table has all held ones but five, which only events record.
  await db.queryNoRole(
    `INSERT INTO payment_outbox_pending (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type,
       payload, hold_reason, held_by, held_at)
     SELECT uuid_v7_floor(now() - make_interval(secs => n)), 'w-' || n, 'p-' || n % 200, n, 'w-' || n, 'sepa', '{}', h.reason,
       h.reason, CASE WHEN h.reason IS NOT NULL THEN now() END
     FROM generate_series(1, ${PENDING}) n
     CROSS JOIN LATERAL (SELECT CASE WHEN n % 500 = 0 THEN 'REVIEW' END AS reason) h;
     INSERT INTO payment_search (outbox_id, is_message, instruction_id, idempotency_key, participant_id, rail_type, state,
       returned)
     SELECT outbox_id, false, instruction_id, idempotency_key, participant_id, rail_type, 'HELD', false
     FROM payment_outbox_pending WHERE hold_reason IS NOT NULL AND sequence_id % 10000 <> 0;
     INSERT INTO payment_outbox_events (event_id, outbox_id, event_no, event_type, actor, detail)
     SELECT outbox_id, outbox_id, 1, 'HOLD_PLACED', 'ann', '{}' FROM payment_outbox_pending WHERE sequence_id % 10000 = 0`,
  )
  await db.queryNoRole('ANALYZE')
})

interface PlanNode {
  readonly 'Node Type': string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
  readonly Plans?: readonly PlanNode[]
}

/** Returns a role that explains each query first, and the number of rows that its scans have read. */
function explained(name = 'symphony_readonly'): { readonly role: Queryable; readonly read: () => number } {
  const readonly = db.as(name)
  let total = 0
  const rowsIn = (node: PlanNode): number => {
    const own = (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops']
    const below = (node.Plans ?? []).reduce((sum, child) => sum + rowsIn(child), 0)
    return below + (/^(?!Subquery|CTE).*Scan/.test(node['Node Type']) ? own : 0)
  }
  return {
    read: () => total,
    role: {
      schema: readonly.schema,
      query: async (text, values) => {
        const { rows } = await readonly.query<{ 'QUERY PLAN': { Plan: PlanNode }[] }>(
          `EXPLAIN (ANALYZE, FORMAT JSON) ${text}`,
          values,
        )
        total += rowsIn(rows[0]!['QUERY PLAN'][0]!.Plan)
        return readonly.query(text, values)
      },
    },
  }
}

const LIMIT = 10
const MIDDLE = '01981f0e-7c00-7000-8000-000000000000'
const OLDEST = { sort: 'oldest', limit: LIMIT } as const
const DESTINATION = createHash('sha256').update('d-7').digest()
const RANGE = { currency: 'EUR', amountMin: '9001', amountMax: '10001' }
const SERIES = { from: hoursAgo(3), to: hoursAgo(1) }

function hoursAgo(hours: number): Date {
  return new Date(Date.now() - hours * 3_600_000)
}

test.each<[string, (role: Queryable) => Promise<unknown>]>([
  ['search for the newest items', (role) => searchItems(role, { limit: LIMIT })],
  [
    'search for a page in the middle',
    (role) => searchItems(role, { limit: LIMIT, before: '01981f0e-7c00-7000-8000-000000000000' }),
  ],
  ['search for FAILED items', (role) => searchItems(role, { state: 'FAILED', limit: LIMIT })],
  ['search for DISPATCHED items', (role) => searchItems(role, { state: 'DISPATCHED', limit: LIMIT })],
  ['search for HELD items', (role) => searchItems(role, { state: 'HELD', limit: LIMIT })],
  ['search for LEASED items', (role) => searchItems(role, { state: 'LEASED', limit: LIMIT })],
  ['search for DUE items', (role) => searchItems(role, { state: 'DUE', limit: LIMIT })],
  ['search for items of a participant', (role) => searchParticipant(role, 'p-7', { limit: LIMIT })],
  ['find by instruction', (role) => findItems(role, 'i-12345', { limit: LIMIT })],
  ['find by idempotency key and scope', (role) => findItems(role, 'k-12345', { keyScope: 'key:shop', limit: LIMIT })],
  ['find by participant', (role) => findItems(role, 'p-7', { limit: LIMIT })],
  ['find by rail reference', (role) => findItems(role, 'ref-i-12345', { limit: LIMIT })],
  ['find by the beginning of an instruction', (role) => findItems(role, 'i-1234', { limit: LIMIT })],
  ['find by the beginning of a key', (role) => findItems(role, 'k-1234', { limit: LIMIT })],
  ['find by the beginning of a reference', (role) => findItems(role, 'ref-i-1234', { limit: LIMIT })],
  ['search by time', (role) => searchItems(role, { createdFrom: hoursAgo(3), createdTo: hoursAgo(2), limit: LIMIT })],
  [
    'search for FAILED items by time',
    (role) => searchItems(role, { state: 'FAILED', createdFrom: hoursAgo(3), limit: LIMIT }),
  ],
  ['search for the oldest items', (role) => searchProjected(role, { sort: 'oldest', limit: LIMIT })],
  ['search of a state from the oldest', (role) => searchProjected(role, { ...OLDEST, states: ['FAILED'] })],
  ['search of a rail from the oldest', (role) => searchProjected(role, { ...OLDEST, railType: 'rare' })],
  ['search of a participant from the oldest', (role) => searchProjected(role, { ...OLDEST, participants: ['p-7'] })],
  [
    'search of times from the oldest',
    (role) => searchProjected(role, { ...OLDEST, createdFrom: hoursAgo(3), createdTo: hoursAgo(2) }),
  ],
  ['count of a participant', (role) => countProjected(role, { participants: ['p-7'] })],
  ['count of a rare rail', (role) => countProjected(role, { railType: 'rare' })],
  ['count of a state', (role) => countProjected(role, { states: ['FAILED'] })],
  ['count of a minute', (role) => countProjected(role, { createdFrom: hoursAgo(3), createdTo: hoursAgo(2.99) })],
  ['series of all participants', (role) => readSeries(role, SERIES)],
  ['series of a participant', (role) => readSeries(role, { ...SERIES, participants: ['p-7'] })],
  ['statistics of a rail', (role) => readRailStatistics(role, { ...SERIES, railType: 'rail-7' })],
  ['latencies of a rail', (role) => readLatencySeries(role, { ...SERIES, railType: 'rail-7' })],
  ['find by an unknown word', (role) => findItems(role, 'nothing', { limit: LIMIT })],
  ['list of findings by severity', (role) => readFindingsBySeverity(role, { limit: LIMIT }, 'limited')],
  [
    'list of open findings by severity',
    (role) => readFindingsBySeverity(role, { limit: LIMIT, state: 'open' }, 'limited'),
  ],
  ['read of recent changes', (role) => readRecentlyChanged(role, { seconds: 10, limit: LIMIT })],
  [
    'read of item states',
    async (role) => readItemViews(role, (await searchItems(db.as('symphony_readonly'), { limit: LIMIT })).ids),
  ],
])('%s reads at most 30 × limit rows', async (_, ask) => {
  const { role, read } = explained()
  await ask(role)
  expect(read()).toBeLessThanOrEqual(30 * LIMIT)
})

test.each<[string, (role: Queryable) => Promise<unknown>]>([
  ['search by currency', (role) => searchProjected(role, { currency: 'EUR', limit: LIMIT })],
  ['search by smallest amount', (role) => searchProjected(role, { currency: 'EUR', sort: 'smallest', limit: LIMIT })],
  ['search by a range of amounts', (role) => searchProjected(role, { ...RANGE, limit: LIMIT })],
  [
    'next page by amount',
    (role) => searchProjected(role, { ...RANGE, after: { id: MIDDLE, amount: '9500' }, limit: LIMIT }),
  ],
  ['search by one amount', (role) => searchProjected(role, { ...RANGE, amountMax: '9001', limit: LIMIT })],
  ['count of a range of amounts', (role) => countProjected(role, { ...RANGE, amountMax: '9201' })],
  ['search by destination', (role) => searchProjected(role, { destinationHmac: DESTINATION, limit: LIMIT })],
  [
    'search by destination from the oldest',
    (role) => searchProjected(role, { ...OLDEST, destinationHmac: DESTINATION }),
  ],
  ['count of a destination', (role) => countProjected(role, { destinationHmac: DESTINATION })],
  ['match of given ids', (role) => narrowProjected(role, [MIDDLE], RANGE)],
])('%s reads at most 30 × limit rows', async (_, ask) => {
  const { role, read } = explained('symphony_auditor')
  await ask(role)
  expect(read()).toBeLessThanOrEqual(30 * LIMIT)
})

test('a search for a rare state stops after 50,000 items, with an empty page and the next cursor', async () => {
  const { role, read } = explained()
  const page = await searchItems(role, { state: 'BLOCKED', limit: LIMIT })
  expect(page).toEqual({ ids: [], next: expect.any(String) })
  expect(read()).toBeLessThanOrEqual(2 * PENDING)
  expect(await searchItems(role, { state: 'BLOCKED', limit: LIMIT, before: page.next! })).toEqual({
    ids: [],
    next: null,
  })
})

test('searchItems returns each HELD item once, from the search table or from later events', async () => {
  const { ids } = await searchItems(db.as('symphony_readonly'), { state: 'HELD', limit: 1_000 })
  expect(ids).toHaveLength(PENDING / 500)
  expect(ids).toEqual([...new Set(ids)].toSorted().toReversed())
})

test('readLatestAttempts reads each attempt of the last hour once', async () => {
  const { role, read } = explained()
  await readLatestAttempts(role)
  const { rows } = await db.queryNoRole<{ lately: bigint }>(
    `SELECT count(*) AS lately FROM payment_outbox_identities
     WHERE to_timestamp(('x' || substr(outbox_id::text, 1, 8) || substr(outbox_id::text, 10, 4))::bit(48)::bigint / 1000.0)
         > now() - interval '1 hour'`,
  )
  expect(Number(rows[0]?.lately)).toBeGreaterThan(1_000)
  expect(read()).toBeLessThanOrEqual(Number(rows[0]?.lately) + 5)
})
