import { SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import type { ReadableSpan } from '@opentelemetry/sdk-trace-base'
import { describe, expect, onTestFinished, test } from 'vitest'
import { enqueue, OutboxRelayer } from '../../libs/outbox/index.js'
import { httpRail, loadRails, type LoadedRail } from '../../libs/rails/index.js'
import { useTestDatabase } from '../support/database.js'
import { bodyOf, openHttpFixture } from '../support/httpFixture.js'
import { buildInstruction, ledger } from '../support/outboxItems.js'
import { answerJson, startRailServer, type RailServer, type Respond } from '../support/railServer.js'
import { startTracing, type Tracing } from '../support/tracing.js'

const TRACE_ID = '4bf92f3577b34da6a3ce929d0e0e4736'
const CALLER = `00-${TRACE_ID}-00f067aa0ba902b7-01`

const db = await useTestDatabase()

/** Creates an HTTP rail with a real server behind it. */
async function createRail(respond: Respond): Promise<{ server: RailServer; rails: ReadonlyMap<string, LoadedRail> }> {
  const server = await startRailServer(respond)
  const rails = loadRails([
    httpRail({
      type: `rail-${server.url.split(':').at(-1)}`,
      onUnknown: 'resend',
      money: false,
      http: { url: server.url },
    }),
  ])
  onTestFinished(async () => {
    for (const rail of rails.values()) await rail.close()
    await server.close()
  })
  return { server, rails }
}

const busyTwice = (): Respond => {
  let calls = 0
  return (_, response) => {
    calls += 1
    if (calls < 3) answerJson(response, 503, { code: 'BUSY' })
    else answerJson(response, 200, { reference: 'paid' })
  }
}

/** Runs three rounds, with the item made due before each. */
async function dispatchThreeTimes(rails: ReadonlyMap<string, LoadedRail>, outboxId: string): Promise<void> {
  const relayer = new OutboxRelayer(db.database, rails, { workerId: 'w' })
  for (let round = 1; round <= 3; round += 1) {
    await relayer.runOnce()
    if (round < 3) await db.makeDue(outboxId)
  }
  expect(await ledger(db, outboxId)).toEqual(['1 RETRYABLE', '2 RETRYABLE', '3 DISPATCHED'])
}

function tracing(): Tracing {
  const started = startTracing()
  onTestFinished(() => started.stop())
  return started
}

/** Parses the traceparent header that the rail received. */
function spanIn(traceparent: string | string[] | undefined): { traceId: string; spanId: string } {
  const [, traceId = '', spanId = ''] = String(traceparent).split('-')
  return { traceId, spanId }
}

const idsOf = (span: ReadableSpan) => ({ traceId: span.spanContext().traceId, spanId: span.spanContext().spanId })

describe('tracing with an SDK', () => {
  test('continues the trace of the HTTP request in all three calls to the rail', async () => {
    const { spans } = tracing()
    const fixture = await openHttpFixture(db)
    onTestFinished(() => fixture.close())
    const { server, rails } = await createRail(busyTwice())
    const [railType = ''] = rails.keys()
    const { instructionId, participantId } = buildInstruction()
    const accepted = await fixture.call('/v1/instructions', {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'idempotency-key': instructionId,
        traceparent: CALLER,
        tracestate: 'vendor=a',
      },
      body: JSON.stringify({ instructionId, participantId, railType, payload: {} }),
    })
    expect(accepted.status).toBe(201)
    const outboxId = String((await bodyOf(accepted))['outboxId'])
    await dispatchThreeTimes(rails, outboxId)

    const attempts = spans().filter(({ name }) => name === `dispatch ${railType}`)
    expect(attempts.map(({ kind }) => kind)).toEqual([SpanKind.CLIENT, SpanKind.CLIENT, SpanKind.CLIENT])
    // Each attempt is a child of the caller's span, and each rail call sends its own span id.
    expect(attempts.map(({ parentSpanContext }) => parentSpanContext)).toMatchObject(
      [1, 2, 3].map(() => ({ traceId: TRACE_ID, spanId: '00f067aa0ba902b7', isRemote: true })),
    )
    expect(server.received.map(({ headers }) => spanIn(headers['traceparent']))).toEqual(attempts.map(idsOf))
    expect(new Set(attempts.map((span) => span.spanContext().spanId)).size).toBe(3)
    expect(attempts.every((span) => span.spanContext().traceId === TRACE_ID)).toBe(true)
    expect(server.received.map(({ headers }) => headers['tracestate'])).toEqual(['vendor=a', 'vendor=a', 'vendor=a'])
    // Each attempt has a link to the span of the previous attempt.
    expect(attempts.map(({ links }) => links.map(({ context }) => context.spanId))).toEqual([
      [],
      [attempts[0]!.spanContext().spanId],
      [attempts[1]!.spanContext().spanId],
    ])
    expect(attempts.map(({ attributes, status }) => [attributes, status.code])).toEqual([
      [aboutAttempt(outboxId, railType, 1, 'RETRYABLE'), SpanStatusCode.ERROR],
      [aboutAttempt(outboxId, railType, 2, 'RETRYABLE'), SpanStatusCode.ERROR],
      [aboutAttempt(outboxId, railType, 3, 'DISPATCHED'), SpanStatusCode.UNSET],
    ])
  })

  test('makes an attempt the child of the span around enqueue, and the parent of spans in the rail', async () => {
    const { spans } = tracing()
    const { rails } = await createRail((_, response) => answerJson(response, 200, { reference: 'paid' }))
    const [railType = ''] = rails.keys()
    const tracer = trace.getTracer('application')
    const parent = await tracer.startActiveSpan('checkout', async (span) => {
      await enqueue(buildInstruction({ railType }), { tx: db.as('symphony_ingest') })
      span.end()
      return span.spanContext()
    })
    const inner = new Map(
      [...rails].map(([name, rail]) => [
        name,
        {
          ...rail,
          dispatch: async (...given: Parameters<LoadedRail['dispatch']>) => {
            tracer.startSpan('signing').end()
            return rail.dispatch(...given)
          },
        },
      ]),
    )
    expect(await new OutboxRelayer(db.database, inner, {}).runOnce()).toMatchObject({ dispatched: 1 })
    const attempt = spans().find(({ name }) => name === `dispatch ${railType}`)!
    expect(attempt.parentSpanContext).toMatchObject({ traceId: parent.traceId, spanId: parent.spanId })
    const signing = spans().find(({ name }) => name === 'signing')!
    expect(signing.parentSpanContext).toMatchObject(idsOf(attempt))
  })

  test('starts a trace for an item without a trace context, and puts no payload into spans', async () => {
    const { spans } = tracing()
    const { rails } = await createRail((_, response) =>
      answerJson(response, 400, { code: 'CLOSED', message: 'CANARY7' }),
    )
    const [railType = ''] = rails.keys()
    const instruction = buildInstruction({ railType, payload: { secret: 'CANARY7' } })
    const { outboxId } = await enqueue(instruction, { tx: db.as('symphony_ingest') })
    await new OutboxRelayer(db.database, rails, { workerId: 'w' }).runOnce()
    expect(await ledger(db, outboxId)).toEqual(['1 FAILED'])
    const attempt = spans().find(({ name }) => name === `dispatch ${railType}`)!
    expect(attempt.parentSpanContext).toBeUndefined()
    const { attributes, status, events, name } = attempt
    expect(attributes).toMatchObject({ 'symphony.outcome': 'FAILED', 'symphony.rail_code': 'CLOSED' })
    expect(JSON.stringify({ attributes, status, events, name })).not.toContain('CANARY7')
  })
})

describe('tracing without an SDK', () => {
  test('sends the stored trace context to the rail on every attempt', async () => {
    const { server, rails } = await createRail(busyTwice())
    const [railType = ''] = rails.keys()
    const instruction = buildInstruction({ railType, traceContext: `${CALLER} vendor=a` })
    const { outboxId } = await enqueue(instruction, { tx: db.as('symphony_ingest') })
    await dispatchThreeTimes(rails, outboxId)
    expect(server.received.map(({ headers }) => [headers['traceparent'], headers['tracestate']])).toEqual(
      [1, 2, 3].map(() => [CALLER, 'vendor=a']),
    )
  })

  test('sends no trace header if no trace context was stored', async () => {
    const { server, rails } = await createRail((_, response) => answerJson(response, 200, { reference: 'paid' }))
    const [railType = ''] = rails.keys()
    await enqueue(buildInstruction({ railType }), { tx: db.as('symphony_ingest') })
    await new OutboxRelayer(db.database, rails, {}).runOnce()
    expect(server.received).toHaveLength(1)
    expect(server.received[0]!.headers).not.toHaveProperty('traceparent')
    expect(server.received[0]!.headers).not.toHaveProperty('tracestate')
  })
})

test.each([
  ['no traceparent', {}],
  ['an invalid traceparent', { traceparent: 'ff-nothing-at-all' }],
  ['a traceparent of 8,000 characters', { traceparent: 'x'.repeat(8_000) }],
])('a request with %s gets 201 and stores no trace context', async (_what, headers) => {
  const fixture = await openHttpFixture(db)
  onTestFinished(() => fixture.close())
  const { instructionId, participantId, railType } = buildInstruction()
  const response = await fixture.call('/v1/instructions', {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': instructionId, ...headers },
    body: JSON.stringify({ instructionId, participantId, railType, payload: {} }),
  })
  expect(response.status).toBe(201)
  const { rows } = await db.queryNoRole('SELECT trace_context FROM payment_outbox_pending WHERE instruction_id = $1', [
    instructionId,
  ])
  expect(rows).toEqual([{ trace_context: null }])
})

function aboutAttempt(outboxId: string, rail: string, attempt: number, outcome: string): Record<string, unknown> {
  return {
    'symphony.outbox_id': outboxId,
    'symphony.rail': rail,
    'symphony.attempt': attempt,
    'symphony.worker_id': 'w',
    'symphony.outcome': outcome,
    ...(outcome === 'RETRYABLE' ? { 'symphony.rail_code': 'BUSY', 'symphony.outcome_unknown': true } : {}),
  }
}
