import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { withSchema, type Transaction } from '../../libs/db/index.js'
import * as sql from '../../libs/entry/sql.js'
import type { InboxHandler } from '../../libs/inbox/index.js'
import { resolveInboxWorkerOptions } from '../../libs/inbox/options.js'
import { resolveRelayerOptions } from '../../libs/outbox/options.js'
import type { PaymentPayload, RailPayment, StandardSchema } from '../../libs/rails/index.js'
import { partsOf, Symphony, type SymphonyEvent, type SymphonyWorker } from '../../libs/symphony/index.js'
import { memoryRail } from '../../libs/testing/index.js'
import { useTestDatabase } from '../support/database.js'

const db = await useTestDatabase()

const PAYLOAD = { amount: '12.50', currency: 'EUR', destination: 'DE89370400440532013000' }

function open<const Rails extends readonly { readonly type: string }[]>(rails: Rails) {
  return new Symphony({ url: db.url, schema: db.schema, rails })
}

/** Returns a rail that pays at once. */
function simple(type: string) {
  return { type, onUnknown: 'resend', dispatch: () => ({ outcome: 'success', reference: 'r-1' }) as const } as const
}

type Opened = { readonly messages: object; readonly scheduler: object }

/** Calls a method with an argument of any type, as a JavaScript program can. */
function call(store: object, verb: string, argument: object): Promise<unknown> {
  return Promise.resolve(Reflect.apply(Reflect.get(store, verb), store, [argument]))
}

/** Returns a schema that refuses the payloads for which `isRefused` is true. */
function refusing(isRefused: (payload: unknown) => boolean): StandardSchema<PaymentPayload> {
  const validate = (value: unknown) => (isRefused(value) ? { issues: [{ message: 'refused' }] } : { value })
  return { '~standard': { version: 1, vendor: 'test', validate } }
}

async function sealedBlocks(worker: SymphonyWorker): Promise<number> {
  await worker.runOnce()
  return (await db.queryNoRole('SELECT FROM payment_outbox_blocks')).rows.length
}

describe('a payment through Symphony', () => {
  test('is enqueued in the transaction, dispatched by runOnce() and sealed', async () => {
    const bank = memoryRail({ type: 'paid', onUnknown: 'resend' })
    await using symphony = open([bank])
    const item = await symphony.transaction((tx) =>
      symphony.enqueue({ railType: 'paid', instructionId: 'P-1', participantId: 'shop', payload: PAYLOAD }, { tx }),
    )
    expect(item).toMatchObject({ state: 'PENDING', created: true })
    const worker = symphony.worker()
    const { dispatched } = await worker.runOnce()
    expect({ dispatched, paid: bank.paid.size }).toEqual({ dispatched: 1, paid: 1 })
    expect(await symphony.payments.get({ instructionId: 'P-1' })).toMatchObject({
      state: 'DISPATCHED',
      idempotencyKey: 'P-1',
    })
    const timeline = await symphony.payments.timeline({ outboxId: item.outboxId })
    expect(timeline.map(({ kind }) => kind)).toContain('attempt')
    // Sealing waits for older transactions of the whole server, including those of other tests.
    await expect.poll(() => sealedBlocks(worker)).toBeGreaterThan(0)
  })

  test('is rolled back with the transaction', async () => {
    await using symphony = open([{ type: 'rolled-back' }])
    const failing = symphony.transaction(async (tx) => {
      await symphony.enqueue(
        { railType: 'rolled-back', instructionId: 'P-2', participantId: 'shop', payload: PAYLOAD },
        { tx },
      )
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    expect(await symphony.payments.get({ instructionId: 'P-2' })).toBeUndefined()
  })

  test('is refused at enqueue if the contract of its rail refuses the payload', async () => {
    await using symphony = open([{ type: 'checked', destination: 'iban' } as const])
    const instruction = { railType: 'checked', instructionId: 'P-3', participantId: 'shop' } as const
    const payload = { ...PAYLOAD, destination: 'DE00370400440532013000' }
    await expect(
      symphony.transaction((tx) => symphony.enqueue({ ...instruction, payload }, { tx })),
    ).rejects.toMatchObject({ code: 'INVALID_PAYLOAD', argument: 'payload' })
    expect(await symphony.payments.get({ instructionId: 'P-3' })).toBeUndefined()
  })

  describe('that was enqueued before', () => {
    const instruction = {
      instructionId: 'P-5',
      participantId: 'shop',
      payload: { ...PAYLOAD, memo: '4111111111111111' },
    }
    const railType = 'stricter'
    const lenient = { type: railType } as const
    const strict = { type: railType, payload: refusing(() => true) } as const
    beforeAll(async () => {
      await using symphony = open([lenient])
      await symphony.transaction((tx) => symphony.enqueue({ ...instruction, railType }, { tx }))
    })

    test('is returned on a repeat although a stricter schema refuses it; a new payment is refused', async () => {
      await using symphony = open([strict])
      const repeat = { ...instruction, railType } as const
      const item = await symphony.transaction((tx) => symphony.enqueue(repeat, { tx }))
      expect(item).toMatchObject({ created: false, state: 'PENDING' })
      const other = symphony.transaction((tx) => symphony.enqueue({ ...repeat, instructionId: 'P-6' }, { tx }))
      await expect(other).rejects.toMatchObject({
        code: 'INVALID_PAYLOAD',
        remedy: 'Correct the payload and send it again under the same idempotency key.',
      })
      expect(await symphony.payments.get({ instructionId: 'P-6' })).toBeUndefined()
    })

    test('is refused on a repeat if a field is now forbidden; the remedy says that it stays enqueued', async () => {
      await using symphony = open([{ type: railType, fields: { '/memo': 'forbidden' } } as const])
      const repeat = symphony.transaction((tx) => symphony.enqueue({ ...instruction, railType }, { tx }))
      await expect(repeat).rejects.toMatchObject({
        code: 'CARD_NUMBER_REFUSED',
        argument: 'payload/memo',
        remedy: expect.stringContaining('If this payment was enqueued before, it stands'),
      })
    })

    test('is looked up only if the schema refuses the payload, so that others need no extra query', async () => {
      await using symphony = open([{ type: railType, payload: refusing(() => false) } as const])
      const sent: string[] = []
      await symphony.transaction((tx) => {
        const counting: Pick<Transaction, 'query'> = {
          query: (text, values) => {
            sent.push(text)
            return tx.query(text, values)
          },
        }
        return symphony.enqueue({ ...instruction, instructionId: 'P-7', railType }, { tx: counting })
      })
      expect(sent).toEqual([expect.stringContaining('enqueue_outbox_packed')])
    })
  })

  test('is enqueued through a transaction of the caller by a Symphony without a url', async () => {
    const symphony = new Symphony({ schema: db.schema, rails: [{ type: 'no-url' }] })
    const item = await db
      .as('symphony_ingest')
      .transaction((tx) =>
        symphony.enqueue({ railType: 'no-url', instructionId: 'P-4', participantId: 'shop', payload: PAYLOAD }, { tx }),
      )
    expect(item.created).toBe(true)
    expect(() => symphony.payments.status()).toThrow(expect.objectContaining({ code: 'DATABASE_URL_MISSING' }))
    await symphony.close()
  })

  test('is cancelled in a transaction of the caller, by its id or by instruction id and key', async () => {
    const symphony = new Symphony({ schema: db.schema })
    const reason = 'the order was cancelled'
    for (const [instructionId, idempotencyKey] of [['C-1'], ['C-2', 'key-2'], ['C-3']] as const) {
      await db.as('symphony_ingest').transaction(async (tx) => {
        const key = idempotencyKey === undefined ? {} : { idempotencyKey }
        const payment = { railType: 'bank', instructionId, participantId: 'shop', payload: PAYLOAD, ...key }
        const { outboxId } = await symphony.enqueue(payment, { tx })
        const named = instructionId === 'C-3' ? { outboxId } : { instructionId, ...key }
        expect(await symphony.payments.cancel({ ...named, reason }, { tx })).toMatchObject({ outboxId })
      })
    }
    const again = db
      .as('symphony_ingest')
      .transaction((tx) => symphony.payments.cancel({ instructionId: 'C-1', reason }, { tx }))
    await expect(again).rejects.toMatchObject({ code: 'NOT_CANCELLABLE', reason: 'CANCELLED' })
    await symphony.close()
  })

  test('is sent if the transaction that cancels it is rolled back', async () => {
    const bank = memoryRail({ type: 'uncancelled', onUnknown: 'resend' })
    await using symphony = open([bank])
    const payment = { railType: 'uncancelled', instructionId: 'C-4', participantId: 'shop', payload: PAYLOAD } as const
    await symphony.transaction((tx) => symphony.enqueue(payment, { tx }))
    const undone = symphony.transaction(async (tx) => {
      await symphony.payments.cancel({ instructionId: 'C-4', reason: 'not really' }, { tx })
      throw new Error('undo')
    })
    await expect(undone).rejects.toThrow('undo')
    expect(await symphony.worker().runOnce()).toMatchObject({ dispatched: 1 })
  })
})

describe('new Symphony()', () => {
  test('refuses a wrong url and a rail that is declared twice', () => {
    expect(() => new Symphony({ url: 'mysql://host/db' })).toThrow('url')
    expect(() => open([{ type: 'twice' }, { type: 'twice' }])).toThrow('declared twice')
  })

  test('refuses an unknown or invalid option even without a url', () => {
    const misspelt = { rails: [], shcema: 'payments' }
    expect(() => new Symphony(misspelt)).toThrow('did you mean schema?')
    expect(() => new Symphony({ connectionsMax: 0 })).toThrow('connectionsMax')
  })

  test.each([
    ['a misspelt option', { rail: [] }, '"rail": unknown; did you mean rails?'],
    ['an address in place of options', 'postgres://app@localhost/shop', 'options: expected an object, got string'],
    ['rails that are not an array', { rails: { bank: {} } }, 'rails: expected an array of rails, got object'],
    ['rails that are null', { rails: null }, 'rails: expected an array of rails, got null'],
  ])('refuses %s', (_, options, message) => {
    expect(() => Reflect.construct(Symphony, [options])).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT', message }),
    )
  })

  test('lists all known options if an unknown option resembles none of them', () => {
    const [, list = ''] = /expected one of (.*)/.exec(messageOf({ colour: 'red' })) ?? []
    const names = list.split(', ')
    expect(names).toEqual(expect.arrayContaining(['rails', 'topics', 'vault', 'clock', 'url', 'schema']))
    expect(names).toEqual([...new Set(names)])
  })
})

test.each([
  ['postgres://app@localhost/pay%20ments?sslmode=disable', 'pay ments'],
  ['postgres://app@localhost', 'app'],
  ['postgres://localhost/?user=shop', 'shop'],
  ['embedded:.symphony', 'postgres'],
])('the url %s has the database name %s', (url, name) => {
  expect(partsOf(new Symphony({ url })).databaseName).toBe(name)
})

test.each(['instructionID', 'limit'])('payments.search refuses %s, which is not a filter', async (name) => {
  const { payments } = new Symphony({ url: 'postgres://symphony@127.0.0.1:1/none' })
  const search: object = { [name]: 10 }
  const found = payments.search(search)[Symbol.asyncIterator]()
  await expect(found.next()).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: expect.stringContaining(`"${name}": unknown; expected one of state, kind, railType, participants, `),
  })
})

test('a Symphony with an undefined url fails with DATABASE_URL_MISSING and a remedy', () => {
  const options: object = { url: undefined }
  expect(() => new Symphony(options).operator).toThrow(
    expect.objectContaining({
      code: 'DATABASE_URL_MISSING',
      message: expect.stringContaining('The url of this Symphony is undefined'),
      remedy: expect.stringContaining('embedded:FOLDER'),
    }),
  )
})

test('Symphony.close releases a held lease before it closes the connections', async () => {
  const symphony = new Symphony({ url: db.url, schema: db.schema })
  const types: string[] = []
  const lease = await symphony.leases.acquire('held-at-close', { durationMs: 3_600_000 })
  symphony.events.on('*', ({ type }) => types.push(type))
  await symphony.close()
  expect(lease?.isLost).toBe(true)
  const { rows } = await db.queryNoRole(`SELECT released_at FROM symphony_leases WHERE resource = 'held-at-close'`)
  expect({ types, rows }).toEqual({ types: ['lease.ended'], rows: [{ released_at: expect.any(Date) }] })
})

test('enqueue refuses an unknown rail, and names it unless it looks like a card number', async () => {
  await using symphony = open([{ type: 'known-rail' }])
  const enqueueing = (railType: string) =>
    symphony.transaction((tx) => {
      const instruction = { railType, instructionId: 'R-1', participantId: 'shop', payload: PAYLOAD }
      // oxlint-disable-next-line typescript/unbound-method -- a rail that the types refuse
      return Reflect.apply(symphony.enqueue, symphony, [instruction, { tx }])
    })
  await expect(enqueueing('mobile')).rejects.toThrow('railType: unknown rail "mobile"; expected one of known-rail')
  await expect(enqueueing('4111111111111111')).rejects.toThrow('railType: unknown rail; expected one of known-rail')
})

test('enqueue uses the instruction id for an undefined idempotency key', async () => {
  await using symphony = open([{ type: 'known-rail' }])
  const instruction = { railType: 'known-rail', instructionId: 'U-1', participantId: 'shop', payload: PAYLOAD } as const
  const first = await symphony.transaction((tx) => symphony.enqueue(instruction, { tx }))
  const again = await symphony.transaction((tx) =>
    // oxlint-disable-next-line typescript/unbound-method -- a field that exact optional types refuse
    Reflect.apply(symphony.enqueue, symphony, [{ ...instruction, idempotencyKey: undefined }, { tx }]),
  )
  expect(again).toEqual({ ...first, created: false })
})

/** Returns the message with which the constructor refuses options. */
function messageOf(options: object): string {
  try {
    Reflect.construct(Symphony, [options])
  } catch (error) {
    return String(error)
  }
  return ''
}

describe('an invalid call of Symphony', () => {
  /** Nothing listens at this address, so a call with I/O would fail with another error. */
  const symphony = new Symphony({ url: 'postgres://symphony@127.0.0.1:1/none' })
  const tx = { query: () => Promise.reject(new Error('sent')) }
  const instruction = { railType: 'bank', instructionId: 'W-1', participantId: 'shop', payload: PAYLOAD }
  const misspelt = { ...instruction, notBefor: new Date() }
  const timer = { topic: 'report', payload: {}, dueAt: new Date() }
  const job = { name: 'evening', cron: '0 18 * * *', topic: 'report', payload: {} }
  const received = { source: 'bank', messageId: 'evt-1', topic: 'settled', payload: {} }
  const { messages, scheduler, inbox } = symphony
  const missingTx = 'options: expected { tx } with the transaction to enqueue in, got undefined'

  test.each<[string, object, string, readonly unknown[], string]>([
    ['a misspelt notBefore', symphony, 'enqueue', [misspelt, { tx }], '"notBefor": unknown; did you mean notBefore?'],
    [
      'a misspelt key',
      symphony,
      'enqueue',
      [{ ...instruction, idempotenceKey: 'k' }, { tx }],
      '"idempotenceKey": unknown; did you mean idempotencyKey?',
    ],
    [
      'a misspelt field in a batch',
      symphony,
      'enqueueMany',
      [[instruction, misspelt], { tx }],
      'instructions[1]."notBefor": unknown; did you mean notBefore?',
    ],
    ['a missing transaction', symphony, 'enqueue', [instruction], missingTx],
    ['a missing transaction of a batch', symphony, 'enqueueMany', [[instruction]], missingTx],
    [
      'a schema beside the transaction',
      symphony,
      'enqueue',
      [instruction, { tx, schema: 'payments' }],
      'options."schema": unknown; expected one of tx',
    ],
    [
      'a schema beside the transaction of a batch',
      symphony,
      'enqueueMany',
      [[instruction], { tx, schema: 'payments' }],
      'options."schema": unknown; expected one of tx',
    ],
    [
      'a key of a payment to read, which would have been ignored',
      symphony.payments,
      'get',
      [{ instructionId: 'W-1', idempotencyKey: 'k' }],
      'key."idempotencyKey": unknown; expected one of outboxId, instructionId',
    ],
    ...(
      [
        [messages, 'claim'],
        [scheduler, 'claimTimers'],
        [scheduler, 'claimJobRuns'],
        [inbox, 'claim'],
      ] as const
    ).map(([store, verb]): [string, object, string, readonly unknown[], string] => [
      `a misspelt option of ${store.constructor.name}.${verb}`,
      store,
      verb,
      [{ leaseSecond: 5, batchSize: 1, workerId: 'w' }],
      expect.stringMatching(/^"leaseSecond": unknown; did you mean leaseSeconds/),
    ]),
    [
      'a cancellation without a transaction',
      symphony.payments,
      'cancel',
      [{ instructionId: 'W-1', reason: 'r' }],
      'options: expected { tx } with the transaction to cancel in, got undefined',
    ],
    [
      'a cancellation by two ids',
      symphony.payments,
      'cancel',
      [{ instructionId: 'W-1', outboxId: 'W-2', reason: 'r' }, { tx }],
      'key: expected either outboxId or instructionId',
    ],
    [
      'a misspelt reason of a cancellation',
      symphony.payments,
      'cancel',
      [{ instructionId: 'W-1', reasn: 'r' }, { tx }],
      'cancellation."reasn": unknown; did you mean reason?',
    ],
    [
      'a missing instruction',
      symphony,
      'enqueue',
      [undefined, { tx }],
      'instruction: expected an object, got undefined',
    ],
    [
      'a missing instruction in a batch',
      symphony,
      'enqueueMany',
      [[instruction, null], { tx }],
      'instructions[1]: expected an object, got null',
    ],
    ['a batch that is not an array', symphony, 'enqueueMany', [instruction, { tx }], 'instructions: expected an array'],
    [
      'a misspelt field of a message',
      messages,
      'enqueue',
      [{ topic: 'report', payload: {}, dueat: new Date() }],
      'message."dueat": unknown; did you mean dueAt?',
    ],
    [
      'a misspelt transaction of a message',
      messages,
      'enqueue',
      [{ topic: 'report', payload: {} }, { Tx: tx }],
      'options."Tx": unknown; did you mean tx?',
    ],
    [
      'a transaction of a message that is null',
      messages,
      'enqueue',
      [{ topic: 'report', payload: {} }, { tx: null }],
      expect.stringContaining('tx: expected a client with an open transaction'),
    ],
    [
      'a misspelt transaction of a timer',
      scheduler,
      'scheduleTimer',
      [timer, { Tx: tx }],
      'options."Tx": unknown; did you mean tx?',
    ],
    [
      'a misspelt field of a timer',
      scheduler,
      'scheduleTimer',
      [{ ...timer, timerID: 'x' }],
      'timer."timerID": unknown; did you mean timerId?',
    ],
    [
      'a misspelt field of a job',
      scheduler,
      'createOrUpdateJob',
      [{ ...job, timezone: 'Europe/Berlin' }],
      'job."timezone": unknown; did you mean timeZone?',
    ],
    [
      'a misspelt field of an inbox message',
      inbox,
      'enqueue',
      [{ ...received, notbefore: new Date() }],
      '"notbefore": unknown; did you mean notBefore?',
    ],
    [
      'a worker that runs without a signal',
      symphony.worker(),
      'run',
      [],
      'options: expected { signal } with an AbortSignal that ends the run, got undefined',
    ],
    [
      'a worker with an invalid signal',
      symphony.worker(),
      'run',
      [{ signal: 'SIGTERM' }],
      'signal: expected an AbortSignal that ends the run, got string',
    ],
    [
      'a misspelt option of a worker',
      symphony,
      'worker',
      [{ leaseSecond: 5 }],
      '"leaseSecond": unknown; did you mean leaseSeconds?',
    ],
    ...(
      [
        ['maintenance', { repairInterval: 5 }, '"repairInterval": unknown; did you mean repairIntervalMs?'],
        ['maintenance', { retention: { inboxDay: 5 } }, 'retention."inboxDay": unknown; did you mean inboxDays?'],
        ['scheduler', { pollMS: 5 }, '"pollMS": unknown; did you mean pollMs?'],
        ['inbox', { handler: {} }, '"handler": unknown; did you mean handlers?'],
      ] as const
    ).map(([part, given, message]): [string, object, string, readonly unknown[], string] => [
      `a misspelt option of the ${part} of a worker`,
      symphony,
      'worker',
      [{ [part]: given }],
      `${part}.${message}`,
    ]),
    [
      'an unknown event type',
      symphony.events,
      'on',
      ['outbox.hold', () => {}],
      'type: unknown; did you mean outbox.held?',
    ],
    [
      'an unknown event type of once',
      symphony.events,
      'once',
      ['outbox.hold'],
      'type: unknown; did you mean outbox.held?',
    ],
    [
      'an unknown filter of held payments',
      symphony.operator,
      'holds',
      [{ railtype: 'x' }],
      '"railtype": unknown; did you mean railType?',
    ],
    ...['holds', 'failed'].map((verb): [string, object, string, readonly unknown[], string] => [
      `a limit of ${verb}, which would not have ended the loop`,
      symphony.operator,
      verb,
      [{ limit: 10 }],
      expect.stringMatching(/^"limit": unknown; expected one of kind, railType, /),
    ]),
    [
      'an unknown filter of findings',
      symphony.operator,
      'findings',
      [{ kinds: ['reversed'] }],
      '"kinds": unknown; did you mean kind?',
    ],
    [
      'an unknown filter of runs',
      symphony.operator,
      'runs',
      [{ rail: 'x' }],
      '"rail": unknown; expected one of railType',
    ],
    [
      'a misspelt option of a reconciliation',
      symphony.operator,
      'reconcile',
      [{ rail: 'x', file: 'x.xml' }],
      expect.stringContaining('"file": unknown'),
    ],
    [
      'a reconciliation without options',
      symphony.operator,
      'reconcile',
      [],
      'options: expected an object, got undefined',
    ],
    [
      'an unknown filter of failed payments',
      symphony.operator,
      'failed',
      [{ railtype: 'x' }],
      '"railtype": unknown; did you mean railType?',
    ],
  ])('is refused before any I/O: %s', async (_, object, verb, given, message) => {
    const calling = async () => Reflect.apply(Reflect.get(object, verb), object, given)
    await expect(calling()).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', message })
  })
})

const report: StandardSchema<{ readonly title: string }> = {
  '~standard': {
    version: 1,
    vendor: 'test',
    validate: (value) =>
      typeof Reflect.get(Object(value), 'title') === 'string' ? { value } : { issues: [{ message: 'title' }] },
  },
}

describe('a topic with a schema', () => {
  /** Nothing listens at this address, so a call with I/O would fail with another error. */
  const url = 'postgres://symphony@127.0.0.1:1/none'
  const faulty: Readonly<Record<string, unknown>> = { topic: 'report', payload: { heading: 'no title' } }
  const unknown: Readonly<Record<string, unknown>> = { topic: 'reprot', payload: { title: 'Settlement' } }
  const job = { name: 'evening', cron: '0 18 * * *' }

  test.each([
    ['a message', (given: object) => (one: Opened) => call(one.messages, 'enqueue', given)],
    [
      'a timer',
      (given: object) => (one: Opened) => call(one.scheduler, 'scheduleTimer', { dueAt: new Date(), ...given }),
    ],
    ['a job', (given: object) => (one: Opened) => call(one.scheduler, 'createOrUpdateJob', { ...job, ...given })],
  ])('makes %s with an invalid payload or an unknown topic fail before any I/O', async (_, enqueueing) => {
    await using symphony = new Symphony({ url, topics: { report } })
    await expect(enqueueing(faulty)(symphony)).rejects.toMatchObject({
      code: 'INVALID_PAYLOAD',
      argument: 'payload',
      message: 'payload: refused by the schema at payload (INVALID_PAYLOAD)',
    })
    await expect(enqueueing(unknown)(symphony)).rejects.toMatchObject({
      code: 'INVALID_PAYLOAD',
      argument: 'topic',
      message: 'topic: unknown topic "reprot"; did you mean report?',
      remedy: 'Use one of: report',
    })
  })

  test('is refused at the first access to symphony.messages if its schema is invalid', () => {
    const topics: object = { report: {} }
    const messages = () => Reflect.construct(Symphony, [{ url, topics }]).messages
    expect(messages).toThrow('topics.report: expected a schema')
  })
})

describe('a worker of Symphony', () => {
  test('handles messages by topic, and jobs through the scheduler', async () => {
    await using symphony = new Symphony({ url: db.url, schema: db.schema, topics: { report } })
    const titles: string[] = []
    await symphony.messages.enqueue({ topic: 'report', payload: { title: 'from a message' } })
    await symphony.scheduler.createOrUpdateJob({
      name: 'evening',
      cron: '0 18 * * *',
      topic: 'report',
      payload: { title: 'from a job' },
    })
    await symphony.scheduler.triggerJob('evening')
    const worker = symphony.worker({
      scheduler: true,
      topics: { report: ({ payload }) => void titles.push(payload.title) },
    })
    expect(await worker.runOnce()).toMatchObject({ dispatched: 2, scheduled: 1 })
    expect(titles.toSorted()).toEqual(['from a job', 'from a message'])
  })

  test('handles inbox messages with the rights of its login', async () => {
    await using symphony = open([])
    await symphony.inbox.enqueue({
      source: 'bank',
      messageId: 'evt-1',
      topic: 'settled',
      payload: { invoice: 'INV-1' },
    })
    const seen: unknown[] = []
    const settled = async (_message: unknown, { tx }: { readonly tx: { query(text: string): Promise<unknown> } }) => {
      seen.push(await tx.query('SELECT current_user = session_user AS "isLogin"'))
    }
    expect(await symphony.worker({ inbox: { handlers: { settled } } }).runOnce()).toMatchObject({ handled: 1 })
    expect(seen).toMatchObject([{ rows: [{ isLogin: true }] }])
  })

  test('accepts an inbox without handlerRole if the name of the login begins with symphony_', () => {
    const symphony = new Symphony({ url: 'postgres://symphony_worker@127.0.0.1:1/none' })
    const handlers = { settled: async () => {} }
    expect(symphony.worker({ inbox: { handlers } }).workerId).not.toBe('')
    expect(() => symphony.worker({ inbox: { handlers, handlerRole: 'symphony_control' } })).toThrow(
      expect.objectContaining({ code: 'INVALID_INBOX_WORKER_OPTION' }),
    )
  })

  test('records a return once, in the transaction of the inbox handler, if two messages report it', async () => {
    await using symphony = open([simple('webhook')])
    const { outboxId } = await symphony.transaction((tx) =>
      symphony.enqueue({ railType: 'webhook', instructionId: 'W-1', participantId: 'shop', payload: PAYLOAD }, { tx }),
    )
    await symphony.worker().runOnce()
    const answers: unknown[] = []
    const returned: InboxHandler = async ({ payload, attemptCount }, { tx }) => {
      const text = (field: string) => {
        const value = payload[field]
        return typeof value === 'string' ? value : ''
      }
      const money = { amount: text('amount'), currency: text('currency') }
      const given = { outboxId, ...money, code: text('reason'), reference: text('id') }
      answers.push(await sql.outbox.recordOutboxReturn(withSchema(tx, db.schema), given))
      // The first attempt fails after it has recorded the return of money, which is then rolled back.
      if (attemptCount === 1) throw new Error('the shop is closed')
    }
    const message = { amount: '12.50', currency: 'EUR', reason: 'AC04', id: 'RT-9' }
    await symphony.inbox.enqueue({ source: 'bank', messageId: 'evt-9', topic: 'returned', payload: message })
    const worker = symphony.worker({ inbox: { handlers: { returned } } })
    await worker.runOnce()
    expect(await symphony.payments.get({ instructionId: 'W-1' })).toMatchObject({ returned: false })
    await db.queryNoRole(`UPDATE inbox_messages SET due_at = now() WHERE message_id = 'evt-9'`)
    // The bank sends the same return again under another message id.
    await symphony.inbox.enqueue({ source: 'bank', messageId: 'evt-10', topic: 'returned', payload: message })
    await db.queryNoRole(`UPDATE inbox_messages SET attempt_count = 1 WHERE message_id = 'evt-10'`)
    await worker.runOnce()
    expect(answers.map((answer) => String(Reflect.get(Object(answer), 'created'))).toSorted()).toEqual([
      'false',
      'true',
      'true',
    ])
    expect(await symphony.payments.get({ instructionId: 'W-1' })).toMatchObject({
      state: 'DISPATCHED',
      returnedAmount: '12.50',
    })
  })

  test('stops when the Symphony is closed, and when the signal of run() aborts', async () => {
    const bank = memoryRail({ type: 'stopped', onUnknown: 'resend' })
    const symphony = open([bank])
    const stop = new AbortController()
    const running = symphony.worker().run({ signal: stop.signal })
    const started = symphony.worker()
    await started.start()
    stop.abort()
    await running
    await symphony.close()
    await expect(symphony.transaction(async () => {})).rejects.toMatchObject({ code: 'DATABASE_CLOSED' })
  })

  test('cannot start or run after stop() (WORKER_STOPPED)', async () => {
    await using symphony = open([simple('restarted')])
    const worker = symphony.worker()
    await worker.stop()
    const stopped = { code: 'WORKER_STOPPED', remedy: 'Create another worker with symphony.worker().' }
    await expect(worker.start()).rejects.toMatchObject(stopped)
    await expect(worker.runOnce()).rejects.toMatchObject(stopped)
    await expect(worker.run({ signal: new AbortController().signal })).rejects.toMatchObject(stopped)
  })

  test('dispatches nothing after a stop() during start()', async () => {
    await using symphony = open([simple('raced')])
    const types: string[] = []
    symphony.events.on('*', ({ type }) => types.push(type))
    const worker = symphony.worker({ pollMs: 10, heartbeatMs: 100 })
    const starting = worker.start()
    await worker.stop()
    await starting
    types.length = 0
    await symphony.transaction((tx) =>
      symphony.enqueue({ railType: 'raced', instructionId: 'S-1', participantId: 'shop', payload: PAYLOAD }, { tx }),
    )
    await delay(500)
    expect(types).toEqual([])
    expect(await symphony.payments.get({ instructionId: 'S-1' })).toMatchObject({ state: 'DUE' })
  })

  test('starts after an earlier start() that failed', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'symphony-start-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    const epochFile = join(folder, 'epoch.json')
    await writeFile(epochFile, 'not a record')
    await using symphony = open([simple('repaired')])
    const worker = symphony.worker({ epochFile })
    await expect(worker.start()).rejects.toMatchObject({ code: 'EPOCH_FILE_UNREADABLE' })
    await rm(epochFile)
    await worker.start()
  })

  test('leaves the rails open for another worker; the Symphony closes them', async () => {
    const bank = { ...simple('shared'), close: () => void closed.push('shared') }
    const closed: unknown[] = []
    await using symphony = open([bank])
    const first = symphony.worker()
    await first.runOnce()
    await first.stop()
    expect(closed).toEqual([])
    await symphony.close()
    expect(closed).toEqual(['shared'])
  })

  test('closes a rail adapter that is passed only to the worker, not to the Symphony', async () => {
    const closed: unknown[] = []
    const bank = { ...simple('own'), close: () => void closed.push('own') }
    await using symphony = open([{ type: 'own' }])
    await symphony.worker({ rails: [bank] }).stop()
    expect(closed).toEqual(['own'])
  })

  test('accepts a rail that is an instance of a class with a schema', async () => {
    class Bank {
      readonly type = 'class'
      readonly onUnknown = 'resend'
      readonly payload = {
        '~standard': { version: 1, vendor: 'test', validate: (value: unknown) => ({ value }) },
      } as const
      dispatch() {
        return { outcome: 'success', reference: 'r-1' } as const
      }
    }
    await using symphony = open([new Bank()])
    expect(symphony.worker().railTypes).toEqual(['class'])
  })

  test('refuses to start without the master keys of rails that encrypt (VAULT_KEYS_MISSING)', async () => {
    const bank = {
      ...memoryRail({ type: 'encrypting', onUnknown: 'resend' }),
      fields: { '/iban': 'encrypted' },
    } as const
    await using symphony = open([bank])
    await expect(symphony.worker().start()).rejects.toMatchObject({ code: 'VAULT_KEYS_MISSING' })
    await expect(symphony.worker().runOnce()).rejects.toMatchObject({ code: 'VAULT_KEYS_MISSING' })
  })

  test('stores its epoch record in epochFile and refuses to start with an unreadable one', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'symphony-epoch-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    const epochFile = join(folder, 'epoch.json')
    await using symphony = open([memoryRail({ type: 'recorded', onUnknown: 'resend' })])
    await symphony.worker({ epochFile }).runOnce()
    expect(JSON.parse(await readFile(epochFile, 'utf8'))).toMatchObject({ epochId: expect.any(String) })
    await writeFile(epochFile, 'not a record')
    await expect(symphony.worker({ epochFile }).start()).rejects.toMatchObject({ code: 'EPOCH_FILE_UNREADABLE' })
    expect(() => symphony.worker({ epochFile: '' })).toThrow('epochFile')
  })

  test('is refused without rails, topics or maintenance (NOTHING_TO_DO)', async () => {
    await using symphony = open([{ type: 'contract-only' }])
    const allOff = { repair: false, sealing: false, retention: false } as const
    for (const maintenance of [false, allOff]) {
      expect(() => symphony.worker({ maintenance })).toThrow(expect.objectContaining({ code: 'NOTHING_TO_DO' }))
    }
    expect(symphony.worker({ maintenance: { ...allOff, retention: {} } }).railTypes).toEqual([])
  })
})

test.each<[string, object]>([
  ['cleanupIntervalMs', { cleanupIntervalMs: 0 }],
  ['cleanupIntervalMs', { cleanupIntervalMs: '5000' }],
  ['retention.inboxDays', { retention: { inboxDays: 0 } }],
  ['retention.timersDays', { retention: { timersDays: 3_651 } }],
  ['retention.leasesDays', { retention: { leasesDays: null } }],
])('symphony.worker() refuses maintenance with %s out of bounds: %j', async (name, maintenance) => {
  await using symphony = open([])
  expect(() => symphony.worker({ maintenance })).toThrow(
    expect.objectContaining({
      argument: name,
      message: expect.stringContaining('expected a whole number'),
    }),
  )
})

test('retention runs with the default of a number of days that is undefined', async () => {
  await using symphony = open([])
  const maintenance: object = { repair: false, sealing: false, retention: { inboxDays: undefined } }
  const failed = symphony.events.once('retention.fault', { signal: AbortSignal.timeout(500) })
  await symphony.worker({ maintenance }).start()
  await expect(failed).rejects.toMatchObject({ name: 'TimeoutError' })
})

/** Returns the same options, each undefined. */
function unset(options: object): object {
  return Object.fromEntries(Object.keys(options).map((name) => [name, undefined]))
}

test('an undefined option of a relayer or an inbox worker takes its default', () => {
  const rails = [{ type: 'bank', onUnknown: 'resend', timeoutMs: 1_000 }] as const
  const relayer = resolveRelayerOptions({ workerId: 'w' }, rails)
  expect(relayer).toMatchObject({ poll: true, listen: true, renewLeases: true })
  expect(resolveRelayerOptions({ ...unset(relayer), workerId: 'w' }, rails)).toEqual(relayer)
  const given = { workerId: 'w', handlerRole: 'shop' }
  const inbox = resolveInboxWorkerOptions(given, 'app')
  expect(resolveInboxWorkerOptions({ ...unset(inbox), ...given }, 'app')).toEqual(inbox)
})

describe('the inbox of Symphony', () => {
  test('accepts a message once, and only the claiming worker can acknowledge it', async () => {
    await using symphony = open([])
    await using other = open([])
    const message = { source: 'bank', messageId: 'evt-claimed', topic: 'settled', payload: { invoice: 'INV-1' } }
    expect(await symphony.inbox.enqueue(message)).toMatchObject({ state: 'seen', created: true })
    expect(await symphony.inbox.enqueue(message)).toMatchObject({ created: false, sightings: 2n })
    const [claim] = await symphony.inbox.claim({ batchSize: 10 })
    expect(claim).toMatchObject(message)
    expect(await other.inbox.ack([claim!])).toEqual([])
    expect(await symphony.inbox.ack([claim!])).toEqual([{ source: 'bank', messageId: 'evt-claimed' }])
    expect(await other.inbox.alreadyProcessed({ source: 'bank', messageId: 'evt-claimed' })).toBe(true)
  })
})

describe('events of Symphony', () => {
  test('reach every listener, even if another listener throws', async () => {
    const bank = memoryRail({ type: 'heard', onUnknown: 'resend' })
    await using symphony = open([bank])
    const types: string[] = []
    symphony.events.on('*', () => {
      throw new Error('a bad listener')
    })
    symphony.events.on('*', ({ type }: SymphonyEvent) => types.push(type))
    const recorded = symphony.events.once('outbox.recorded')
    await symphony.transaction((tx) =>
      symphony.enqueue({ railType: 'heard', instructionId: 'E-1', participantId: 'shop', payload: PAYLOAD }, { tx }),
    )
    await symphony.worker().runOnce()
    expect(await recorded).toMatchObject({ state: 'DISPATCHED', railType: 'heard' })
    expect(types).toEqual(expect.arrayContaining(['outbox.claimed', 'outbox.recorded']))
  })

  test('are buffered by a stream up to 1,000, and the stream counts dropped events', async () => {
    const symphony = new Symphony()
    const stop = new AbortController()
    const stream = symphony.events.stream({ signal: stop.signal })
    for (let count = 0; count < 1_003; count += 1) symphony.events.emit({ type: 'outbox.notified' })
    stop.abort()
    const read: SymphonyEvent[] = []
    for await (const event of stream) read.push(event)
    expect({ read: read.length, dropped: stream.dropped }).toEqual({ read: 1_000, dropped: 3 })
  })

  test('make once() reject if its signal aborts first', async () => {
    const symphony = new Symphony()
    await expect(symphony.events.once('outbox.held', { signal: AbortSignal.abort() })).rejects.toThrow('aborted')
  })
})

describe('an operator who uses Symphony', () => {
  test('cancels a payment that was not sent, which then cannot be cancelled again', async () => {
    await using symphony = open([{ type: 'cancelled' }])
    const { outboxId } = await symphony.transaction((tx) =>
      symphony.enqueue(
        { railType: 'cancelled', instructionId: 'X-1', participantId: 'shop', payload: PAYLOAD },
        { tx },
      ),
    )
    expect(await symphony.operator.cancel({ outboxId, reason: 'a mistake' })).toMatchObject({ outboxId })
    expect(await symphony.payments.get({ outboxId })).toMatchObject({ state: 'FAILED', lastErrorCode: 'CANCELLED' })
    await expect(symphony.operator.cancel({ outboxId, reason: 'again' })).rejects.toMatchObject({ reason: 'CANCELLED' })
  })

  test('holds a payment and proposes its outcome, but cannot approve their own proposal', async () => {
    await using symphony = open([{ type: 'held' }])
    const { outboxId } = await symphony.transaction((tx) =>
      symphony.enqueue({ railType: 'held', instructionId: 'H-1', participantId: 'shop', payload: PAYLOAD }, { tx }),
    )
    await symphony.operator.hold({ outboxId, reason: 'to be compared' })
    await symphony.operator.note({ outboxId, note: 'asked the bank', assignee: 'pavel' })
    const held = []
    for await (const item of symphony.operator.holds({ railType: 'held' })) held.push([item.outboxId, item.assignee])
    expect(held).toEqual([[outboxId, 'pavel']])
    for await (const item of symphony.operator.holds({ assignee: 'olga' })) held.push([item.outboxId])
    expect(held).toHaveLength(1)
    const { proposalId } = await symphony.operator.resolveHold({
      outboxId,
      decision: 'DISPATCHED',
      railReference: 'bank-7',
      reason: 'in the statement',
    })
    const proposals = []
    for await (const proposal of symphony.operator.proposals()) proposals.push(proposal.proposalId)
    expect(proposals).toEqual([proposalId])
    await expect(symphony.operator.approve({ proposalId: String(proposalId) })).rejects.toMatchObject({
      code: 'APPROVAL_REQUIRED',
    })
  })

  test('records a return, finds it, and pays again with an instruction that replaces the payment', async () => {
    await using symphony = open([simple('returned')])
    const pay = (instructionId: string, replaces?: string) =>
      symphony.transaction((tx) =>
        symphony.enqueue(
          {
            railType: 'returned',
            instructionId,
            participantId: 'shop',
            payload: PAYLOAD,
            ...(replaces === undefined ? {} : { replaces }),
          },
          { tx },
        ),
      )
    const { outboxId } = await pay('R-1')
    await symphony.worker().runOnce()
    await expect(pay('R-2', outboxId)).rejects.toMatchObject({ code: 'NOT_REPLACEABLE' })
    const given = { outboxId, amount: '2.50', currency: 'EUR', code: 'AC04', reference: 'RT-1' }
    expect(await symphony.operator.recordReturn(given)).toMatchObject({ created: true, returnedTotal: '2.50' })
    await expect(
      symphony.operator.recordReturn({ ...given, amount: '10.01', reference: 'RT-2' }),
    ).rejects.toMatchObject({ code: 'RETURN_EXCEEDS_PAYMENT' })
    const found = []
    for await (const item of symphony.payments.search({ returned: true, railType: 'returned' })) found.push(item)
    expect(found).toMatchObject([{ outboxId, returnedAmount: '2.50' }])
    expect(await pay('R-2', outboxId)).toMatchObject({ created: true })
    expect(await symphony.payments.get({ instructionId: 'R-2' })).toMatchObject({ replaces: outboxId })
    const misspelt: typeof given & { readonly at: number } = { ...given, at: 1 }
    await expect(symphony.operator.recordReturn(misspelt)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  })

  test('proposes, lists and withdraws a limit, but cannot approve their own proposal', async () => {
    await using symphony = open([{ type: 'held' }])
    const { limits } = symphony.operator
    const rule = { kind: 'count', limit: '10', railType: 'held', windowSeconds: 3_600 } as const
    const { proposalId } = await limits.propose({ name: 'hourly', rule, reason: 'as agreed' })
    expect(await limits.list()).toMatchObject({ limits: [], proposals: [{ proposalId, name: 'hourly', rule }] })
    await expect(limits.approve({ proposalId })).rejects.toMatchObject({ code: 'APPROVAL_REQUIRED' })
    await limits.withdraw({ proposalId, reason: 'not needed' })
    expect(await limits.list()).toEqual({ limits: [], proposals: [] })
  })

  test('reconciles a statement or the list of a rail, reads runs and findings, closes a finding', async () => {
    const payments: RailPayment[] = []
    const listed = {
      ...simple('listed'),
      settlementDays: 0,
      listPayments: async function* listPayments() {
        yield* payments
      },
    }
    await using symphony = open([listed])
    const { outboxId } = await symphony.transaction((tx) =>
      symphony.enqueue({ railType: 'listed', instructionId: 'L-1', participantId: 'shop', payload: PAYLOAD }, { tx }),
    )
    await symphony.worker().runOnce()
    const bookedOn = new Date().toISOString().slice(0, 10)
    const entry = { reference: outboxId, bankReference: 'B-1', amount: '12.50', currency: 'EUR', bookedOn }
    payments.push(entry)
    const [from, to] = [-1, 1].map((days) => new Date(Date.now() + days * 86_400_000))
    const { operator } = symphony
    const first = await operator.reconcile({ rail: 'listed', from: from!, to: to! })
    expect(first).toMatchObject({ format: 'rail', counts: { matched: 1 }, findings: [] })
    const statement = Readable.from([Buffer.from(JSON.stringify({ ...entry, bankReference: 'B-2' }))])
    const second = await operator.reconcile({ rail: 'listed', statement, format: 'ndjson' })
    expect(second).toMatchObject({ settlementDays: 0, counts: { paidTwice: 1 } })
    const runs = []
    for await (const run of operator.runs({ railType: 'listed' })) runs.push(run.runId)
    expect(runs).toEqual([second.runId, first.runId])
    const findings = []
    for await (const finding of operator.findings({ railType: 'listed', state: 'open' })) findings.push(finding)
    expect(findings).toMatchObject([{ kind: 'paid_twice', outboxId }])
    await operator.closeFinding({ findingId: findings[0]!.findingId!, reason: 'the bank refunded B-2' })
    for await (const finding of operator.findings({ state: 'closed' })) findings.push(finding)
    expect(findings[1]).toMatchObject({ closed: { reason: 'the bank refunded B-2' } })
  })

  test('pauses and resumes a known rail, and cannot pause an unknown one (UNKNOWN_NAME)', async () => {
    await using symphony = open([{ type: 'held' }])
    const target = { kind: 'rail', name: 'held' } as const
    expect(await symphony.operator.pause({ ...target, reason: 'maintenance' })).toBe(true)
    expect((await symphony.operator.pauses()).map(({ name }) => name)).toEqual(['held'])
    expect(await symphony.operator.resume({ ...target, reason: 'over' })).toBe(true)
    await expect(symphony.operator.pause({ kind: 'rail', name: 'hold', reason: 'typo' })).rejects.toMatchObject({
      code: 'UNKNOWN_NAME',
    })
  })
})
