import { randomUUID } from 'node:crypto'
import { Client, Pool } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { InvalidArgumentError, type JsonObject } from '../../libs/core/index.js'
import { withSchema } from '../../libs/db/index.js'
import { enqueue, enqueueMany, OutboxStore } from '../../libs/outbox/index.js'
import type { StandardSchema } from '../../libs/rails/index.js'
import { SchedulerStore } from '../../libs/scheduler/index.js'
import { Symphony } from '../../libs/symphony/index.js'
import { testSchema, useTestDatabase, withTestDatabase } from '../support/database.js'
import { gate } from '../support/gate.js'
import { buildInstruction } from '../support/outboxItems.js'

const schema = testSchema()
const db = await useTestDatabase()
let url: string
let pool: Pool
beforeAll(async () => {
  const login = await db.createLogin('shop', { roles: ['symphony_ingest'], inherit: true })
  url = login.url
  pool = new Pool({ connectionString: url })
})
afterAll(async () => {
  await pool.end()
})

async function countItems(participantId: string): Promise<number> {
  const { rows } = await db.queryNoRole<{ items: number }>(
    'SELECT count(*)::int AS items FROM payment_outbox_pending WHERE participant_id = $1',
    [participantId],
  )
  return rows[0]!.items
}

/** Runs the body with a connected client and closes it. */
async function withClient<T>(body: (client: Client) => Promise<T>, options: { pipeline?: boolean } = {}): Promise<T> {
  const client = new Client({ connectionString: url, ...options })
  await client.connect()
  try {
    return await body(client)
  } finally {
    await client.end()
  }
}

/** Returns the error of a call. If the call resolves, the comparison with `refused` fails. */
async function refusalOf(act: () => Promise<unknown>): Promise<unknown> {
  return act().catch((error: unknown) => error)
}

function refused(got: string): unknown {
  return expect.toSatisfy(
    (error: unknown) =>
      error instanceof InvalidArgumentError &&
      error.argument === 'tx' &&
      error.message.startsWith(`tx: expected a client with an open transaction, got ${got}; `),
  )
}

describe('enqueue without a transaction', () => {
  test('refuses a pg.Pool, by its type and at run time', async () => {
    const instruction = buildInstruction()
    const database = db.database
    // @ts-expect-error: a pg.Pool is no transaction
    expect(await refusalOf(() => enqueue(instruction, { tx: pool, schema }))).toEqual(refused('a pg.Pool'))
    // @ts-expect-error: a pg.Pool is no transaction
    expect(await refusalOf(() => enqueueMany([instruction], { tx: pool, schema }))).toEqual(refused('a pg.Pool'))
    const message = { topic: 'mail', payload: {} }
    // @ts-expect-error: a pg.Pool is no transaction
    expect(await refusalOf(() => new OutboxStore(database).enqueue(message, { tx: pool }))).toEqual(
      refused('a pg.Pool'),
    )
    const timer = { topic: 'mail', payload: {}, dueAt: new Date() }
    // @ts-expect-error: a pg.Pool is no transaction
    expect(await refusalOf(() => new SchedulerStore(database).scheduleTimer(timer, { tx: pool }))).toEqual(
      refused('a pg.Pool'),
    )
    // @ts-expect-error: a pg.Pool is no transaction
    expect(await refusalOf(() => new SchedulerStore(database).cancelTimer('x', { tx: pool }))).toEqual(
      refused('a pg.Pool'),
    )
    expect(await countItems(instruction.participantId)).toBe(0)
  })

  test('refuses a pg.Pool behind withSchema', async () => {
    const instruction = buildInstruction()
    expect(await refusalOf(() => enqueue(instruction, { tx: withSchema(pool, schema) }))).toEqual(refused('a pg.Pool'))
    const twice = withSchema(withSchema(pool, 'other'), schema)
    expect(await refusalOf(() => enqueue(instruction, { tx: twice }))).toEqual(refused('a pg.Pool'))
    expect(await countItems(instruction.participantId)).toBe(0)
  })

  test.for([false, true])(
    'refuses an idle pg client, before BEGIN and after COMMIT (pipeline: %s)',
    async (pipeline) => {
      const instruction = buildInstruction()
      await withClient(
        async (client) => {
          const got = 'a pg client outside a transaction'
          expect(await refusalOf(() => enqueue(instruction, { tx: client, schema }))).toEqual(refused(got))
          await client.query('BEGIN')
          await client.query('COMMIT')
          expect(await refusalOf(() => enqueue(instruction, { tx: client, schema }))).toEqual(refused(got))
        },
        { pipeline },
      )
      expect(await countItems(instruction.participantId)).toBe(0)
    },
  )

  test('refuses an idle client of a pool', async () => {
    const client = await pool.connect()
    try {
      expect(await refusalOf(() => enqueue(buildInstruction(), { tx: client, schema }))).toEqual(
        refused('a pg client outside a transaction'),
      )
    } finally {
      client.release()
    }
  })

  test('refuses an object of TypeORM without the adapter', async () => {
    const manager = { query: async () => ({ rows: [] }), createQueryBuilder: () => undefined }
    expect(await refusalOf(() => enqueue(buildInstruction(), { tx: manager, schema }))).toEqual(
      refused('an object of TypeORM'),
    )
  })

  test.for([undefined, null, {}, 'tx', 7])('refuses %j, which has no query()', async (tx) => {
    // @ts-expect-error: a caller in JavaScript can pass anything
    expect(await refusalOf(() => enqueue(buildInstruction(), { tx, schema }))).toEqual(
      refused('an object without query()'),
    )
  })
})

describe.for([false, true])('enqueue with a pg client (pipeline: %s)', (pipeline) => {
  test('succeeds after BEGIN', async () => {
    const instruction = buildInstruction()
    await withClient(
      async (client) => {
        await client.query('BEGIN')
        expect(await enqueue(instruction, { tx: client, schema })).toMatchObject({ created: true })
        await client.query('COMMIT')
      },
      { pipeline },
    )
    expect(await countItems(instruction.participantId)).toBe(1)
  })

  test('succeeds if BEGIN was sent and not awaited', async () => {
    const instruction = buildInstruction()
    await withClient(
      async (client) => {
        await client.query('SELECT 1')
        void client.query('BEGIN')
        await enqueue(instruction, { tx: client, schema })
        await client.query('ROLLBACK')
      },
      { pipeline },
    )
    expect(await countItems(instruction.participantId)).toBe(0)
  })

  test('succeeds if neither the connection nor BEGIN was awaited', async () => {
    const instruction = buildInstruction()
    const client = new Client({ connectionString: url, pipeline })
    void client.connect()
    void client.query('BEGIN')
    await enqueue(instruction, { tx: client, schema })
    await client.query('ROLLBACK')
    await client.end()
    expect(await countItems(instruction.participantId)).toBe(0)
  })

  test('succeeds if statements before BEGIN are still in flight', async () => {
    const instruction = buildInstruction()
    await withClient(
      async (client) => {
        void client.query('SELECT 1')
        void client.query('BEGIN')
        void client.query('SELECT 2')
        await enqueue(instruction, { tx: client, schema })
        await client.query('ROLLBACK')
      },
      { pipeline },
    )
    expect(await countItems(instruction.participantId)).toBe(0)
  })

  test('is refused by the server in a failed transaction (25P02)', async () => {
    await withClient(
      async (client) => {
        await client.query('BEGIN')
        await client.query('SELECT 1 / 0').catch(() => {})
        await expect(enqueue(buildInstruction(), { tx: client, schema })).rejects.toMatchObject({ sqlstate: '25P02' })
      },
      { pipeline },
    )
  })
})

const MONEY = { amount: '10.50', currency: 'EUR', destination: 'account-1' }

/** Schema whose check is `validate`. */
function schemaOf(validate: StandardSchema<JsonObject>['~standard']['validate']): StandardSchema<JsonObject> {
  return { '~standard': { version: 1, vendor: 'test', validate } }
}

describe('an enqueue that is not awaited', () => {
  const accepting = schemaOf(() => ({ value: {} }))

  test.each([
    ['without rails', new Symphony({ schema })],
    ['of a rail with a schema', new Symphony({ schema, rails: [{ type: 'wire', payload: accepting }] })],
  ])('is sent before the ROLLBACK that follows it: a payment %s', async (_of, symphony) => {
    const { participantId, instructionId } = buildInstruction()
    await withClient(async (client) => {
      await client.query('BEGIN')
      const payment = { participantId, instructionId, railType: 'wire', payload: MONEY } as const
      const pending = symphony.enqueue(payment, { tx: client })
      await client.query('ROLLBACK')
      expect(await pending).toMatchObject({ created: true })
    })
    expect(await countItems(participantId)).toBe(0)
  })

  test('is sent before the ROLLBACK that follows it: a message and a timer of a known topic', async () => {
    const options = { topics: { news: accepting } }
    const key = randomUUID()
    await withClient(async (client) => {
      await client.query('BEGIN')
      const tx = client
      const sent = new OutboxStore(db.database, options).enqueue({ topic: 'news', key, payload: {} }, { tx })
      const timer = { topic: 'news', payload: {}, dueAt: new Date(), timerId: key } as const
      const scheduled = new SchedulerStore(db.database, options).scheduleTimer(timer, { tx })
      await client.query('ROLLBACK')
      expect([(await sent).created, await scheduled]).toEqual([true, key])
    })
    expect(await countItems(key)).toBe(0)
    const { rows } = await db.queryNoRole('SELECT FROM scheduler_timers WHERE timer_id = $1', [key])
    expect(rows).toEqual([])
  })

  test('is refused if an asynchronous check ends after the transaction', async () => {
    const { participantId, instructionId } = buildInstruction()
    const check = gate()
    const slow = schemaOf(async () => {
      await check.opened
      return { value: {} }
    })
    const symphony = new Symphony({ schema, rails: [{ type: 'wire', payload: slow }] })
    await withClient(async (client) => {
      await client.query('BEGIN')
      const payment = { participantId, instructionId, railType: 'wire', payload: MONEY } as const
      const pending = refusalOf(() => symphony.enqueue(payment, { tx: client }))
      await client.query('ROLLBACK')
      check.open()
      expect(await pending).toEqual(refused('a pg client outside a transaction'))
    })
    expect(await countItems(participantId)).toBe(0)
  })
})

test('enqueue accepts a role of Symphony’s own pool instead of a transaction of the caller', async () => {
  const instruction = buildInstruction()
  expect(await enqueue(instruction, { tx: db.as('symphony_ingest') })).toMatchObject({ created: true })
  expect(await countItems(instruction.participantId)).toBe(1)
})

test('payment, message and timers in the caller’s transaction use the Symphony’s schema', async () => {
  await withTestDatabase(
    async (other) => {
      await using symphony = new Symphony({ url: other.url, schema: other.schema, rails: [{ type: 'wire' }] })
      const { participantId, instructionId } = buildInstruction()
      const tx = await other.connect('symphony_ingest')
      await tx.query('BEGIN')
      const timer = { topic: 'news', payload: {}, dueAt: new Date() }
      const timerId = await symphony.scheduler.scheduleTimer(timer, { tx })
      expect(await symphony.scheduler.cancelTimer(timerId, { tx })).toBe(true)
      const messageId = randomUUID()
      await symphony.messages.enqueue({ topic: 'news', payload: {}, messageId }, { tx })
      await symphony.enqueue({ participantId, instructionId, railType: 'wire', payload: MONEY }, { tx })
      await tx.query('COMMIT')
      const { rows: items } = await other.queryNoRole('SELECT instruction_id AS id FROM payment_outbox_pending')
      expect(items).toEqual(expect.arrayContaining([{ id: instructionId }, { id: messageId }]))
      const { rows: timers } = await other.queryNoRole('SELECT timer_id AS id, state FROM scheduler_timers')
      expect(timers).toEqual([{ id: timerId, state: 'CANCELLED' }])
    },
    { schema: 'shop payments' },
  )
})
