import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { encodeTraceContext } from '../../libs/core/index.js'
import { enqueue, enqueuePaymentOutbox, enqueuePaymentOutboxBatch } from '../../libs/outbox/index.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { buildInstruction, claimOnly } from '../support/outboxItems.js'
import { createPerson, approve, enqueueFailed, propose } from '../support/outboxPeople.js'

/** Kept with an instruction, handed to whoever claims it, and never a reason to refuse or to tell apart. */

const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
const OTHER = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00'

let db: TestDatabase
beforeAll(async () => {
  db = await createTestDatabase()
})
afterAll(() => db.drop())

const ingest = () => db.as('symphony_ingest')

async function keptOf(outboxId: string): Promise<unknown> {
  const { rows } = await db.queryNoRole(
    `SELECT p.trace_context AS pending, i.traceparent AS identity
     FROM payment_outbox_identities i LEFT JOIN payment_outbox_pending p USING (outbox_id) WHERE outbox_id = $1`,
    [outboxId],
  )
  return rows[0]
}

test('what is kept is what every claim of the item is told', async () => {
  const traceContext = `${TRACEPARENT} vendor=a,other=b c`
  const instruction = buildInstruction({ traceContext })
  const { outboxId } = await enqueuePaymentOutbox(ingest(), instruction)
  expect(await keptOf(outboxId)).toEqual({ pending: traceContext, identity: TRACEPARENT })
  const first = await claimOnly(db, instruction.railType)
  expect(first.traceContext).toBe(traceContext)
  await db.expireLease(outboxId)
  expect(await claimOnly(db, instruction.railType)).toMatchObject({ takenOver: true, traceContext })
})

test('each item of a batch has its own, or none', async () => {
  const instructions = [TRACEPARENT, undefined, OTHER].map((traceContext) =>
    buildInstruction(traceContext === undefined ? {} : { traceContext }),
  )
  const items = await enqueuePaymentOutboxBatch(ingest(), instructions)
  const kept = await Promise.all(items.map(({ outboxId }) => keptOf(outboxId)))
  expect(kept).toMatchObject([{ pending: TRACEPARENT }, { pending: null }, { pending: OTHER }])
})

test('the same again from another trace is the same, and keeps its first trace', async () => {
  const instruction = buildInstruction({ traceContext: TRACEPARENT })
  const first = await enqueuePaymentOutbox(ingest(), instruction)
  const again = await enqueue({ ...instruction, traceContext: OTHER }, { tx: ingest() })
  expect(again).toEqual({ ...first, created: false })
  expect(await keptOf(first.outboxId)).toEqual({ pending: TRACEPARENT, identity: TRACEPARENT })
})

test('a redrive goes on in the trace of the payment it sends again', async () => {
  const ann = await createPerson(db, 'ann')
  const bob = await createPerson(db, 'bob')
  const failed = await enqueueFailed(db, { traceContext: `${TRACEPARENT} vendor=a` })
  const { redrivenAs } = await approve(bob, await propose(ann, failed.outboxId, 'REDRIVE'))
  expect(await keptOf(redrivenAs!)).toEqual({ pending: TRACEPARENT, identity: TRACEPARENT })
})

const HOSTILE: Readonly<Record<string, string>> = {
  nothing: '',
  'no traceparent': 'bank-1',
  'another version': `01${TRACEPARENT.slice(2)}`,
  'capital letters': TRACEPARENT.toUpperCase(),
  'a trace of zeros': `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`,
  'a span of zeros': `00-4bf92f3577b34da6a3ce929d0e0e4736-${'0'.repeat(16)}-01`,
  'a header of its own': `${TRACEPARENT} a=1\r\nSet-Cookie: x`,
  'a tracestate of 513 characters': `${TRACEPARENT} ${'x'.repeat(513)}`,
  'a tracestate beyond ASCII': `${TRACEPARENT} vendor=é`,
  'two spaces': `${TRACEPARENT}  vendor=a`,
  'a space and nothing': `${TRACEPARENT} `,
  'what follows at once': `${TRACEPARENT}x`,
  'a megabyte': 'x'.repeat(1_000_000),
}

describe('what is no trace context is dropped and the payment taken', () => {
  test.each([...Object.entries(HOSTILE), ['a NUL', `${TRACEPARENT} a=\0`], ['half a surrogate pair', '\ud800']])(
    '%s, through the library',
    async (_what, traceContext) => {
      const item = await enqueuePaymentOutbox(ingest(), buildInstruction({ traceContext }))
      expect(item.created).toBe(true)
      expect(await keptOf(item.outboxId)).toEqual({ pending: null, identity: null })
    },
  )

  test.each(Object.entries(HOSTILE))('%s, through the SQL function itself', async (_what, traceContext) => {
    const { instructionId, participantId, railType } = buildInstruction()
    const { rows } = await ingest().query<{ outbox_id: string }>(
      `SELECT outbox_id FROM ${db.qualify('enqueue_payment_outbox')}($1, $2, 'k', $3, '{}', p_trace_context => $4)`,
      [instructionId, participantId, railType, traceContext],
    )
    expect(await keptOf(rows[0]!.outbox_id)).toEqual({ pending: null, identity: null })
  })

  test('the longest that is one is kept, on both sides', async () => {
    const longest = `${TRACEPARENT} ${'x'.repeat(512)}`
    expect(encodeTraceContext(TRACEPARENT, 'x'.repeat(512))).toBe(longest)
    const { outboxId } = await enqueuePaymentOutbox(ingest(), buildInstruction({ traceContext: longest }))
    expect(await keptOf(outboxId)).toEqual({ pending: longest, identity: TRACEPARENT })
  })
})

test('a tracestate that cannot be kept takes nothing away from the trace', () => {
  for (const tracestate of ['x'.repeat(513), 'vendor=é', 'a\r\nb', '', 7, undefined, ['a=1', 'b=2']]) {
    expect(encodeTraceContext(TRACEPARENT, tracestate)).toBe(TRACEPARENT)
  }
  for (const traceparent of [undefined, 7, ['a', 'b'], 'bank-1']) {
    expect(encodeTraceContext(traceparent, 'vendor=a')).toBeUndefined()
  }
})
