import { expect, test } from 'vitest'
import { useTestDatabase } from '../support/database.js'

const db = await useTestDatabase()

test('TestDatabase.as runs a statement in the given role, under a login that is no superuser', async () => {
  const { rows } = await db.as('symphony_executor').query('SELECT current_user, session_user')
  expect(rows).toEqual([{ current_user: 'symphony_executor', session_user: 'symphony_test_login' }])
})

test('TestDatabase.expireLease and makeDue accept a claimed item', async () => {
  const enqueued = await db.queryNoRole<{ outbox_id: string }>(
    `SELECT outbox_id FROM enqueue_payment_outbox('i1', 'p1', 'k1', 'rail', '{"a":1}')`,
  )
  const id = enqueued.rows[0]!.outbox_id
  const claim = await db.connect('symphony_executor')
  const { rows } = await claim.query(`SELECT * FROM claim_outbox_batch(10, 'w1', 60)`)
  expect(rows).toHaveLength(1)
  await db.expireLease(id)
  await db.makeDue(id)
})

test('TestDatabase.createLogin creates a login that can act in its roles', async () => {
  const alice = await db.createLogin('alice', { roles: ['symphony_control'] })
  const { rows } = await alice.database.as('symphony_control').query('SELECT session_user')
  expect(rows).toEqual([{ session_user: alice.name }])
})

test('record_deployment records each deployment under the next number, with all its files', async () => {
  const record = `SELECT ${db.qualify('record_deployment')}(1, '1.2.3', $1, $2) AS number`
  const files = [
    ['a.sql', 'b.sql'],
    ['0'.repeat(64), 'f'.repeat(64)],
  ]
  const owner = db.as('symphony_owner')
  const first = await owner.query<{ number: number }>(record, files)
  const second = await owner.query<{ number: number }>(record, files)
  expect(second.rows[0]!.number).toBe(first.rows[0]!.number + 1)
  const { rows } = await db.queryNoRole('SELECT file, release FROM symphony_deployments WHERE deployment_no = $1', [
    second.rows[0]!.number,
  ])
  expect(rows).toEqual([
    { file: 'a.sql', release: '1.2.3' },
    { file: 'b.sql', release: '1.2.3' },
  ])
})
