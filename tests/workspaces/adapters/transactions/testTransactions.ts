import { inspect } from 'node:util'
import type { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { InvalidArgumentError } from '../../../../libs/core/index.js'
import { IdempotencyConflictError, withSchema, type Queryable } from '../../../../libs/db/index.js'
import { enqueueInboxMessage } from '../../../../libs/inbox/index.js'
import { enqueue, enqueueMany } from '../../../../libs/outbox/index.js'
import { scheduleTimer } from '../../../../libs/scheduler/index.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { buildInstruction } from '../../../support/outboxItems.js'

/** An open transaction of the library. */
export interface OpenTransaction {
  /** Transaction as the adapter returns it. */
  readonly tx: Queryable
  /** Inserts a row of the application with the library. */
  readonly note: (id: string) => Promise<void>
  /** Runs the body in a savepoint of the library, or of SQL. Rolls it back and throws if the body throws. */
  readonly savepoint: (body: (inner: OpenTransaction) => Promise<void>) => Promise<void>
}

export interface Library {
  /** Commits if the body returns, rolls back if it throws. */
  transaction(body: (open: OpenTransaction) => Promise<void>): Promise<void>
  /** Calls of the adapter with objects of the library that are no transaction. */
  readonly outside: readonly (() => Queryable | Promise<Queryable>)[]
  /** Whether the library or the adapter refuses a statement through an ended transaction. */
  readonly refusesEnded: boolean
  close(): Promise<void>
}

/** Name of a schema with characters that are special in libraries that parse SQL. */
const SCHEMA = 'Pay $1 ? :id "out" é'

/** Tests the adapter of one library. `connect` opens the library as an application would. */
export function testTransactions(name: string, connect: (url: string) => Promise<Library>): void {
  describe(`the adapter of ${name}`, () => {
    let db: TestDatabase
    let library: Library
    let listener: Client
    let received = 0
    beforeAll(async () => {
      db = await createTestDatabase({ schema: SCHEMA })
      await db.queryNoRole('CREATE TABLE public.note (id text PRIMARY KEY, text text NOT NULL)')
      const login = await db.createLogin('shop', { roles: ['symphony_ingest'], inherit: true })
      await db.queryNoRole(`GRANT SELECT, INSERT ON public.note TO "${login.name}"`)
      library = await connect(login.url)
      listener = await db.connect()
      listener.on('notification', () => (received += 1))
      await listener.query('LISTEN outbox_pending')
    })
    afterAll(async () => {
      await library.close()
      await db.drop()
    })

    /** Counts a participant's pending payments and the notes of one id. Also reads the next sequence number. */
    const found = async (participantId: string, note = '') => {
      const { rows } = await db.queryNoRole(
        `SELECT (SELECT count(*)::int FROM payment_outbox_pending WHERE participant_id = $1) AS items,
           (SELECT next_sequence_id::int FROM participant_outbox_sequences WHERE participant_id = $1) AS next,
           (SELECT count(*)::int FROM public.note WHERE id = $2) AS notes`,
        [participantId, note],
      )
      return rows[0]
    }

    test("commits the payment together with the application's own change", async () => {
      const instruction = buildInstruction()
      await library.transaction(async ({ tx, note }) => {
        await note(instruction.instructionId)
        const item = await enqueue(instruction, { tx, schema: SCHEMA })
        expect(item).toMatchObject({ created: true, sequenceId: 1n, state: 'PENDING' })
        expect(item.createdAt.getTime()).toBeGreaterThan(Date.UTC(2020))
      })
      expect(await found(instruction.participantId, instruction.instructionId)).toEqual({ items: 1, next: 2, notes: 1 })
    })

    test('leaves no item, no sequence number and no notification after a rollback', async () => {
      const instruction = buildInstruction()
      await listener.query('SELECT 1')
      const before = received
      const rolledBack = library.transaction(async ({ tx, note }) => {
        await note(instruction.instructionId)
        await enqueue(instruction, { tx, schema: SCHEMA })
        throw new Error('the application changed its mind')
      })
      await expect(rolledBack).rejects.toThrow('the application changed its mind')
      await listener.query('SELECT 1')
      expect(received).toBe(before)
      expect(await found(instruction.participantId, instruction.instructionId)).toEqual({
        items: 0,
        next: null,
        notes: 0,
      })
    })

    test('rolls back a payment with its savepoint, and keeps the payment of the outer transaction', async () => {
      const outer = buildInstruction()
      const inner = buildInstruction({ participantId: outer.participantId })
      await library.transaction(async ({ tx, savepoint }) => {
        await enqueue(outer, { tx, schema: SCHEMA })
        const undone = savepoint(async (open) => {
          await open.note(inner.instructionId)
          expect(await enqueue(inner, { tx: open.tx, schema: SCHEMA })).toMatchObject({ sequenceId: 2n })
          throw new Error('only this part')
        })
        await expect(undone).rejects.toThrow('only this part')
      })
      expect(await found(outer.participantId, inner.instructionId)).toEqual({ items: 1, next: 2, notes: 0 })
    })

    test('throws a typed error for a refused payment, without payload; the transaction stays usable', async () => {
      const first = buildInstruction({ payload: { iban: 'first-secret' } })
      const other = { ...first, payload: { iban: 'second-secret' } }
      let refusal: unknown
      await library.transaction(async ({ tx, savepoint }) => {
        await enqueue(first, { tx, schema: SCHEMA })
        await savepoint(async (open) => {
          await enqueue(other, { tx: open.tx, schema: SCHEMA })
        }).catch((error: unknown) => (refusal = error))
      })
      expect(refusal).toBeInstanceOf(IdempotencyConflictError)
      expect(refusal).toMatchObject({
        sqlstate: 'P7004',
        message: expect.stringMatching(/^item 1: this instruction and key already stand for another/),
      })
      expect(inspect(refusal, { depth: 10, showHidden: true })).not.toMatch(/first-secret|second-secret/)
      expect(await found(first.participantId)).toEqual({ items: 1, next: 2, notes: 0 })
    })

    test('stores values unchanged, including special characters', async () => {
      const { participantId, railType } = buildInstruction()
      const payloads = [
        { text: 'quotes \' " braces {a,b} back\\slash NULL', nested: { list: [1, 'two', null, true] } },
        { text: 'π é 支付 🎼', amount: '12345678901234567890.123456789' },
        {},
      ]
      const notBefore = new Date('2031-02-03T04:05:06.789Z')
      const instructions = payloads.map((payload, index) => ({
        ...buildInstruction({ participantId, railType }),
        payload,
        ...(index === 1 ? { notBefore } : {}),
        ordered: index === 2,
      }))
      await library.transaction(async ({ tx }) => {
        const items = await enqueueMany(instructions, { tx, schema: SCHEMA })
        expect(items.map(({ sequenceId }) => sequenceId)).toEqual([1n, 2n, 3n])
      })
      const { rows } = await db.queryNoRole(
        `SELECT payload, ordered, next_attempt_at = $2 AS later FROM payment_outbox_pending
         WHERE participant_id = $1 ORDER BY sequence_id`,
        [participantId, notBefore],
      )
      expect(rows).toEqual(payloads.map((payload, index) => ({ payload, ordered: index === 2, later: index === 1 })))
    })

    test('refuses objects of the library that are no transaction, before it sends anything', async () => {
      expect(library.outside.length).toBeGreaterThan(0)
      for (const make of library.outside) {
        const refusal = await Promise.resolve()
          .then(make)
          .then(
            () => undefined,
            (error: unknown) => error,
          )
        expect(refusal).toBeInstanceOf(InvalidArgumentError)
        expect(refusal).toMatchObject({
          message: expect.stringMatching(/: expected .*, got .*; open a transaction and pass that$/),
        })
      }
    })

    test('refuses a payment through an ended transaction if and only if refusesEnded is true', async () => {
      const instruction = buildInstruction()
      let ended: Queryable | undefined
      await library.transaction(async ({ tx }) => {
        ended = tx
      })
      const late = enqueue(instruction, { tx: ended!, schema: SCHEMA }).then(
        () => false,
        () => true,
      )
      expect(await late).toBe(library.refusesEnded)
      expect((await found(instruction.participantId))?.['items']).toBe(library.refusesEnded ? 0 : 1)
    })

    test('stores inbox messages and timers in the same transaction', async () => {
      const { instructionId: id } = buildInstruction()
      const payload = { said: '["not", "a list"]' }
      await library.transaction(async ({ tx: plain }) => {
        const tx = withSchema(plain, SCHEMA)
        await enqueueInboxMessage(tx, { source: 'bank', messageId: id, topic: 'credit', payload })
        await scheduleTimer(tx, { topic: id, payload, dueAt: new Date('2031-01-01T00:00:00Z') })
      })
      const { rows } = await db.queryNoRole(
        `SELECT payload FROM inbox_messages WHERE message_id = $1
         UNION ALL SELECT payload FROM scheduler_timers WHERE topic = $1`,
        [id],
      )
      expect(rows).toEqual([{ payload }, { payload }])
    })
  })
}
