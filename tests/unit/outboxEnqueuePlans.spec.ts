import { afterAll, beforeAll, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { PlanRecorder, scansOf } from '../support/plans.js'

let db: TestDatabase
beforeAll(async () => {
  db = await createTestDatabase({ countBranches: false })
})
afterAll(() => db.drop())

/** Many applications give every instruction the same key: an index of keys alone would then lead to all of them. */
test('an enqueue with a key scope finds each key by one entry of the partial unique index', async () => {
  await db.queryNoRole('SELECT set_actor_gateway(session_user::text, false)')
  const recorder = await PlanRecorder.open(db, 'symphony_ingest')
  const call = `SELECT * FROM ${db.qualify('enqueue_payment_outbox_batch')}(
    ARRAY(SELECT $1 || n FROM generate_series(1, 500) n), array_fill('p'::text, ARRAY[500]),
    ARRAY(SELECT $1 || n FROM generate_series(1, 500) n), array_fill('rail'::text, ARRAY[500]),
    array_fill('{}'::jsonb, ARRAY[500]), p_key_scope => 'key:shop')`
  for (const run of ['s', 't', 'u']) await recorder.run(call, [run])
  const execution = await recorder.run(call, ['v'])
  await recorder.close()
  const scans = scansOf(execution, 'payment_outbox_identities')
  const scoped = scans.filter(({ index }) => index === 'payment_outbox_identities_one_instruction_per_scoped_key')
  expect(scoped).toMatchObject([{ isLookUp: true, loops: 500, rows: 0 }])
  expect(execution.scanned).not.toContain('payment_outbox_identities')
})

test('where all instructions bear one key, an enqueue still finds each of its own by one entry', async () => {
  const recorder = await PlanRecorder.open(db, 'symphony_ingest')
  const call = `SELECT * FROM ${db.qualify('enqueue_payment_outbox_batch')}(
    ARRAY(SELECT $1 || n FROM generate_series(1, 500) n), array_fill('p'::text, ARRAY[500]),
    array_fill('the-key'::text, ARRAY[500]), array_fill('rail'::text, ARRAY[500]), array_fill('{}'::jsonb, ARRAY[500]))`
  for (const run of ['a', 'b', 'c']) await recorder.run(call, [run])
  const scans = scansOf(await recorder.run(call, ['d']), 'payment_outbox_identities')
  await recorder.close()
  expect(scans.length).toBeGreaterThan(0)
  expect(scans.map(({ index }) => index)).not.toContain('ix_identities_by_key')
})
