import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { doctor, type Finding } from '../../libs/deployment/index.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'

let db: TestDatabase

/** Three items: one dispatched, one attempted once, one untouched. */
beforeEach(async () => {
  db = await createTestDatabase({ countBranches: false })
  for (const n of [1, 2, 3]) {
    await db.queryNoRole(`SELECT enqueue_payment_outbox('i' || $1, 'participant', 'k', 'rail', '{}')`, [String(n)])
  }
  const { rows } = await db.queryNoRole(`SELECT outbox_id, lease_token FROM claim_outbox_batch(2, 'worker', 60)`)
  for (const [at, state] of ['DISPATCHED', 'RETRYABLE'].entries()) {
    await db.queryNoRole(
      `SELECT * FROM complete_outbox_attempt($1, $2, 'worker', $3, 'reference', NULL, NULL, NULL, 5, NULL)`,
      [rows[at]!['outbox_id'], rows[at]!['lease_token'], state],
    )
  }
})
afterEach(() => db.drop())

/** Changes rows while the triggers of the table are disabled, which needs the rights of the owner. */
async function tamper(table: string, sql: string): Promise<void> {
  await db.queryNoRole(`ALTER TABLE ${table} DISABLE TRIGGER USER; ${sql}; ALTER TABLE ${table} ENABLE TRIGGER USER;`)
  await db.queryNoRole(`ALTER TABLE ${table} ENABLE ALWAYS TRIGGER ${table}_is_append_only`)
}

async function damage(): Promise<readonly Finding[]> {
  const { ok, findings } = await doctor({ url: db.url, schema: db.schema })
  const found = findings.filter(({ severity }) => severity !== 'note')
  expect(ok).toBe(found.length === 0)
  return found
}

test('doctor has no findings for undamaged data', async () => {
  expect(await damage()).toEqual([])
  await db.queryNoRole(`SELECT roll_up_outbox_tallies()`)
  expect(await damage()).toEqual([])
})

describe('doctor', () => {
  test('reports totals that differ from the ledger (TOTALS_MATCH_LEDGER)', async () => {
    await db.queryNoRole(`INSERT INTO outbox_attempt_tallies (recorded_at, dispatched) VALUES (now(), 1)`)
    expect(await damage()).toMatchObject([
      { severity: 'damage', code: 'TOTALS_MATCH_LEDGER', expected: '1', found: '2' },
    ])
  })

  test('reports a row of reconciliation_open_findings that has no finding (OPEN_FINDINGS_MATCH)', async () => {
    await db.queryNoRole(
      `INSERT INTO reconciliation_open_findings VALUES (gen_random_uuid(), 'paid_twice', 'critical', now())`,
    )
    expect(await damage()).toMatchObject([
      { severity: 'damage', code: 'OPEN_FINDINGS_MATCH', expected: 'closed', found: 'open, paid_twice, critical' },
    ])
  })

  test('reports an item that is both pending and terminal (ITEMS_ARE_PENDING_OR_TERMINAL)', async () => {
    await db.queryNoRole(`
      INSERT INTO payment_outbox_pending (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload)
      SELECT outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload
      FROM payment_outbox_attempts WHERE state = 'DISPATCHED'`)
    expect(await damage()).toMatchObject([{ code: 'ITEMS_ARE_PENDING_OR_TERMINAL', found: 'both' }])
  })

  test('reports an item that is neither pending nor terminal (ITEMS_ARE_PENDING_OR_TERMINAL)', async () => {
    await db.queryNoRole(`DELETE FROM payment_outbox_pending WHERE instruction_id = 'i3'`)
    expect(await damage()).toMatchObject([{ code: 'ITEMS_ARE_PENDING_OR_TERMINAL', found: 'neither' }])
  })

  test('reports a pending item without an identity (ITEMS_ARE_PENDING_OR_TERMINAL)', async () => {
    await db.queryNoRole(`
      INSERT INTO payment_outbox_pending (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload)
      VALUES (gen_random_uuid(), 'smuggled', 'participant', 99, 'k', 'rail', '{}')`)
    expect(await damage()).toMatchObject([{ code: 'ITEMS_ARE_PENDING_OR_TERMINAL', expected: 'an identity' }])
  })

  test('reports a gap in the attempt numbers (ATTEMPTS_HAVE_NO_GAP)', async () => {
    await tamper(
      'payment_outbox_attempts',
      `UPDATE payment_outbox_attempts SET attempt_no = 3 WHERE state = 'RETRYABLE'`,
    )
    expect(await damage()).toMatchObject([{ code: 'ATTEMPTS_HAVE_NO_GAP', found: 'numbers from 3 to 3' }])
  })

  test('reports a gap in the sequence of a participant (SEQUENCES_HAVE_NO_GAP)', async () => {
    await tamper(
      'payment_outbox_identities',
      `UPDATE payment_outbox_identities SET sequence_id = 7 WHERE sequence_id = 3`,
    )
    expect(await damage()).toMatchObject([
      { code: 'SEQUENCES_HAVE_NO_GAP', object: 'participant', found: 'numbers from 1 to 7' },
    ])
  })

  test.each([
    ['token below an issued token', 'UPDATE symphony_lease_floor SET fencing_token = 40', '40'],
    ['table without its row', 'DELETE FROM symphony_lease_floor', 'no row'],
  ])('reports a lease floor %s (LEASE_FLOOR_IS_KEPT)', async (_, sql, found) => {
    for (const name of ['removed', 'kept']) await db.queryNoRole(`SELECT acquire_lease($1, 'a', 60000)`, [name])
    await db.queryNoRole(`UPDATE symphony_leases SET fencing_token = 41, expires_at = now() - interval '2 hours'
      WHERE resource = 'removed'`)
    await db.queryNoRole(`SELECT purge_idle_leases(3600, 1000)`)
    await db.queryNoRole(`SELECT acquire_lease('kept', 'a', 60000)`)
    expect(await damage()).toEqual([])
    await db.queryNoRole(sql)
    expect(await damage()).toMatchObject([
      { code: 'LEASE_FLOOR_IS_KEPT', object: 'symphony_lease_floor', expected: 'a token of at least 41', found },
    ])
  })

  test('reports a check that cannot run, and still runs the other checks', async () => {
    await db.queryNoRole('DROP VIEW supervisor_outbox_status')
    await db.queryNoRole(`DELETE FROM payment_outbox_pending WHERE instruction_id = 'i3'`)
    const codes = (await damage()).map(({ code }) => code)
    expect(codes).toEqual(expect.arrayContaining(['TOTALS_MATCH_LEDGER', 'ITEMS_ARE_PENDING_OR_TERMINAL']))
  })
})

test('doctor finds damage in older items only with full: true', async () => {
  await db.queryNoRole(`DELETE FROM payment_outbox_pending WHERE instruction_id = 'i2'`)
  await db.queryNoRole(`
    SELECT enqueue_payment_outbox_batch(array_agg('b' || n), array_agg('q'::text), array_agg('k'::text), array_agg('rail'::text), array_agg('{}'::jsonb))
    FROM generate_series(1, 10000) n GROUP BY n / 1000`)
  expect(await damage()).toEqual([])
  const { findings } = await doctor({ url: db.url, schema: db.schema, full: true })
  expect(findings).toContainEqual(expect.objectContaining({ code: 'ITEMS_ARE_PENDING_OR_TERMINAL', found: 'neither' }))
})
