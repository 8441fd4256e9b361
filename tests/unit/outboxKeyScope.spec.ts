import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { KeyReusedError, type RoleHandle } from '../../libs/db/index.js'
import { enqueuePaymentOutbox, enqueuePaymentOutboxBatch, type OutboxInstruction } from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import { gatewayOf } from '../support/httpFixture.js'
import { buildInstruction, claimOnly, complete, enqueue, sequenceOf } from '../support/outboxItems.js'
import { createPerson, approve, propose } from '../support/outboxPeople.js'
import { connectionOf, failureOf, untilWaiting, type Connection } from '../support/race.js'

/** Tests that an idempotency key names only one instruction within a key scope (P7014). */

const db = await useTestDatabase()
let gateway: RoleHandle
beforeAll(async () => {
  gateway = (await gatewayOf(db)).database.as('symphony_ingest')
})

/** Returns a scope that no other test uses. */
function buildScope(): { readonly keyScope: string } {
  return { keyScope: `key:${randomUUID()}` }
}

async function scopesOf(instructionId: string): Promise<unknown[]> {
  const { rows } = await db.queryNoRole<{ key_scope: string | null }>(
    'SELECT key_scope FROM payment_outbox_identities WHERE instruction_id = $1 ORDER BY outbox_id',
    [instructionId],
  )
  return rows.map(({ key_scope: scope }) => scope)
}

describe('a key that is in use in its scope', () => {
  test('is refused for a second instruction (P7014); the error names the first instruction', async () => {
    const scope = buildScope()
    const first = buildInstruction()
    const second = buildInstruction({ idempotencyKey: first.idempotencyKey })
    await enqueuePaymentOutbox(gateway, first, scope)
    const error = await failureOf(enqueuePaymentOutbox(gateway, second, scope))
    expect(error).toBeInstanceOf(KeyReusedError)
    expect(error).toMatchObject({
      code: 'KEY_REUSED',
      sqlstate: 'P7014',
      disposition: 'fatal',
      firstInstructionId: first.instructionId,
      detail: `{"ordinal" : 1, "instruction_id" : "${first.instructionId}"}`,
      hint: expect.stringContaining('new idempotency key'),
    })
    expect(await scopesOf(second.instructionId)).toEqual([])
    expect(await sequenceOf(db, second.participantId)).toEqual({ taken: [], next: undefined })
  })

  test('is accepted again for the same instruction and content; the first item is returned', async () => {
    const scope = buildScope()
    const instruction = buildInstruction()
    const first = await enqueuePaymentOutbox(gateway, instruction, scope)
    expect(await enqueuePaymentOutbox(gateway, instruction, scope)).toEqual({ ...first, created: false })
    expect(await scopesOf(instruction.instructionId)).toEqual([scope.keyScope])
  })

  test('is refused for the same instruction with other content (P7004)', async () => {
    const scope = buildScope()
    const instruction = buildInstruction()
    await enqueuePaymentOutbox(gateway, instruction, scope)
    const changed = { ...instruction, payload: { amountMinor: '1051' } }
    expect(await failureOf(enqueuePaymentOutbox(gateway, changed, scope))).toMatchObject({ sqlstate: 'P7004' })
  })

  test('may be used for other instructions in another scope or without a scope', async () => {
    const { idempotencyKey } = buildInstruction()
    for (const scope of [buildScope(), buildScope(), {}, {}]) {
      const item = await enqueuePaymentOutbox(gateway, buildInstruction({ idempotencyKey }), scope)
      expect(item.created).toBe(true)
    }
  })

  test('is refused for a second instruction in the same batch (P7014)', async () => {
    const scope = buildScope()
    const { idempotencyKey } = buildInstruction()
    const batch = [buildInstruction(), buildInstruction({ idempotencyKey }), buildInstruction({ idempotencyKey })]
    expect(await failureOf(enqueuePaymentOutboxBatch(gateway, batch, scope))).toMatchObject({
      sqlstate: 'P7014',
      firstInstructionId: batch[1]!.instructionId,
      detail: expect.stringMatching(/"ordinal" : 3/),
    })
    for (const { instructionId } of batch) expect(await scopesOf(instructionId)).toEqual([])
  })

  test('is refused for a new instruction in a batch with known items (P7014)', async () => {
    const scope = buildScope()
    const known = [buildInstruction(), buildInstruction()]
    await enqueuePaymentOutboxBatch(gateway, known, scope)
    const foreign = buildInstruction({ idempotencyKey: known[1]!.idempotencyKey })
    expect(await failureOf(enqueuePaymentOutboxBatch(gateway, [...known, foreign], scope))).toMatchObject({
      sqlstate: 'P7014',
      firstInstructionId: known[1]!.instructionId,
    })
    const again = await enqueuePaymentOutboxBatch(gateway, [...known, known[0]!, buildInstruction()], scope)
    expect(again.map(({ created }) => created)).toEqual([false, false, false, true])
  })
})

describe('the key scope argument of an enqueue', () => {
  test('is refused for a login that is not a gateway (42501), and nothing is enqueued', async () => {
    const instruction = buildInstruction()
    for (const attempt of [
      () => enqueuePaymentOutbox(db.as('symphony_ingest'), instruction, buildScope()),
      () => enqueuePaymentOutboxBatch(db.as('symphony_ingest'), [instruction], buildScope()),
    ]) {
      expect(await failureOf(attempt())).toMatchObject({ sqlstate: '42501', hint: expect.stringContaining('gateway') })
    }
    expect(await scopesOf(instruction.instructionId)).toEqual([])
  })

  test.each([
    ['blank', ' '],
    ['empty', ''],
    ['longer than 500 characters', 'x'.repeat(501)],
    ['a text with a control character', 'key:a\u0007'],
  ])('is refused if it is %s (22023)', async (_, scope) => {
    const call = `SELECT * FROM ${db.qualify('enqueue_payment_outbox')}('i', 'p', 'k', 'r', '{}', p_key_scope => $1)`
    expect(await failureOf(gateway.query(call, [scope]))).toMatchObject({
      sqlstate: '22023',
      message: expect.stringContaining('p_key_scope'),
    })
  })

  test('is accepted at its maximum length, with the longest key', async () => {
    const keyScope = `${randomUUID()}${'€'.repeat(464)}`
    const instruction = buildInstruction({ idempotencyKey: 'k'.repeat(128) })
    expect((await enqueuePaymentOutbox(gateway, instruction, { keyScope })).created).toBe(true)
  })
})

/** Opens a connection of the gateway. */
async function connect(): Promise<Connection> {
  const client = await (await gatewayOf(db)).connect()
  await client.query('SET ROLE symphony_ingest')
  return connectionOf(db, client)
}

/** Builds one instruction per key, in this order. */
function buildBatch(name: string, keys: readonly string[]): OutboxInstruction[] {
  return keys.map((idempotencyKey, index) => buildInstruction({ instructionId: `${name}-${index}`, idempotencyKey }))
}

describe('two transactions that use the same key for different instructions', () => {
  test.each([
    ['refused (P7014) if the first commits', 'COMMIT', { sqlstate: 'P7014' }],
    ['enqueued if the first rolls back', 'ROLLBACK', { created: true }],
  ])('are serialized: the second waits and is %s', async (_, end, expected) => {
    const [one, two] = [await connect(), await connect()]
    const scope = buildScope()
    const first = buildInstruction()
    await one.query('BEGIN')
    await enqueuePaymentOutbox(one, first, scope)
    const second = enqueuePaymentOutbox(two, buildInstruction({ idempotencyKey: first.idempotencyKey }), scope).catch(
      (error: unknown) => error,
    )
    await untilWaiting(db, two)
    await one.query(end)
    expect(await second).toMatchObject(expected)
    await one.close()
    await two.close()
  })

  test('end with one refusal (P7014), not a deadlock, if they share two keys in opposite order', async () => {
    const [blocker, one, two] = [await connect(), await connect(), await connect()]
    const scope = buildScope()
    // Both batches wait halfway, at a key of the blocker, before they reach each other's keys.
    await blocker.query('BEGIN')
    await enqueuePaymentOutboxBatch(blocker, buildBatch('blocker', ['m1', 'm2']), scope)
    const outcomes = Promise.allSettled([
      enqueuePaymentOutboxBatch(one, buildBatch('one', ['k1', 'm1', 'k2']), scope),
      enqueuePaymentOutboxBatch(two, buildBatch('two', ['k2', 'm2', 'k1']), scope),
    ])
    await untilWaiting(db, one, two)
    await blocker.query('ROLLBACK')
    const refusals = (await outcomes).flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []))
    expect(refusals).toMatchObject([{ sqlstate: 'P7014' }])
    for (const connection of [blocker, one, two]) await connection.close()
  })

  test('end with a serialization failure of the second under REPEATABLE READ (40001)', async () => {
    const [one, two] = [await connect(), await connect()]
    const scope = buildScope()
    const first = buildInstruction()
    await two.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await two.query('SELECT 1')
    await enqueuePaymentOutbox(one, first, scope)
    const second = buildInstruction({ idempotencyKey: first.idempotencyKey })
    expect(await failureOf(enqueuePaymentOutbox(two, second, scope))).toMatchObject({ sqlstate: '40001' })
    await two.query('ROLLBACK')
    expect(await failureOf(enqueuePaymentOutbox(two, second, scope))).toMatchObject({ sqlstate: 'P7014' })
    await one.close()
    await two.close()
  })
})

test('a redrive has no key scope, and the key of its payment stays in use (P7014)', async () => {
  const [olga, pavel] = [await createPerson(db, 'olga'), await createPerson(db, 'pavel')]
  const scope = buildScope()
  const instruction = buildInstruction()
  const { outboxId } = await enqueuePaymentOutbox(gateway, instruction, scope)
  await complete(db, await claimOnly(db, instruction.railType), { state: 'FAILED', errorCode: 'REFUSED' })
  await approve(pavel, await propose(olga, outboxId, 'REDRIVE'))
  expect(await scopesOf(instruction.instructionId)).toEqual([scope.keyScope, null])
  const other = buildInstruction({ idempotencyKey: instruction.idempotencyKey })
  expect(await failureOf(enqueuePaymentOutbox(gateway, other, scope))).toMatchObject({ sqlstate: 'P7014' })
})

test('an enqueue without a scope may use a key for two instructions', async () => {
  const first = await enqueue(db)
  const second = await enqueue(db, { idempotencyKey: first.idempotencyKey })
  expect(second.created).toBe(true)
  expect(await scopesOf(first.instructionId)).toEqual([null])
})
