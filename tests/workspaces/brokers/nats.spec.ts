import {
  jetstream,
  jetstreamManager,
  type JetStreamClient,
  type JetStreamManager,
  type StreamConfig,
} from '@nats-io/jetstream'
import { connect, headers, type NatsConnection } from '@nats-io/transport-node'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { natsRail, type NatsOptions } from '../../../libs/brokers/index.js'
import { callRail, inquireRail, loadRail, runRailContract, type LoadedRail } from '../../../libs/rails/index.js'
import { PAYABLE, railRequest } from '../../support/railRequest.js'
import { BrokerFixture } from './support/BrokerFixture.js'
import { createReference } from './support/createReference.js'
import { pasteProgram } from './support/pasteProgram.js'
import { startNats, type NatsServer } from './support/startNats.js'

let server: NatsServer
let connection: NatsConnection
let js: JetStreamClient
let manager: JetStreamManager
beforeAll(async () => {
  server = await startNats()
  connection = await connect({ servers: server.url, maxReconnectAttempts: -1, reconnectTimeWait: 50 })
  js = jetstream(connection)
  manager = await jetstreamManager(connection)
})
afterAll(async () => {
  await connection.close()
  await server.remove()
})

/** Adds a stream for one test. */
async function addStream(config: Partial<StreamConfig> = {}): Promise<{ stream: string; subject: string }> {
  const unique = randomUUID()
  const place = { stream: `payments-${unique}`, subject: `payments.${unique}` }
  await manager.streams.add({ name: place.stream, subjects: [`${place.subject}.*`], ...config })
  return place
}

function railAt(nats: Partial<NatsOptions> & { stream: string; subject: string }, declared: object = {}): LoadedRail {
  const options = { jetstream: js, headers, clocksApartMs: 0, ...nats }
  return loadRail(natsRail({ type: 'nats', onUnknown: 'inquire', timeoutMs: 5_000, ...declared, nats: options }))
}

/** Builds a request with a fresh UUIDv7, so that its payment is younger than the stream. */
const request = (reference = createReference()) => railRequest({ reference })

async function storedUnder(stream: string, subject: string): Promise<number> {
  const { state } = await manager.streams.info(stream, { subjects_filter: subject })
  return state.subjects?.[subject] ?? 0
}

/** Returns the positions of each message id in the stream. */
async function idsIn(stream: string): Promise<Map<string, string[]>> {
  const { state } = await manager.streams.info(stream)
  const found = new Map<string, string[]>()
  for (let seq = state.first_seq; seq <= state.last_seq && state.messages > 0; seq++) {
    const message = await manager.streams.getMessage(stream, { seq })
    const id = message?.header.get('Nats-Msg-Id') ?? 'none'
    found.set(id, [...(found.get(id) ?? []), `${stream}:${seq}`])
  }
  return found
}

/** Resolves when the client reports that the server is gone. */
async function untilDisconnected(): Promise<void> {
  for await (const { type } of connection.status()) if (type === 'disconnect') return
}

test('natsRail passes the rail contract', async () => {
  const place = await addStream()
  const rail = natsRail({
    type: 'nats',
    onUnknown: 'inquire',
    nats: { jetstream: js, headers, clocksApartMs: 0, ...place },
  })
  const effectsOf = (reference: string) => storedUnder(place.stream, `${place.subject}.${reference}`)
  const results = await runRailContract(rail, { payload: PAYABLE, effectsOf })
  const notChecked = results.filter(({ skipped }) => skipped === true).map(({ rule }) => rule)
  expect(notChecked).toEqual([
    'sending again under the same reference pays nothing more',
    'a refusal is terminal, and pays nothing',
    'the text of a refusal holds no account, card or credential',
    'the list of payments has a payment once, with our reference and amount',
    'the sample payload has an account',
  ])
})

test('a NATS message contains the request, the outbox id and the trace context', async () => {
  const place = await addStream()
  const sent = { ...request(), traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`, tracestate: 'x=1' }
  expect(await callRail(railAt(place), sent)).toMatchObject({ kind: 'success', reference: `${place.stream}:1` })
  const stored = await manager.streams.getMessage(place.stream, { seq: 1 })
  expect(stored?.subject).toBe(`${place.subject}.${sent.reference}`)
  expect(stored?.json()).toEqual({
    reference: sent.reference,
    instructionId: sent.instructionId,
    participantId: sent.participantId,
    sequenceId: '9007199254740993',
    idempotencyKey: sent.idempotencyKey,
    payload: PAYABLE,
  })
  expect(stored?.header.get('Nats-Msg-Id')).toBe(sent.reference)
  expect(stored?.header.get('traceparent')).toBe(sent.traceparent)
  expect(stored?.header.get('tracestate')).toBe('x=1')
})

test('a payment sent again within the duplicate window is stored once', async () => {
  const place = await addStream()
  const rail = railAt(place)
  const repeated = request()
  expect(await callRail(rail, repeated)).toMatchObject({ kind: 'success', reference: `${place.stream}:1` })
  expect(await callRail(rail, repeated)).toMatchObject({ kind: 'success', reference: `${place.stream}:1` })
  expect(await idsIn(place.stream)).toEqual(new Map([[repeated.reference, [`${place.stream}:1`]]]))
})

test('a payment sent again after the duplicate window is still stored once', async () => {
  const place = await addStream({ duplicate_window: 100_000_000 })
  const rail = railAt(place)
  const repeated = request()
  await callRail(rail, repeated)
  // The duplicate window has passed when the server stores a second message under a known id.
  await expect
    .poll(async () => (await js.publish(`${place.subject}.probe`, '', { msgID: 'probe' })).seq)
    .toBeGreaterThan(2)
  const before = await storedUnder(place.stream, `${place.subject}.${repeated.reference}`)
  expect(await callRail(rail, repeated)).toMatchObject({ kind: 'success', reference: `${place.stream}:1` })
  expect([before, await storedUnder(place.stream, `${place.subject}.${repeated.reference}`)]).toEqual([1, 1])
})

describe('a publish that cannot have happened', () => {
  test.for([
    ['no stream has that name', { stream: 'nowhere' }, {}],
    ['the stream is a work queue', {}, { retention: 'workqueue' }],
    ['the stream acknowledges nothing', {}, { no_ack: true }],
  ] as const)('is notSent if %s', async ([, nats, config]) => {
    const place = await addStream(config)
    expect(await callRail(railAt({ ...place, ...nats }), request())).toMatchObject({ kind: 'notSent' })
    expect((await manager.streams.info(place.stream)).state.messages).toBe(0)
  })

  test('is notSent if no stream has the subject', async () => {
    const { stream } = await addStream()
    expect(await callRail(railAt({ stream, subject: `lost.${randomUUID()}` }), request())).toMatchObject({
      kind: 'notSent',
    })
  })

  test('is retryable if the subject belongs to another stream (NATS_10060)', async () => {
    const { stream } = await addStream()
    const other = await addStream()
    const verdict = await callRail(railAt({ stream, subject: other.subject }), request())
    expect(verdict).toMatchObject({ kind: 'retryable', code: 'NATS_10060' })
    expect((await manager.streams.info(other.stream)).state.messages).toBe(0)
  })

  test('is terminal if too large for the stream (NATS_10054), notSent if too large for the server', async () => {
    const place = await addStream({ max_msg_size: 1_000 })
    const rail = railAt({ ...place, body: () => 'x'.repeat(2_000) })
    expect(await callRail(rail, request())).toMatchObject({ kind: 'terminal', code: 'NATS_10054' })
    const huge = railAt({ ...place, body: () => 'x'.repeat(2_000_000) })
    expect(await callRail(huge, request())).toMatchObject({ kind: 'notSent' })
  })

  test('is retryable if the stream is sealed (NATS_10109)', async () => {
    const place = await addStream()
    const { config } = await manager.streams.info(place.stream)
    await manager.streams.update(place.stream, Object.assign(config, { sealed: true }))
    expect(await callRail(railAt(place), request())).toMatchObject({ kind: 'retryable', code: 'NATS_10109' })
  })

  test('is notSent if the connection is closed', async () => {
    const place = await addStream()
    const ending = await connect({ servers: server.url })
    const rail = railAt({ ...place, jetstream: jetstream(ending) }, { onUnknown: 'hold' })
    await ending.close()
    expect(await callRail(rail, request())).toMatchObject({ kind: 'notSent' })
  })
})

test('a refusal by a full stream is unknown, and an inquiry finds the message absent', async () => {
  const place = await addStream({ max_msgs: 1, discard: 'new' })
  const rail = railAt(place)
  expect(await callRail(rail, request())).toMatchObject({ kind: 'success' })
  const refused = request()
  expect(await callRail(rail, refused)).toMatchObject({ kind: 'unknown' })
  expect(await inquireRail(rail, refused)).toMatchObject({ kind: 'absent' })
})

describe('an inquiry to a stream that may have lost messages', () => {
  test('is unknown after a purge (NATS_STREAM_FORGETS)', async () => {
    const place = await addStream()
    const rail = railAt(place)
    const published = request()
    await callRail(rail, published)
    await manager.streams.purge(place.stream)
    expect(await inquireRail(rail, published)).toMatchObject({ kind: 'unknown', code: 'NATS_STREAM_FORGETS' })
  })

  test('is unknown after a message was deleted (NATS_STREAM_FORGETS)', async () => {
    const place = await addStream()
    const rail = railAt(place)
    const published = request()
    await callRail(rail, published)
    await callRail(rail, request())
    await manager.streams.deleteMessage(place.stream, 1)
    expect(await inquireRail(rail, published)).toMatchObject({ kind: 'unknown', code: 'NATS_STREAM_FORGETS' })
  })

  test('is unknown if the stream is younger than the payment (NATS_STREAM_FORGETS)', async () => {
    const place = await addStream()
    const older = request()
    await callRail(railAt(place), older)
    await manager.streams.delete(place.stream)
    await manager.streams.add({ name: place.stream, subjects: [`${place.subject}.*`] })
    expect(await inquireRail(railAt(place), older)).toMatchObject({ kind: 'unknown', code: 'NATS_STREAM_FORGETS' })
    expect(await inquireRail(railAt(place), request())).toMatchObject({ kind: 'absent' })
  })

  test('is unknown for a message that the stream dropped, and absent for a younger payment', async () => {
    const place = await addStream({ max_msgs: 1, discard: 'old' })
    const rail = railAt(place)
    const dropped = request()
    await callRail(rail, dropped)
    await callRail(rail, request())
    expect(await inquireRail(rail, dropped)).toMatchObject({ kind: 'unknown', code: 'NATS_STREAM_FORGETS' })
    expect(await inquireRail(rail, request())).toMatchObject({ kind: 'absent' })
  })
})

test('a publish to a frozen server times out as unknown, and is stored once afterwards', async () => {
  const place = await addStream()
  const rail = railAt(place, { timeoutMs: 300 })
  await callRail(rail, request())
  const late = request()
  server.broker.freeze()
  onTestFinished(() => server.broker.resume())
  expect(await callRail(rail, late)).toMatchObject({ kind: 'unknown', code: 'RAIL_TIMEOUT' })
  // The server cannot answer, so only the signal can end the call of the adapter.
  await expect(async () => rail.dispatch(late, { signal: AbortSignal.timeout(10) })).rejects.toThrow(
    'aborted before the broker confirmed the message',
  )
  server.broker.resume()
  await expect.poll(async () => (await inquireRail(rail, late)).kind).toBe('success')
  expect(await callRail(rail, late)).toMatchObject({ kind: 'success', reference: `${place.stream}:2` })
  expect(await storedUnder(place.stream, `${place.subject}.${late.reference}`)).toBe(1)
})

test('two workers publish one payment to a frozen server, which stores it once when it resumes', async () => {
  const place = await addStream()
  const other = await connect({ servers: server.url })
  onTestFinished(() => other.close())
  const rails = [
    railAt(place, { timeoutMs: 300 }),
    railAt({ ...place, jetstream: jetstream(other) }, { timeoutMs: 300 }),
  ]
  for (const rail of rails) await callRail(rail, request())
  const late = request()
  server.broker.freeze()
  onTestFinished(() => server.broker.resume())
  for (const rail of rails) expect(await callRail(rail, late)).toMatchObject({ kind: 'unknown' })
  server.broker.resume()
  // The server answers each connection in order. After a flush, it has handled all earlier messages of the connection.
  await Promise.all([connection.flush(), other.flush()])
  await expect.poll(() => storedUnder(place.stream, `${place.subject}.${late.reference}`)).toBe(1)
  expect((await manager.streams.info(place.stream)).state.messages).toBe(3)
})

test('a publish during a reconnect is unknown, and is stored once when the server is back', async () => {
  const place = await addStream({ duplicate_window: 100_000_000 })
  const rail = railAt(place, { timeoutMs: 300 })
  await callRail(rail, request())
  const disconnected = untilDisconnected()
  await server.broker.kill()
  await disconnected
  const meanwhile = request()
  expect(await callRail(rail, meanwhile)).toMatchObject({ kind: 'unknown' })
  await server.broker.start()
  await expect.poll(async () => (await inquireRail(rail, meanwhile)).kind).toMatch(/^(?:absent|success)$/)
  await expect.poll(async () => (await callRail(rail, meanwhile)).kind).toBe('success')
  expect(await storedUnder(place.stream, `${place.subject}.${meanwhile.reference}`)).toBe(1)
})

test('a worker killed between publish and completion leaves one message per payment', async () => {
  const place = await addStream()
  const fixture = await BrokerFixture.set('nats', {
    NATS_URL: server.url,
    NATS_STREAM: place.stream,
    NATS_SUBJECT: place.subject,
  })
  const ids = await fixture.killWorkerWhileFlowing(async () => {
    // The killed worker must have published items that it did not complete.
    expect((await idsIn(place.stream)).size).toBeGreaterThan(await fixture.ended())
  })
  const published = await idsIn(place.stream)
  expect(new Set(published.keys())).toEqual(new Set(ids))
  const references = new Map([...published].map(([id, places]) => [id, places.join(' and ')]))
  expect(await fixture.dispatched()).toEqual(references)
})

test('a NATS server killed under load loses no message: one message per payment', async () => {
  const place = await addStream()
  const fixture = await BrokerFixture.set('nats', {
    NATS_URL: server.url,
    NATS_STREAM: place.stream,
    NATS_SUBJECT: place.subject,
  })
  const ids = await fixture.killWhileFlowing(server.broker)
  const published = await idsIn(place.stream)
  const references = new Map([...published].map(([id, places]) => [id, places.join(' and ')]))
  expect(await fixture.dispatched()).toEqual(references)
  expect(new Set(references.keys())).toEqual(new Set(ids))
})

test('the NATS program of brokers.md runs when pasted and prints its documented output', async () => {
  const { printed, promised } = await pasteProgram('stream.mjs', { NATS_URL: server.url })
  expect(printed).toBe(promised)
})
