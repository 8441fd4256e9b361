import { describe, expect, test } from 'vitest'
import { DatabaseError, IdempotencyConflictError, qualify, withSchema } from '../../libs/db/index.js'
import {
  enqueuePaymentOutbox,
  enqueuePaymentOutboxBatch,
  type EnqueuedItem,
  type OutboxInstruction,
} from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import {
  buildInstruction,
  claim,
  claimOnly,
  complete,
  enqueue,
  pendingRow,
  sequenceOf,
} from '../support/outboxItems.js'
import { failureOf } from '../support/race.js'

const db = await useTestDatabase()

function enqueueAll(instructions: readonly OutboxInstruction[]): Promise<EnqueuedItem[]> {
  return enqueuePaymentOutboxBatch(db.as('symphony_ingest'), instructions)
}

/**
 * Returns the notifications that the body sends. PostgreSQL delivers in commit order, so all of them have arrived when
 * the marker arrives.
 */
async function notificationsDuring(body: () => Promise<unknown>): Promise<string[]> {
  const listener = await db.connect()
  const received: string[] = []
  const done = new Promise<void>((resolve) => {
    listener.on('notification', ({ payload }) => (payload === 'marker' ? resolve() : received.push(payload ?? '')))
  })
  await listener.query('LISTEN outbox_pending')
  await body()
  await db.queryNoRole(`NOTIFY outbox_pending, 'marker'`)
  await done
  await listener.end()
  return received
}

/** Returns all rows that an enqueue can write. */
async function everything(): Promise<unknown> {
  const { rows } = await db.queryNoRole(
    `SELECT (SELECT jsonb_agg(to_jsonb(i) ORDER BY i.outbox_id) FROM payment_outbox_identities i) AS identities,
       (SELECT jsonb_agg(to_jsonb(p) ORDER BY p.outbox_id) FROM payment_outbox_pending p) AS pending,
       (SELECT jsonb_agg(to_jsonb(s) ORDER BY s.participant_id) FROM participant_outbox_sequences s) AS sequences,
       (SELECT jsonb_agg(to_jsonb(a) ORDER BY a.attempt_id) FROM payment_outbox_attempts a) AS attempts`,
  )
  return rows[0]
}

describe('a new outbox item', () => {
  test('is pending, due at once, and has sequence number 1', async () => {
    const item = await enqueue(db)
    expect(item).toMatchObject({ created: true, state: 'PENDING', sequenceId: 1n })
    expect(await pendingRow(db, item.outboxId)).toMatchObject({
      instruction_id: item.instructionId,
      participant_id: item.participantId,
      idempotency_key: item.idempotencyKey,
      rail_type: item.railType,
      payload: item.payload,
      sequence_id: 1n,
      attempt_count: 0,
      lease_token: null,
      outcome_unknown: false,
      hold_reason: null,
      blocked: false,
    })
    const due = await claim(db, item.railType)
    expect(due.map(({ outboxId }) => outboxId)).toEqual([item.outboxId])
  })

  test('is not due before its not-before time', async () => {
    const notBefore = new Date('2100-01-01T00:00:00Z')
    const item = await enqueue(db, { notBefore })
    expect((await pendingRow(db, item.outboxId))?.next_attempt_at).toEqual(notBefore)
    expect(await claim(db, item.railType)).toEqual([])
  })

  test('has a UUID of version 7, not earlier than that of the previous item', async () => {
    const first = await enqueue(db)
    const second = await enqueue(db)
    expect(first.outboxId).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab]/)
    // The first 48 bits are the time.
    expect(second.outboxId.slice(0, 13) >= first.outboxId.slice(0, 13)).toBe(true)
  })

  test('commits or rolls back with a transaction that the application opened on its own client', async () => {
    const shop = await db.createLogin('shop', { roles: ['symphony_ingest'], inherit: true })
    await db.queryNoRole(`CREATE TABLE shop_orders (id text); GRANT INSERT, SELECT ON shop_orders TO "${shop.name}"`)
    const client = await shop.connect()
    const outbox = withSchema({ query: (text, values) => client.query<never>(text, [...(values ?? [])]) }, db.schema)
    const kept = buildInstruction()
    const undone = buildInstruction()
    const orders = qualify(db.as('symphony_ingest'), 'shop_orders')

    // The shop's table is in the outbox schema. Access to it needs USAGE on the schema, which symphony_ingest has.
    for (const [instruction, end] of [
      [kept, 'COMMIT'],
      [undone, 'ROLLBACK'],
    ] as const) {
      await client.query('BEGIN')
      await client.query(`INSERT INTO ${orders} VALUES ($1)`, [instruction.instructionId])
      expect(await enqueuePaymentOutbox(outbox, instruction)).toMatchObject({ created: true, sequenceId: 1n })
      await client.query(end)
    }

    const { rows } = await client.query(`SELECT id FROM ${orders}`)
    expect(rows).toEqual([{ id: kept.instructionId }])
    expect(await enqueuePaymentOutbox(outbox, kept)).toMatchObject({ created: false, sequenceId: 1n })
    expect(await sequenceOf(db, undone.participantId)).toEqual({ taken: [], next: undefined })
  })
})

describe('a repeated enqueue', () => {
  test('returns the first item while it is pending', async () => {
    const first = await enqueue(db)
    const before = await everything()
    const again = await enqueuePaymentOutbox(db.as('symphony_ingest'), first)
    expect(again).toEqual({
      outboxId: first.outboxId,
      sequenceId: first.sequenceId,
      createdAt: first.createdAt,
      state: 'PENDING',
      created: false,
    })
    expect(await everything()).toEqual(before)
  })

  test.for(['DISPATCHED', 'FAILED'] as const)('returns the first item after it has ended as %s', async (state) => {
    const first = await enqueue(db)
    await complete(db, await claimOnly(db, first.railType), { state, railReference: 'ref-1' })
    const before = await everything()
    const again = await enqueuePaymentOutbox(db.as('symphony_ingest'), first)
    expect(again).toMatchObject({ outboxId: first.outboxId, sequenceId: first.sequenceId, state, created: false })
    expect(await everything()).toEqual(before)
    expect(await claim(db, first.railType)).toEqual([])
  })

  test('returns the first item even if notBefore or the order of JSON keys differs', async () => {
    const first = await enqueue(db, { payload: { amountMinor: '1', currency: 'EUR', to: { iban: 'X', bic: 'Y' } } })
    const again = await enqueuePaymentOutbox(db.as('symphony_ingest'), {
      ...first,
      payload: { to: { bic: 'Y', iban: 'X' }, currency: 'EUR', amountMinor: '1' },
      notBefore: new Date('2100-01-01T00:00:00Z'),
    })
    expect(again).toMatchObject({ outboxId: first.outboxId, created: false })
    expect(await claim(db, first.railType)).toHaveLength(1)
  })

  test('creates another item if the key or the instruction differs', async () => {
    const first = await enqueue(db)
    const otherKey = await enqueuePaymentOutbox(db.as('symphony_ingest'), { ...first, idempotencyKey: 'another' })
    const otherInstruction = await enqueuePaymentOutbox(db.as('symphony_ingest'), {
      ...first,
      instructionId: `${first.instructionId}-2`,
    })
    expect([otherKey, otherInstruction]).toMatchObject([
      { created: true, sequenceId: 2n },
      { created: true, sequenceId: 3n },
    ])
  })
})

describe('the same instruction and key', () => {
  const others = [
    ['participant', { participantId: 'another-participant' }],
    ['rail', { railType: 'another-rail' }],
    ['payload', { payload: { amountMinor: '1051', currency: 'EUR' } }],
    ['spelling of a number in the payload', { payload: { amountMinor: 1050, currency: 'EUR' } }],
  ] as const

  test.for(others)('conflict if the %s differs, and write nothing (P7004)', async ([, other]) => {
    const first = await enqueue(db)
    const before = await everything()
    const refusal = await failureOf(enqueuePaymentOutbox(db.as('symphony_ingest'), { ...first, ...other }))
    expect(refusal).toBeInstanceOf(IdempotencyConflictError)
    expect(refusal).toMatchObject({ sqlstate: 'P7004', detail: '{"ordinal" : 1}' })
    expect(await everything()).toEqual(before)
  })

  test.for(others)('conflict if the %s differs, even after the first item has ended', async ([, other]) => {
    for (const state of ['DISPATCHED', 'FAILED'] as const) {
      const first = await enqueue(db)
      await complete(db, await claimOnly(db, first.railType), { state })
      const before = await everything()
      const refusal = await failureOf(enqueuePaymentOutbox(db.as('symphony_ingest'), { ...first, ...other }))
      expect(refusal).toBeInstanceOf(IdempotencyConflictError)
      expect(await everything()).toEqual(before)
    }
  })

  test('conflict if participant and rail differ, even if both joined give the same text', async () => {
    const first = await enqueue(db, { participantId: 'ab', railType: 'c' })
    const moved = { ...first, participantId: 'a', railType: 'bc' }
    const refusal = await failureOf(enqueuePaymentOutbox(db.as('symphony_ingest'), moved))
    expect(refusal).toBeInstanceOf(IdempotencyConflictError)
  })
})

describe('a batch of instructions', () => {
  test('keeps the given order in its results, sequence numbers and claims', async () => {
    const railType = buildInstruction().railType
    const [first, second] = [buildInstruction().participantId, buildInstruction().participantId]
    const items = await enqueueAll(
      [first, second, second, first, second].map((participantId) => buildInstruction({ participantId, railType })),
    )
    expect(items.map(({ sequenceId }) => sequenceId)).toEqual([1n, 1n, 2n, 2n, 3n])
    expect(items.every(({ created }) => created)).toBe(true)
    expect(await sequenceOf(db, first)).toEqual({ taken: [1n, 2n], next: 3n })
    expect(await sequenceOf(db, second)).toEqual({ taken: [1n, 2n, 3n], next: 4n })
    const claimed = await claim(db, railType)
    expect(claimed.map(({ outboxId }) => outboxId)).toEqual(items.map(({ outboxId }) => outboxId))
  })

  test('takes sequence numbers for its new items only', async () => {
    const known = await enqueue(db)
    const ended = await enqueue(db, { participantId: known.participantId })
    await complete(db, await claimOnly(db, ended.railType), { state: 'DISPATCHED' })
    const fresh = buildInstruction({ participantId: known.participantId })
    const items = await enqueueAll([ended, fresh, known])
    expect(items).toMatchObject([
      { outboxId: ended.outboxId, sequenceId: 2n, created: false, state: 'DISPATCHED' },
      { sequenceId: 3n, created: true, state: 'PENDING' },
      { outboxId: known.outboxId, sequenceId: 1n, created: false, state: 'PENDING' },
    ])
    expect(await sequenceOf(db, known.participantId)).toEqual({ taken: [1n, 2n, 3n], next: 4n })
  })

  test('numbers new items without gaps if a known item follows them', async () => {
    const known = await enqueue(db)
    const { participantId } = known
    const items = await enqueueAll([buildInstruction({ participantId }), buildInstruction({ participantId }), known])
    expect(items).toMatchObject([
      { sequenceId: 2n, created: true },
      { sequenceId: 3n, created: true },
      { outboxId: known.outboxId, sequenceId: 1n, created: false },
    ])
    expect(await sequenceOf(db, participantId)).toEqual({ taken: [1n, 2n, 3n], next: 4n })
  })

  test('numbers items of known and new participants without gaps', async () => {
    const { participantId } = await enqueue(db)
    const added = buildInstruction().participantId
    const items = await enqueueAll(
      [added, participantId, added].map((name) => buildInstruction({ participantId: name })),
    )
    expect(items.map(({ sequenceId }) => sequenceId)).toEqual([1n, 2n, 2n])
    expect(await sequenceOf(db, participantId)).toEqual({ taken: [1n, 2n], next: 3n })
    expect(await sequenceOf(db, added)).toEqual({ taken: [1n, 2n], next: 3n })
  })

  test('creates one item for a key listed twice; only the first result has created: true', async () => {
    const instruction = buildInstruction()
    const items = await enqueueAll([instruction, { ...instruction }])
    expect(items.map(({ created }) => created)).toEqual([true, false])
    expect(items[1]!.outboxId).toBe(items[0]!.outboxId)
    expect(await sequenceOf(db, instruction.participantId)).toEqual({ taken: [1n], next: 2n })
  })

  test('is refused as a whole if it lists one key twice with different content', async () => {
    const instruction = buildInstruction()
    const before = await everything()
    const refusal = await failureOf(
      enqueueAll([buildInstruction(), instruction, { ...instruction, payload: { amountMinor: '2' } }]),
    )
    expect(refusal).toBeInstanceOf(IdempotencyConflictError)
    expect(refusal).toMatchObject({ detail: '{"ordinal" : 3}' })
    expect(await everything()).toEqual(before)
  })

  test('is refused as a whole for one conflict, and the error names the item’s ordinal', async () => {
    const known = await enqueue(db)
    const before = await everything()
    const refusal = await failureOf(
      enqueueAll([buildInstruction(), { ...known, railType: 'another-rail' }, buildInstruction()]),
    )
    expect(refusal).toBeInstanceOf(IdempotencyConflictError)
    expect(refusal).toMatchObject({ detail: '{"ordinal" : 2}' })
    expect(await everything()).toEqual(before)
  })

  test('may have 1,000 instructions, not 1,001 (22023)', async () => {
    const participantId = buildInstruction().participantId
    const thousand = Array.from({ length: 1000 }, () => buildInstruction({ participantId }))
    const items = await enqueueAll(thousand)
    expect(items.map(({ sequenceId }) => sequenceId)).toEqual(thousand.map((_, index) => BigInt(index + 1)))
    const oneMore = db.queryNoRole(
      `SELECT e.*
       FROM (SELECT array_agg('x' || n) AS ids, array_agg('{}'::jsonb) AS payloads FROM generate_series(1, 1001) AS n) AS g
       CROSS JOIN LATERAL enqueue_payment_outbox_batch(g.ids, g.ids, g.ids, g.ids, g.payloads) AS e`,
    )
    expect(await failureOf(oneMore)).toMatchObject({ code: '22023' })
  })
})

describe('a rollback', () => {
  test('leaves no row of an enqueue and no gap in the sequence numbers', async () => {
    const { participantId } = await enqueue(db)
    const before = await everything()
    const changedMind = new Error('the caller changed its mind')
    const undone = db.as('symphony_ingest').transaction(async (tx) => {
      const items = await enqueuePaymentOutboxBatch(tx, [buildInstruction({ participantId }), buildInstruction()])
      expect(items.map(({ sequenceId }) => sequenceId)).toEqual([2n, 1n])
      throw changedMind
    })
    await expect(undone).rejects.toBe(changedMind)
    expect(await everything()).toEqual(before)
    expect(await enqueue(db, { participantId })).toMatchObject({ sequenceId: 2n })
  })

  test('leaves no gap in the sequence numbers, even if it is only to a savepoint', async () => {
    const participantId = buildInstruction().participantId
    await db.as('symphony_ingest').transaction(async (tx) => {
      await enqueuePaymentOutbox(tx, buildInstruction({ participantId }))
      await tx.query('SAVEPOINT before_second')
      await enqueuePaymentOutbox(tx, buildInstruction({ participantId }))
      await tx.query('ROLLBACK TO before_second')
      await enqueuePaymentOutbox(tx, buildInstruction({ participantId }))
    })
    expect(await sequenceOf(db, participantId)).toEqual({ taken: [1n, 2n], next: 3n })
  })

  test('leaves no gap after a direct call of bump_participant_outbox_seq', async () => {
    const participantId = buildInstruction().participantId
    const owner = db.as('symphony_owner')
    const bump = `SELECT ${qualify(owner, 'bump_participant_outbox_seq')}($1) AS taken`
    const undone = owner.transaction(async (tx) => {
      expect((await tx.query(bump, [participantId])).rows).toEqual([{ taken: 1n }])
      throw new Error('undone')
    })
    await expect(undone).rejects.toThrow('undone')
    expect((await owner.query(bump, [participantId])).rows).toEqual([{ taken: 1n }])
    expect(await enqueue(db, { participantId })).toMatchObject({ sequenceId: 2n })
    expect((await owner.query(bump, [participantId])).rows).toEqual([{ taken: 3n }])
  })
})

test('a unique constraint refuses a second identity of an instruction and key (23505)', async () => {
  const item = await enqueue(db)
  await complete(db, await claimOnly(db, item.railType), { state: 'DISPATCHED' })
  const again = db.queryNoRole(
    `INSERT INTO payment_outbox_identities
       (outbox_id, instruction_id, idempotency_key, participant_id, sequence_id, rail_type, content_hash)
     SELECT uuid_v7(), instruction_id, idempotency_key, participant_id, sequence_id + 1, rail_type, content_hash
     FROM payment_outbox_identities WHERE outbox_id = $1`,
    [item.outboxId],
  )
  expect(await failureOf(again)).toMatchObject({
    code: '23505',
    constraint: 'payment_outbox_identities_one_per_key',
  })
})

describe('a sequence that is behind the items of its participant', () => {
  test('makes an enqueue fail (23505) and write nothing', async () => {
    const { participantId } = await enqueue(db)
    await enqueue(db, { participantId })
    // Imitates a partial restore, which leaves the sequence behind its items.
    await db.queryNoRole('UPDATE participant_outbox_sequences SET next_sequence_id = 1 WHERE participant_id = $1', [
      participantId,
    ])
    const before = await everything()
    const refusal = await failureOf(
      db.queryNoRole(`SELECT * FROM enqueue_payment_outbox('i', $1, 'k', 'r', '{}')`, [participantId]),
    )
    expect(refusal).toMatchObject({ code: '23505' })
    expect(await everything()).toEqual(before)
  })
})

test('an error of enqueue_payment_outbox reaches the caller as a DatabaseError with its code', async () => {
  // Only a redrive may create a key of this form. The direct call bypasses the check of the wrapper.
  const call = db
    .as('symphony_ingest')
    .query(
      `SELECT * FROM ${qualify(db.as('symphony_ingest'), 'enqueue_payment_outbox')}('i', 'p', 'k~redrive~1', 'r', '{}')`,
    )
  const refusal = await failureOf(call)
  expect(refusal).toMatchObject({ code: 'INVALID_PARAMETER' })
  expect(refusal).toBeInstanceOf(DatabaseError)
})

describe('NOTIFY of workers', () => {
  test('is sent once per enqueue, for one item or several', async () => {
    expect(await notificationsDuring(() => enqueue(db))).toEqual(['new_work'])
    expect(await notificationsDuring(() => enqueueAll([buildInstruction(), buildInstruction()]))).toEqual(['new_work'])
  })

  test('is not sent for an enqueue that creates no item, nor for an INSERT of no rows', async () => {
    const known = await enqueue(db)
    expect(await notificationsDuring(() => enqueueAll([known]))).toEqual([])
    const insertNothing = () =>
      db.queryNoRole('INSERT INTO payment_outbox_pending SELECT * FROM payment_outbox_pending WHERE false')
    expect(await notificationsDuring(insertNothing)).toEqual([])
  })

  test('is not sent for an enqueue that is rolled back', async () => {
    const received = await notificationsDuring(async () => {
      const undone = db.as('symphony_ingest').transaction(async (tx) => {
        await enqueuePaymentOutbox(tx, buildInstruction())
        throw new Error('undone')
      })
      await expect(undone).rejects.toThrow('undone')
    })
    expect(received).toEqual([])
  })

  test('is not sent if notify_enabled is false, and the enqueue still succeeds', async () => {
    await db.queryNoRole('UPDATE symphony_settings SET notify_enabled = false')
    try {
      expect(await notificationsDuring(() => enqueue(db))).toEqual([])
    } finally {
      await db.queryNoRole('UPDATE symphony_settings SET notify_enabled = true')
    }
    expect(await notificationsDuring(() => enqueue(db))).toEqual(['new_work'])
  })

  test('is skipped by an enqueue while another open transaction will send it', async () => {
    const first = await db.connect('symphony_ingest')
    const enqueueOne = `SELECT created FROM enqueue_payment_outbox($1, $1, $1, 'r', '{}')`
    await first.query('BEGIN')
    await first.query(enqueueOne, ['about-to-notify'])
    const beside = async () => expect(await enqueue(db)).toMatchObject({ created: true })
    expect(await notificationsDuring(beside)).toEqual([])
    expect(await notificationsDuring(() => first.query('COMMIT'))).toEqual(['new_work'])
    expect(await notificationsDuring(beside)).toEqual(['new_work'])
  })

  test('is skipped without waiting while another login holds the advisory lock of NOTIFY', async () => {
    const unprivileged = await (await db.createLogin('unprivileged')).connect()
    await unprivileged.query(
      `SELECT pg_advisory_lock(1937337959, (SELECT oid FROM pg_class WHERE relname = 'payment_outbox_pending')::integer)`,
    )
    expect(await notificationsDuring(async () => expect(await enqueue(db)).toMatchObject({ created: true }))).toEqual(
      [],
    )
    await unprivileged.end()
  })
})
