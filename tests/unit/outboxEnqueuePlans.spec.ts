import { expect, test } from 'vitest'
import { createTestDatabase, useTestDatabase } from '../support/database.js'
import { PlanRecorder, scansOf } from '../support/plans.js'

const db = await useTestDatabase({ countBranches: false })

/** Returns the call of a batch whose first item is known, so that the enqueue queries each key. */
function mixedBatch(keys: string, options = ''): string {
  return `SELECT * FROM ${db.qualify('enqueue_payment_outbox_batch')}(
    ARRAY(SELECT CASE n WHEN 1 THEN 'known' ELSE $1 || n END FROM generate_series(1, 500) n),
    array_fill('p'::text, ARRAY[500]), ${keys}, array_fill('rail'::text, ARRAY[500]), array_fill('{}'::jsonb, ARRAY[500])
    ${options})`
}

test('an enqueue with a key scope finds each key by one lookup in the partial unique index', async () => {
  await db.queryNoRole('SELECT set_actor_gateway(session_user::text, false)')
  const recorder = await PlanRecorder.open(db, 'symphony_ingest')
  const keys = `ARRAY(SELECT CASE n WHEN 1 THEN 'known' ELSE $1 || n END FROM generate_series(1, 500) n)`
  const call = mixedBatch(keys, `, p_key_scope => 'key:shop'`)
  for (const run of ['s', 't', 'u']) await recorder.run(call, [run])
  const execution = await recorder.run(call, ['v'])
  await recorder.close()
  const scans = scansOf(execution, 'payment_outbox_identities')
  const scoped = scans.filter(({ index }) => index === 'payment_outbox_identities_one_instruction_per_scoped_key')
  expect(scoped).toMatchObject([{ isLookUp: true, loops: 500 }])
  expect(scans.filter(({ isLookUp }) => !isLookUp)).toEqual([])
  expect(execution.scanned).not.toContain('payment_outbox_identities')
})

/** Many applications use the same key for every instruction. */
test('an enqueue of known and new items finds each by index, although all have the same key', async () => {
  const recorder = await PlanRecorder.open(db, 'symphony_ingest')
  const call = mixedBatch(`array_fill('the-key'::text, ARRAY[500])`)
  for (const run of ['a', 'b', 'c']) await recorder.run(call, [run])
  const scans = scansOf(await recorder.run(call, ['d']), 'payment_outbox_identities')
  await recorder.close()
  expect(scans.map(({ index }) => index)).toEqual(scans.map(() => 'payment_outbox_identities_one_per_key'))
  expect(scans.filter(({ loops }) => loops === 500)).toHaveLength(2)
  for (const { isLookUp, loops, rows } of scans)
    expect({ isLookUp, few: rows <= loops }).toEqual({ isLookUp: true, few: true })
})

test('an enqueue of new items looks up only the first key', async () => {
  const recorder = await PlanRecorder.open(db, 'symphony_ingest')
  const ids = 'ARRAY(SELECT $1 || n FROM generate_series(1, 500) n)'
  const call = `SELECT * FROM ${db.qualify('enqueue_payment_outbox_batch')}(
    ${ids}, array_fill('p'::text, ARRAY[500]), ${ids}, array_fill('rail'::text, ARRAY[500]), array_fill('{}'::jsonb, ARRAY[500]))`
  await recorder.run(call, ['first'])
  const scans = scansOf(await recorder.run(call, ['second']), 'payment_outbox_identities')
  await recorder.close()
  expect(scans).toMatchObject([{ isLookUp: true, loops: 1, rows: 0 }])
})

/**
 * PostgreSQL locks rows in the order in which it reads them. All calls must read participants in the order of names, or
 * they could deadlock.
 */
test('an enqueue finds each participant by index, although the table was analysed when small', async () => {
  const fewer = await createTestDatabase({ countBranches: false })
  const call = `SELECT * FROM ${fewer.qualify('enqueue_payment_outbox_batch')}(
    ARRAY[$1 || 1, $1 || 2], ARRAY['a', 'b'], ARRAY[$1 || 1, $1 || 2], ARRAY['r', 'r'], ARRAY['{}', '{}']::jsonb[])`
  await fewer.queryNoRole(`INSERT INTO participant_outbox_sequences VALUES ('a', 1), ('b', 1), ('c', 1)`)
  await fewer.queryNoRole('ANALYZE participant_outbox_sequences')
  const recorder = await PlanRecorder.open(fewer, 'symphony_ingest')
  const scans = scansOf(await recorder.run(call, ['i']), 'participant_outbox_sequences')
  await recorder.close()
  await fewer.drop()
  expect(scans).toMatchObject([{ isLookUp: true, loops: 2, rows: 2 }])
})
