import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { PermanentFailureError } from '../../libs/core/index.js'
import { DatabaseError, openDatabase, type Database, type RoleHandle } from '../../libs/db/index.js'
import {
  outcomeSchema,
  OutboxRelayer,
  OutboxStore,
  placeOutboxHold,
  RelayerOptionError,
  topicRails,
  type PaymentOutcome,
  type RelayerEvent,
  type RelayerOptions,
  type TopicContext,
  type TopicHandler,
  type TopicMessage,
} from '../../libs/outbox/index.js'
import { loadRails } from '../../libs/rails/index.js'
import { useTestDatabase } from '../support/database.js'
import { attemptRows, enqueue, ledger, pendingRow } from '../support/outboxItems.js'

/** Topic handlers that write through `tx`: each effect and its completion are committed together, or not at all. */

const db = await useTestDatabase()
const shop = await db.createLogin('shop', { roles: ['symphony_ingest'], inherit: true })
const worker = await db.createLogin('worker', { roles: ['symphony_executor', shop.name] })
await db.queryNoRole(`
  CREATE SCHEMA shop; GRANT USAGE ON SCHEMA shop TO ${shop.name};
  CREATE TABLE shop.effects (message_id text);
  CREATE TABLE shop.once (id text UNIQUE DEFERRABLE INITIALLY DEFERRED);
  GRANT SELECT, INSERT ON shop.effects, shop.once TO ${shop.name}`)
const store = new OutboxStore(db.database)

let events: RelayerEvent[]
let topic: string
beforeEach(() => {
  events = []
  topic = `topic-${randomUUID()}`
})

const write: TopicHandler = async ({ messageId }, { tx }) => {
  await tx.query('INSERT INTO shop.effects VALUES ($1)', [messageId])
}

const swallow: TopicHandler = async (received, context) => {
  await write(received, context)
  await context.tx.query('SELECT 1 / 0').catch(() => {})
}

/** Breaks a deferred constraint in the first attempt. */
const writeTwice: TopicHandler = async ({ messageId, attempt }, { tx }) => {
  for (const _ of attempt === 1 ? [1, 2] : [1]) await tx.query('INSERT INTO shop.once VALUES ($1)', [messageId])
}

const lost = () => new DatabaseError('CONNECTION_LOST', 'planted', { disposition: 'unknown' })

const isRefused = async (value: unknown) => 'issues' in (await outcomeSchema['~standard'].validate(value))

function send(): Promise<{ readonly outboxId: string; readonly messageId: string }> {
  return store.enqueue({ topic, payload: {} })
}

function createRelayer(
  handler: TopicHandler | { readonly handle: TopicHandler; readonly timeoutMs: number },
  options: RelayerOptions = {},
  database: Database = worker.database,
): OutboxRelayer {
  const settings = { handlerRole: shop.name, listen: false, ...options }
  const relayer = new OutboxRelayer(database, loadRails(topicRails({ [topic]: handler })), settings, (event) =>
    events.push(event),
  )
  onTestFinished(() => relayer.stop())
  return relayer
}

async function effectsOf({ messageId }: { readonly messageId: string }): Promise<number> {
  const { rows } = await db.queryNoRole('SELECT FROM shop.effects WHERE message_id = $1', [messageId])
  return rows.length
}

const typesOf = () => events.map(({ type }) => type)

/** Returns the database with a replaced `transaction` method of the executor role. */
function withTransaction(replace: (role: RoleHandle) => RoleHandle['transaction']): Database {
  return new Proxy(worker.database, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name, target)
      if (name === 'as') return (role: string) => ({ ...target.as(role), transaction: replace(target.as(role)) })
      return member
    },
  })
}

describe('a handler that writes through tx', () => {
  test('commits its writes together with the completion, in the role of the application', async () => {
    const message = await send()
    const seen: unknown[] = []
    const handle: TopicHandler = async (received, context) => {
      await write(received, context)
      const { rows } = await context.tx.query('SELECT current_user AS role')
      seen.push(rows[0])
      expect(await effectsOf(message)).toBe(0)
      expect(await pendingRow(db, message.outboxId)).toMatchObject({ lease_token: expect.any(String) })
    }
    expect(await createRelayer(handle).runOnce()).toMatchObject({ claimed: 1, dispatched: 1, leasesLost: 0 })
    expect(seen).toEqual([{ role: shop.name }])
    expect(await effectsOf(message)).toBe(1)
    expect(await ledger(db, message.outboxId)).toEqual(['1 DISPATCHED'])
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'outbox.recorded', state: 'DISPATCHED', attemptNo: 1 }),
    )
  })

  test('runs with the rights of the login if handlerRole is not set', async () => {
    const message = await send()
    const roles: unknown[] = []
    const handle: TopicHandler = async (_, { tx }) => {
      roles.push(...(await tx.query('SELECT current_user AS role')).rows)
    }
    const rails = loadRails(topicRails({ [topic]: handle }))
    await new OutboxRelayer(worker.database, rails, { listen: false }).runOnce()
    expect(roles).toEqual([{ role: worker.name }])
    expect(await ledger(db, message.outboxId)).toEqual(['1 DISPATCHED'])
  })

  test('cannot call functions of Symphony through tx (permission denied)', async () => {
    const message = await send()
    const handle: TopicHandler = async (_, { tx }) => {
      await tx.query(`SELECT * FROM ${db.qualify('claim_outbox_batch')}(1, 'w', 60)`)
    }
    await createRelayer(handle).runOnce()
    const [attempt] = await attemptRows(db, message.outboxId)
    expect(attempt).toMatchObject({ state: 'RETRYABLE', error_message: expect.stringContaining('permission denied') })
  })

  test('enqueues further messages in the same transaction', async () => {
    const message = await send()
    const next = { topic: `next-${topic}`, payload: {}, messageId: `after-${message.messageId}` }
    const handle: TopicHandler = async ({ attempt }, { tx }) => {
      await store.enqueue(next, { tx })
      if (attempt === 1) throw new Error('the first attempt fails')
    }
    await createRelayer(handle).runOnce()
    expect(await store.claim({ batchSize: 1, topics: [next.topic] })).toEqual([])
    await db.makeDue(message.outboxId)
    await createRelayer(handle).runOnce()
    expect(await store.claim({ batchSize: 9, topics: [next.topic] })).toMatchObject([{ messageId: next.messageId }])
  })

  test('has its writes rolled back if it throws; the failure is recorded', async () => {
    const [failing, refused] = [await send(), await send()]
    const handle: TopicHandler = async (received, context) => {
      await write(received, context)
      throw received.messageId === refused.messageId ? new PermanentFailureError('never') : new Error('later')
    }
    expect(await createRelayer(handle).runOnce()).toMatchObject({ retryable: 1, failed: 1 })
    for (const message of [failing, refused]) expect(await effectsOf(message)).toBe(0)
    expect(await attemptRows(db, failing.outboxId)).toMatchObject([
      { state: 'RETRYABLE', error_code: 'HANDLER_FAILED', error_message: 'later' },
    ])
    expect(await attemptRows(db, refused.outboxId)).toMatchObject([
      { state: 'FAILED', error_code: 'PERMANENT_FAILURE' },
    ])
  })

  test('commits nothing if a statement failed and its error was ignored', async () => {
    const message = await send()
    expect(await createRelayer(swallow).runOnce()).toMatchObject({ retryable: 1, dispatched: 0 })
    expect(await effectsOf(message)).toBe(0)
    expect(await attemptRows(db, message.outboxId)).toMatchObject([
      {
        state: 'RETRYABLE',
        error_code: 'HANDLER_FAILED',
        error_message: expect.stringContaining('nothing was committed'),
      },
    ])
  })

  test('is retried if its COMMIT fails, for example by a deferred constraint', async () => {
    const message = await send()
    expect(await createRelayer(writeTwice).runOnce()).toMatchObject({ retryable: 1 })
    await db.makeDue(message.outboxId)
    expect(await createRelayer(writeTwice).runOnce()).toMatchObject({ dispatched: 1 })
    expect(await ledger(db, message.outboxId)).toEqual(['1 RETRYABLE', '2 DISPATCHED'])
  })

  test('is retried if the login of the worker may not act as handlerRole', async () => {
    const message = await send()
    const { name } = await db.createLogin(`stranger_${randomUUID().slice(0, 8)}`)
    expect(await createRelayer(write, { handlerRole: name }).runOnce()).toMatchObject({ retryable: 1 })
    expect(await attemptRows(db, message.outboxId)).toMatchObject([
      { error_code: 'HANDLER_FAILED', error_message: expect.stringContaining(`may not act as ${name}`) },
    ])
  })

  test('gets TRANSACTION_CLOSED for a query after it returned', async () => {
    const message = await send()
    const kept: TopicContext[] = []
    const handle: TopicHandler = async (received, context) => {
      kept.push(context)
      await write(received, context)
    }
    await createRelayer(handle).runOnce()
    await expect(kept[0]!.tx.query('SELECT 1')).rejects.toMatchObject({ code: 'TRANSACTION_CLOSED' })
    expect(await effectsOf(message)).toBe(1)
  })
})

describe('a handler that does not use tx', () => {
  test('opens no transaction, and its tx is closed after it returned', async () => {
    const message = await send()
    let opened = 0
    const counting = withTransaction((role) => (body) => {
      opened += 1
      return role.transaction(body)
    })
    const kept: TopicContext[] = []
    await createRelayer((_, context) => void kept.push(context), {}, counting).runOnce()
    expect(opened).toBe(0)
    expect(await ledger(db, message.outboxId)).toEqual(['1 DISPATCHED'])
    await expect(kept[0]!.tx.query('SELECT 1')).rejects.toMatchObject({ code: 'TRANSACTION_CLOSED' })
  })
})

describe('a lease lost while a handler runs', () => {
  test('rolls the handler back at its completion; another worker commits the effect once', async () => {
    const message = await send()
    const handle: TopicHandler = async (received, context) => {
      await write(received, context)
      await db.expireLease(message.outboxId)
      expect(await createRelayer(write, { workerId: 'second' }).runOnce()).toMatchObject({ dispatched: 1 })
    }
    await createRelayer(handle, { workerId: 'first' }).runOnce()
    expect(events).toContainEqual({ type: 'outbox.leaseLost', outboxId: message.outboxId, during: 'completion' })
    expect(await effectsOf(message)).toBe(1)
    expect(await ledger(db, message.outboxId)).toEqual(['1 ZOMBIE_REQUEUE', '2 DISPATCHED'])
    expect(typesOf()).not.toContain('outbox.lateOutcome')
  })

  test('prevents recording a late success, so that the message is handled again', async () => {
    const message = await send()
    const handle: TopicHandler = async (received, context) => {
      await write(received, context)
      await db.expireLease(message.outboxId)
    }
    await createRelayer(handle).runOnce()
    expect(await effectsOf(message)).toBe(0)
    expect(await pendingRow(db, message.outboxId)).toMatchObject({ late_outcome: null })
    expect(await createRelayer(write).runOnce()).toMatchObject({ dispatched: 1 })
    expect(await effectsOf(message)).toBe(1)
  })

  test('aborts the handler and closes its tx once a renewal detects the loss', async () => {
    const message = await send()
    const codes: unknown[] = []
    const handle: TopicHandler = async (received, context) => {
      await write(received, context)
      await db.expireLease(message.outboxId)
      await once(context.signal, 'abort')
      await context.tx.query('SELECT 1').catch((error: unknown) => codes.push(Reflect.get(Object(error), 'code')))
    }
    await createRelayer(handle, { leaseSeconds: 1 }).runOnce()
    expect(codes).toEqual(['TRANSACTION_CLOSED'])
    expect(events).toContainEqual({ type: 'outbox.leaseLost', outboxId: message.outboxId, during: 'renewal' })
    expect(await effectsOf(message)).toBe(0)
    expect(await createRelayer(write).runOnce()).toMatchObject({ dispatched: 1 })
    expect(await effectsOf(message)).toBe(1)
  })
})

describe('a handler that exceeds its timeout', () => {
  test.each([
    ['returns at the abort', (signal: AbortSignal) => once(signal, 'abort')],
    ['returns later', async () => sleep(600)],
  ])('has its writes rolled back and its success ignored, if it %s', async (_, wait) => {
    const message = await send()
    let isEnded = false
    const handle: TopicHandler = async (received, context) => {
      await write(received, context)
      await wait(context.signal)
      isEnded = true
    }
    await createRelayer({ handle, timeoutMs: 200 }).runOnce()
    await expect.poll(() => isEnded).toBe(true)
    await sleep(50)
    expect(await attemptRows(db, message.outboxId)).toMatchObject([{ state: 'RETRYABLE', outcome_unknown: true }])
    expect(await pendingRow(db, message.outboxId)).toMatchObject({ late_outcome: null })
    expect(await effectsOf(message)).toBe(0)
    await db.makeDue(message.outboxId)
    expect(await createRelayer(write).runOnce()).toMatchObject({ dispatched: 1 })
    expect(await effectsOf(message)).toBe(1)
  })

  test('gets TRANSACTION_CLOSED if it first uses tx after the timeout; its success is ignored', async () => {
    const message = await send()
    const codes: unknown[] = []
    const handle: TopicHandler = async (_, context) => {
      await once(context.signal, 'abort')
      await context.tx.query('SELECT 1').catch((error: unknown) => codes.push(Reflect.get(Object(error), 'code')))
    }
    await createRelayer({ handle, timeoutMs: 100 }).runOnce()
    expect(codes).toEqual(['TRANSACTION_CLOSED'])
    expect(await attemptRows(db, message.outboxId)).toMatchObject([{ state: 'RETRYABLE' }])
    expect(await pendingRow(db, message.outboxId)).toMatchObject({ late_outcome: null })
  })
})

describe('a connection lost at COMMIT', () => {
  test('leaves one effect if the commit happened; the completion is reported as already recorded', async () => {
    const message = await send()
    const database = withTransaction((role) => async (body) => {
      await role.transaction(body)
      throw lost()
    })
    expect(await createRelayer(write, {}, database).runOnce()).toMatchObject({ dispatched: 1, retryable: 0 })
    expect(events).toContainEqual(expect.objectContaining({ type: 'outbox.alreadyRecorded', state: 'DISPATCHED' }))
    expect(await ledger(db, message.outboxId)).toEqual(['1 DISPATCHED'])
    expect(await effectsOf(message)).toBe(1)
  })

  test('leaves no effect if the commit did not happen; the message is retried', async () => {
    const message = await send()
    const database = withTransaction(
      (role) => (body) =>
        role.transaction(async (tx) => {
          await body(tx)
          throw lost()
        }),
    )
    expect(await createRelayer(write, {}, database).runOnce()).toMatchObject({ dispatched: 0, retryable: 1 })
    expect(await effectsOf(message)).toBe(0)
    await db.makeDue(message.outboxId)
    expect(await createRelayer(write).runOnce()).toMatchObject({ dispatched: 1 })
    expect(await effectsOf(message)).toBe(1)
  })
})

describe('connections of a relayer', () => {
  test('serve handlers up to one half; the rest is free for renewals, so that no lease is lost', async () => {
    const database = openDatabase({ url: worker.url, schema: db.schema, connectionsMax: 2 })
    onTestFinished(() => database.close())
    const messages = await Promise.all(Array.from({ length: 6 }, send))
    let open = 0
    let openMax = 0
    const handle: TopicHandler = async (received, context) => {
      await write(received, context)
      open += 1
      openMax = Math.max(openMax, open)
      await sleep(400)
      open -= 1
    }
    // Handlers may use only one of the two connections, so the six handlers of 400 ms run one after the other. Together
    // they take longer than the lease of 1 s.
    const counts = await createRelayer(handle, { concurrency: 6, leaseSeconds: 1 }, database).runOnce()
    expect(counts).toMatchObject({ dispatched: 6, leasesLost: 0 })
    expect(openMax).toBe(1)
    for (const message of messages) expect(await effectsOf(message)).toBe(1)
  })

  test('stay with a handler from BEGIN to COMMIT, even with a transaction pooler', async () => {
    const database = openDatabase({ url: worker.url, schema: db.schema, pooler: 'transaction' })
    onTestFinished(() => database.close())
    const message = await send()
    expect(await createRelayer(write, {}, database).runOnce()).toMatchObject({ dispatched: 1 })
    expect(await effectsOf(message)).toBe(1)
  })
})

test('a handler with outcomeSchema gets a PaymentOutcome, with the message id OUTBOX_ID/1', async () => {
  const payment = await enqueue(db, { outcomeTopic: topic })
  await placeOutboxHold(db.as('symphony_control'), payment.outboxId, 'look at the invoice')
  const [claimed] = await store.claim({ batchSize: 1, topics: [topic] })
  const key = `~outcomes~${payment.outboxId}`
  expect(claimed).toMatchObject({ messageId: `${payment.outboxId}/1`, key })
  await db.expireLease(claimed!.id)
  const received: TopicMessage<PaymentOutcome>[] = []
  const rails = topicRails({
    [topic]: {
      payload: outcomeSchema,
      handle: async (message: TopicMessage<PaymentOutcome>, { tx }: TopicContext) => {
        received.push(message)
        await tx.query('INSERT INTO shop.effects VALUES ($1)', [message.messageId])
      },
    },
  })
  const relayer = new OutboxRelayer(worker.database, loadRails(rails), { handlerRole: shop.name, listen: false })
  expect(await relayer.runOnce()).toMatchObject({ dispatched: 1 })
  const messageId = `${payment.outboxId}/1`
  expect(received).toMatchObject([{ messageId, key, topic }])
  const outcome: PaymentOutcome = {
    instructionId: payment.instructionId,
    idempotencyKey: payment.idempotencyKey,
    outboxId: payment.outboxId,
    redriveOf: null,
    replaces: null,
    participantId: payment.participantId,
    sequenceId: 1,
    railType: payment.railType,
    state: 'HELD',
    railReference: null,
    errorCode: null,
    holdReason: 'look at the invoice',
    attemptNo: null,
    occurredAt: expect.stringMatching(/^\d{4}-\d{2}-\d{2}T[\d:.]+Z$/),
    outcomeNo: 1,
  }
  expect(received[0]!.payload).toEqual(outcome)
  expect(await effectsOf({ messageId })).toBe(1)
})

test('a topic with outcomeSchema fails an outcome that Symphony did not send', async () => {
  const payload = { outboxId: 'o', state: 'DISPATCHED', outcomeNo: 1, instructionId: 'of-another' }
  const forged = await enqueue(db, { railType: topic, payload })
  const received: unknown[] = []
  const rails = topicRails({
    [topic]: { payload: outcomeSchema, handle: async (message: unknown) => void received.push(message) },
  })
  const relayer = new OutboxRelayer(worker.database, loadRails(rails), { handlerRole: shop.name, listen: false })
  expect(await relayer.runOnce()).toMatchObject({ failed: 1 })
  expect(received).toEqual([])
  expect(await attemptRows(db, forged.outboxId)).toMatchObject([{ state: 'FAILED', error_code: 'INVALID_PAYLOAD' }])
})

test('outcomeSchema refuses a message that is no outcome, and accepts unknown states and fields', async () => {
  const outcome = { outboxId: 'o', state: 'SETTLED', outcomeNo: 1, later: true }
  expect(await isRefused(outcome)).toBe(false)
  for (const wrong of [
    null,
    [],
    {},
    { ...outcome, state: 1 },
    { ...outcome, outboxId: null },
    { ...outcome, outcomeNo: '1' },
  ])
    expect(await isRefused(wrong)).toBe(true)
})

test('handlerRole refuses an empty name and a role of Symphony', () => {
  expect(() => createRelayer(write, { handlerRole: '' })).toThrow('handlerRole')
  expect(() => createRelayer(write, { handlerRole: 'symphony_executor' })).toThrow(RelayerOptionError)
})
