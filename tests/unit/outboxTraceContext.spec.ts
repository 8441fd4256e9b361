import { describe, expect, test } from 'vitest'
import { encodeTraceContext } from '../../libs/core/index.js'
import { enqueue, enqueuePaymentOutbox, enqueuePaymentOutboxBatch } from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import { buildInstruction, claimOnly } from '../support/outboxItems.js'
import { createPerson, approve, enqueueFailed, propose } from '../support/outboxPeople.js'

/** Tests that a trace context is stored with its item, returned by claims, and never causes a refusal or a conflict. */

const TRACEPARENT = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
const OTHER = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00'

const db = await useTestDatabase()

const ingest = () => db.as('symphony_ingest')

async function keptOf(outboxId: string): Promise<unknown> {
  const { rows } = await db.queryNoRole(
    `SELECT p.trace_context AS pending, i.traceparent AS identity
     FROM payment_outbox_identities i LEFT JOIN payment_outbox_pending p USING (outbox_id) WHERE outbox_id = $1`,
    [outboxId],
  )
  return rows[0]
}

test('every claim returns the stored trace context', async () => {
  const traceContext = `${TRACEPARENT} vendor=a,other=b c`
  const instruction = buildInstruction({ traceContext })
  const { outboxId } = await enqueuePaymentOutbox(ingest(), instruction)
  expect(await keptOf(outboxId)).toEqual({ pending: traceContext, identity: TRACEPARENT })
  const first = await claimOnly(db, instruction.railType)
  expect(first.traceContext).toBe(traceContext)
  await db.expireLease(outboxId)
  expect(await claimOnly(db, instruction.railType)).toMatchObject({ takenOver: true, traceContext })
})

test('each item of a batch may have a different trace context, or none', async () => {
  const instructions = [TRACEPARENT, undefined, OTHER].map((traceContext) =>
    buildInstruction(traceContext === undefined ? {} : { traceContext }),
  )
  const items = await enqueuePaymentOutboxBatch(ingest(), instructions)
  const kept = await Promise.all(items.map(({ outboxId }) => keptOf(outboxId)))
  expect(kept).toMatchObject([{ pending: TRACEPARENT }, { pending: null }, { pending: OTHER }])
})

test('a repeated enqueue from another trace returns the first item, with its first trace', async () => {
  const instruction = buildInstruction({ traceContext: TRACEPARENT })
  const first = await enqueuePaymentOutbox(ingest(), instruction)
  const again = await enqueue({ ...instruction, traceContext: OTHER }, { tx: ingest() })
  expect(again).toEqual({ ...first, created: false })
  expect(await keptOf(first.outboxId)).toEqual({ pending: TRACEPARENT, identity: TRACEPARENT })
})

test('a redrive keeps the traceparent of its payment, not the tracestate', async () => {
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
  'a line end and another header': `${TRACEPARENT} a=1\r\nSet-Cookie: x`,
  'a tracestate of 513 characters': `${TRACEPARENT} ${'x'.repeat(513)}`,
  'a tracestate beyond ASCII': `${TRACEPARENT} vendor=é`,
  'two spaces': `${TRACEPARENT}  vendor=a`,
  'a trailing space': `${TRACEPARENT} `,
  'a letter behind the traceparent': `${TRACEPARENT}x`,
  'a megabyte': 'x'.repeat(1_000_000),
}

describe('an enqueue with a trace context', () => {
  test.each([...Object.entries(HOSTILE), ['a NUL', `${TRACEPARENT} a=\0`], ['half a surrogate pair', '\ud800']])(
    'drops an invalid context and succeeds through the library: %s',
    async (_what, traceContext) => {
      const item = await enqueuePaymentOutbox(ingest(), buildInstruction({ traceContext }))
      expect(item.created).toBe(true)
      expect(await keptOf(item.outboxId)).toEqual({ pending: null, identity: null })
    },
  )

  test.each(Object.entries(HOSTILE))(
    'drops an invalid context and succeeds through the SQL function: %s',
    async (_what, traceContext) => {
      const { instructionId, participantId, railType } = buildInstruction()
      const { rows } = await ingest().query<{ outbox_id: string }>(
        `SELECT outbox_id FROM ${db.qualify('enqueue_payment_outbox')}($1, $2, 'k', $3, '{}', p_trace_context => $4)`,
        [instructionId, participantId, railType, traceContext],
      )
      expect(await keptOf(rows[0]!.outbox_id)).toEqual({ pending: null, identity: null })
    },
  )

  test('keeps a valid context of the maximum length', async () => {
    const longest = `${TRACEPARENT} ${'x'.repeat(512)}`
    expect(encodeTraceContext(TRACEPARENT, 'x'.repeat(512))).toBe(longest)
    const { outboxId } = await enqueuePaymentOutbox(ingest(), buildInstruction({ traceContext: longest }))
    expect(await keptOf(outboxId)).toEqual({ pending: longest, identity: TRACEPARENT })
  })
})

test('encodeTraceContext drops an invalid tracestate; an invalid traceparent gives undefined', () => {
  for (const tracestate of ['x'.repeat(513), 'vendor=é', 'a\r\nb', '', 7, undefined, ['a=1', 'b=2']]) {
    expect(encodeTraceContext(TRACEPARENT, tracestate)).toBe(TRACEPARENT)
  }
  for (const traceparent of [undefined, 7, ['a', 'b'], 'bank-1']) {
    expect(encodeTraceContext(traceparent, 'vendor=a')).toBeUndefined()
  }
})
