import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, expectTypeOf, onTestFinished, test } from 'vitest'
import { outcomeSchema, type PaymentOutcome } from '../../libs/outbox/index.js'
import {
  defineRail,
  httpRail,
  webhookRail,
  type PaymentPayload,
  type Rail,
  type RailAnswer,
  type StandardSchema,
} from '../../libs/rails/index.js'
import { Symphony } from '../../libs/symphony/index.js'
import { memoryRail } from '../../libs/testing/index.js'

/**
 * Mistakes that must not compile. `tsc -p tests` checks them; `expectTypeOf` calls no function, so nothing is enqueued.
 */

interface SepaPayload {
  readonly amount: string
  readonly currency: 'EUR'
  readonly destination: string
  readonly invoice: string
}

declare const Sepa: StandardSchema<SepaPayload>
declare const Report: StandardSchema<{ readonly title: string }>
declare const Ping: StandardSchema<{ readonly count: number }>
declare const tx: { query(text: string, values?: unknown[]): Promise<{ rows: never[] }> }

const answer = (): RailAnswer => ({ outcome: 'success', reference: 'bank-1' })
const PAYLOAD = { amount: '12.50', currency: 'EUR', destination: 'DE89370400440532013000' } as const
const KEYS = { instructionId: 'INV-1', participantId: 'shop' } as const

test('defineRail infers the payload type from the schema; without a schema it is PaymentPayload', () => {
  expectTypeOf(() => {
    const contract = { type: 'SEPA', payload: Sepa, destination: 'iban' } as const
    const spread = defineRail({
      ...contract,
      onUnknown: 'inquire',
      dispatch: ({ payload }) => {
        expectTypeOf(payload).toEqualTypeOf<SepaPayload>()
        return answer()
      },
      queryStatus: ({ payload }) => {
        expectTypeOf(payload).toEqualTypeOf<SepaPayload>()
        return { outcome: 'absent' }
      },
    })
    expectTypeOf(spread).toEqualTypeOf<Rail<'SEPA', SepaPayload>>()
    const plain = defineRail({
      type: 'momo',
      onUnknown: 'hold',
      async dispatch({ payload }) {
        expectTypeOf(payload).toEqualTypeOf<PaymentPayload>()
        return answer()
      },
    })
    expectTypeOf(plain).toEqualTypeOf<Rail<'momo', PaymentPayload>>()
    const event = defineRail({
      type: 'event',
      money: false,
      onUnknown: 'resend',
      dispatch: ({ payload }) => ({ outcome: 'success', reference: JSON.stringify(payload['id']) }),
    })
    const symphony = new Symphony({ rails: [spread, plain, event] })
    void symphony.enqueue({ ...KEYS, railType: 'SEPA', payload: { ...PAYLOAD, invoice: 'INV-1' } }, { tx })
    void symphony.enqueue({ ...KEYS, railType: 'momo', payload: { ...PAYLOAD, note: 'any further field' } }, { tx })
    void symphony.enqueue({ ...KEYS, railType: 'event', payload: { id: 7 } }, { tx })
    void symphony.worker({ rails: [spread, plain, event] })
    // @ts-expect-error: the schema of SEPA demands an invoice, even if there are other rails
    void symphony.enqueue({ ...KEYS, railType: 'SEPA', payload: PAYLOAD }, { tx })
  }).toBeFunction()
})

test('httpRail and memoryRail keep the types of rail name and payload', () => {
  expectTypeOf(() => {
    const http = httpRail({ type: 'http', payload: Sepa, onUnknown: 'hold', http: { url: 'https://bank.example' } })
    expectTypeOf(http).toEqualTypeOf<Rail<'http', SepaPayload>>()
    const symphony = new Symphony({
      rails: [
        http,
        memoryRail({ type: 'memory', onUnknown: 'resend' }),
        defineRail({ type: 'inline', onUnknown: 'hold', dispatch: answer }),
      ],
    })
    void symphony.enqueue({ ...KEYS, railType: 'inline', payload: PAYLOAD }, { tx })
    // @ts-expect-error: a rail defined inside the list keeps its payload type
    void symphony.enqueue({ ...KEYS, railType: 'inline', payload: { amount: '1' } }, { tx })
    void symphony.enqueue({ ...KEYS, railType: 'memory', payload: PAYLOAD }, { tx })
    // @ts-expect-error: a money rail without a schema takes a PaymentPayload
    void symphony.enqueue({ ...KEYS, railType: 'memory', payload: { amount: '1' } }, { tx })
  }).toBeFunction()
})

test('a wrong payload, a wrong rail and a missing tx do not compile', () => {
  expectTypeOf(() => {
    const symphony = new Symphony({ rails: [{ type: 'SEPA', payload: Sepa }, { type: 'momo' }] })
    const sound = { ...KEYS, railType: 'SEPA', payload: { ...PAYLOAD, invoice: 'INV-1' } } as const
    void symphony.enqueue(sound, { tx })
    void symphony.enqueueMany([sound], { tx })
    // @ts-expect-error: tx is required
    void symphony.enqueue(sound)
    // @ts-expect-error: tx is required
    void symphony.enqueueMany([sound], {})
    // @ts-expect-error: the schema of SEPA demands an invoice
    void symphony.enqueue({ ...KEYS, railType: 'SEPA', payload: PAYLOAD }, { tx })
    // @ts-expect-error: an amount is text
    void symphony.enqueue({ ...KEYS, railType: 'momo', payload: { ...PAYLOAD, amount: 12.5 } }, { tx })
    // @ts-expect-error: no rail has this name
    void symphony.enqueue({ ...sound, railType: 'SEPPA' }, { tx })
    // @ts-expect-error: no rail has this name
    void symphony.enqueueMany([sound, { ...sound, railType: 'SEPPA' }], { tx })
  }).toBeFunction()
})

interface Pay {
  amount: string
  currency: string
  destination: string
}

test('a payload may be an interface without index signature, and its fields are checked', () => {
  expectTypeOf((pay: Pay, sepa: SepaPayload, wrong: Omit<Pay, 'amount'> & { amount: number }, at: Date) => {
    const rails = [defineRail({ type: 'momo', onUnknown: 'hold', dispatch: answer }), { type: 'plain' }] as const
    const symphony = new Symphony({ rails: [...rails, { type: 'SEPA', payload: Sepa }] })
    void symphony.enqueue({ ...KEYS, railType: 'momo', payload: pay }, { tx })
    void symphony.enqueueMany([{ ...KEYS, railType: 'plain', payload: pay }], { tx })
    void symphony.enqueue({ ...KEYS, railType: 'SEPA', payload: sepa }, { tx })
    void new Symphony().enqueue({ ...KEYS, railType: 'any', payload: pay }, { tx })
    // @ts-expect-error: an amount is text
    void symphony.enqueue({ ...KEYS, railType: 'momo', payload: wrong }, { tx })
    // @ts-expect-error: the schema of SEPA demands an invoice
    void symphony.enqueue({ ...KEYS, railType: 'SEPA', payload: pay }, { tx })
    // @ts-expect-error: a Date is no JSON
    void symphony.enqueue({ ...KEYS, railType: 'momo', payload: { ...PAYLOAD, at } }, { tx })
    // @ts-expect-error: a Date is no JSON
    void new Symphony().enqueue({ ...KEYS, railType: 'any', payload: { ...PAYLOAD, at } }, { tx })
  }).toBeFunction()
})

test('a Symphony without rails accepts any rail and any JSON object', () => {
  expectTypeOf(() => {
    const symphony = new Symphony()
    void symphony.enqueue({ ...KEYS, railType: 'any', payload: { any: [1, 'json'] } }, { tx })
    // @ts-expect-error: tx is required even without rails
    void symphony.enqueue({ ...KEYS, railType: 'any', payload: {} })
  }).toBeFunction()
})

test('a rail without onUnknown, or with onUnknown inquire but no queryStatus, does not compile', () => {
  expectTypeOf(() => {
    // @ts-expect-error: onUnknown is required
    defineRail({ type: 'bank', dispatch: answer })
    // @ts-expect-error: inquire needs queryStatus
    defineRail({ type: 'bank', onUnknown: 'inquire', dispatch: answer })
    // @ts-expect-error: inquire needs queryStatus
    defineRail({ type: 'bank', payload: Sepa, onUnknown: 'inquire', dispatch: answer })
    defineRail({ type: 'bank', onUnknown: 'hold', dispatch: answer })
    // @ts-expect-error: a success needs the reference of the rail
    defineRail({ type: 'bank', onUnknown: 'hold', dispatch: () => ({ outcome: 'success' }) })
  }).toBeFunction()
})

test('a wrong payload of a message, timer or job, or an unknown topic, does not compile', () => {
  expectTypeOf(() => {
    const symphony = new Symphony({ topics: { report: Report, ping: Ping } })
    const at = { dueAt: new Date() }
    const job = { name: 'evening', cron: '0 18 * * *' }
    void symphony.messages.enqueue({ topic: 'report', payload: { title: 'Settlement' } }, { tx })
    void symphony.scheduler.scheduleTimer({ ...at, topic: 'ping', payload: { count: 1 } })
    void symphony.scheduler.createOrUpdateJob({ ...job, topic: 'report', payload: { title: 'Settlement' } })
    // @ts-expect-error: the payload belongs to another topic
    void symphony.messages.enqueue({ topic: 'report', payload: { count: 1 } })
    // @ts-expect-error: no topic has this name
    void symphony.messages.enqueue({ topic: 'reprot', payload: { title: 'Settlement' } })
    // @ts-expect-error: the payload belongs to another topic
    void symphony.scheduler.scheduleTimer({ ...at, topic: 'ping', payload: { title: 'Settlement' } })
    // @ts-expect-error: no topic has this name
    void symphony.scheduler.scheduleTimer({ ...at, topic: 'pong', payload: { count: 1 } })
    // @ts-expect-error: a title is text
    void symphony.scheduler.createOrUpdateJob({ ...job, topic: 'report', payload: { title: 7 } })
    void symphony.worker({
      topics: { report: ({ payload }) => void payload.title.trim() },
    })
    // @ts-expect-error: no topic has this name
    void symphony.worker({ topics: { reprot: async () => {} } })
  }).toBeFunction()
})

test('a handler of a topic with outcomeSchema gets a PaymentOutcome and a transaction', () => {
  expectTypeOf(() => {
    const symphony = new Symphony({ topics: { orders: outcomeSchema } })
    void symphony.worker({
      handlerRole: 'shop',
      topics: {
        orders: async ({ payload }, context) => {
          expectTypeOf(payload).toEqualTypeOf<PaymentOutcome>()
          await context.tx.query('UPDATE shop.orders SET state = $2 WHERE id = $1', [
            payload.instructionId,
            payload.state,
          ])
          await symphony.messages.enqueue({ topic: 'orders', payload }, { tx: context.tx })
          // @ts-expect-error: no outcome has this state
          if (payload.state === 'PAID') return
          context.signal.throwIfAborted()
        },
      },
    })
    expectTypeOf(webhookRail({ type: 'orders', url: 'https://shop.example', secret: 's' })).toEqualTypeOf<
      Rail<'orders'>
    >()
    // @ts-expect-error: a secret is required
    webhookRail({ type: 'orders', url: 'https://shop.example' })
  }).toBeFunction()
})

test('a Symphony without topics accepts any topic and any JSON object', () => {
  expectTypeOf(() => {
    const symphony = new Symphony({ rails: [{ type: 'SEPA' }] })
    void symphony.messages.enqueue({ topic: 'any', payload: { any: [1, 'json'] } })
    void symphony.scheduler.createOrUpdateJob({ name: 'any', cron: '@daily', topic: 'any', payload: {} })
    // @ts-expect-error: a Date is no JSON
    void symphony.messages.enqueue({ topic: 'any', payload: { at: new Date() } })
  }).toBeFunction()
})

const PROGRAM = `
import { Symphony } from '../../libs/index.js'
declare const tx: { query(text: string, values?: unknown[]): Promise<{ rows: never[] }> }
const symphony = new Symphony({ rails: [{ type: 'SEPA' }, { type: 'momo' }] })
const payload = { amount: '12.50', currency: 'EUR', destination: 'DE89370400440532013000' }
void symphony.enqueue({ railType: 'SEPA', instructionId: 'A', participantId: 'B', payload: { ...payload, amount: 12.5 } }, { tx })
void symphony.enqueue({ railType: 'SEPPA', instructionId: 'A', participantId: 'B', payload }, { tx })
`

test('the compiler names the wrong field, and suggests the correct rail name', async () => {
  const folder = await mkdtemp(join(import.meta.dirname, '../../dist/types-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'program.ts'), PROGRAM)
  await writeFile(
    join(folder, 'tsconfig.json'),
    JSON.stringify({ extends: '../../tsconfig.base.json', compilerOptions: { noEmit: true }, files: ['program.ts'] }),
  )
  const output = await new Promise<string>((resolve) => {
    const tsc = join(import.meta.dirname, '../../node_modules/typescript/bin/tsc')
    execFile(process.execPath, [tsc, '-p', folder, '--singleThreaded'], (_error, stdout) => resolve(stdout))
  })
  const errors = output.split(/\n(?=\S)/).filter((error) => error.trim() !== '')
  expect(errors).toEqual([
    expect.stringMatching(/program\.ts\(6,.*Type 'number' is not assignable to type 'string'\./s),
    expect.stringMatching(
      /program\.ts\(7,.*Type '"SEPPA"' is not assignable to type '"SEPA" \| "momo"'\. Did you mean '"SEPA"'\?/s,
    ),
  ])
})
