import type { Client } from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { IdempotencyConflictError } from '../../libs/db/index.js'
import { enqueue, enqueueMany } from '../../libs/outbox/index.js'
import { type TestLogin, useTestDatabase } from '../support/database.js'
import { buildInstruction } from '../support/outboxItems.js'

/*
 * Tests enqueue with the client of an application: its login inherits symphony_ingest, and the client switches no role.
 */

const db = await useTestDatabase()
let login: TestLogin
let client: Client
let received: string[]
let listener: Client
beforeAll(async () => {
  login = await db.createLogin('shop', { roles: ['symphony_ingest'], inherit: true })
  client = await login.connect()
  listener = await db.connect()
  received = []
  listener.on('notification', ({ channel }) => received.push(channel))
  await listener.query('LISTEN outbox_pending')
})

const counts = async (participantId: string) => {
  const { rows } = await db.queryNoRole<{ items: number; next: string | null }>(
    `SELECT (SELECT count(*)::int FROM payment_outbox_pending WHERE participant_id = $1) AS items,
       (SELECT next_sequence_id::text FROM participant_outbox_sequences WHERE participant_id = $1) AS next`,
    [participantId],
  )
  return rows[0]
}

test('enqueue commits with the transaction of the caller', async () => {
  const instruction = buildInstruction()
  await client.query('BEGIN')
  const item = await enqueue(instruction, { tx: client, schema: db.schema })
  await client.query('COMMIT')
  expect(item).toMatchObject({ created: true, sequenceId: 1n, state: 'PENDING' })
  expect(await counts(instruction.participantId)).toEqual({ items: 1, next: '2' })
})

test('a rollback of an enqueue leaves no item, no sequence number and no notification', async () => {
  const instruction = buildInstruction()
  await listener.query('SELECT 1')
  const before = received.length
  await client.query('BEGIN')
  await enqueue(instruction, { tx: client, schema: db.schema })
  await client.query('ROLLBACK')
  await listener.query('SELECT 1')
  expect(received.length).toBe(before)
  expect(await counts(instruction.participantId)).toEqual({ items: 0, next: null })
})

test('a repeated enqueue returns the first item; other content throws IdempotencyConflictError', async () => {
  const instruction = buildInstruction()
  await client.query('BEGIN')
  const first = await enqueue(instruction, { tx: client, schema: db.schema })
  expect(await enqueue(instruction, { tx: client, schema: db.schema })).toEqual({ ...first, created: false })
  await expect(
    enqueue({ ...instruction, payload: { amountMinor: '1' } }, { tx: client, schema: db.schema }),
  ).rejects.toBeInstanceOf(IdempotencyConflictError)
  await client.query('ROLLBACK')
})

test('enqueueMany numbers 1,500 items in the given order', async () => {
  const { participantId, railType } = buildInstruction()
  const instructions = Array.from({ length: 1_500 }, () => buildInstruction({ participantId, railType }))
  await client.query('BEGIN')
  const items = await enqueueMany(instructions, { tx: client, schema: db.schema })
  await client.query('COMMIT')
  expect(items.map(({ sequenceId }) => sequenceId)).toEqual(instructions.map((_, index) => BigInt(index + 1)))
})
