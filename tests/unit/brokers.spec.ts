import { describe, expect, test } from 'vitest'
import {
  kafkaRail,
  natsRail,
  rabbitRail,
  type KafkaRecord,
  type NatsJetStream,
  type NatsStreamInfo,
} from '../../libs/brokers/index.js'
import { findStreamProblem, retainsEverythingSince, timeOfReference } from '../../libs/brokers/natsStream.js'
import { callRail, loadRail, type Rail } from '../../libs/rails/index.js'
import { railRequest } from '../support/railRequest.js'

/**
 * Tests that need no broker: declarations, and failures before anything is sent. `npm run brokers` tests with real
 * brokers.
 */

type Declare = (broker: object, declared?: object) => Rail

const jetstream: NatsJetStream = {
  publish: () => Promise.reject(new Error('it was published')),
  jetstreamManager: () => Promise.reject(new Error('it was asked')),
}
const producer = { send: () => Promise.reject(new Error('it was published')) }
const connect = () => Promise.reject(new Error('it was connected'))

// Returns an untyped declaration, as a JavaScript file would pass it.
const untyped = (given: object) => Object.assign(JSON.parse('{}'), given)

const nats: Declare = (broker, declared = {}) =>
  natsRail(
    untyped({
      type: 'x',
      onUnknown: 'inquire',
      ...declared,
      nats: { jetstream, stream: 'S', subject: 's', ...broker },
    }),
  )
const rabbit: Declare = (broker, declared = { onUnknown: 'resend', consumersDeduplicate: true }) =>
  rabbitRail(untyped({ type: 'x', ...declared, rabbit: { connect, exchange: 'e', ...broker } }))
const kafka: Declare = (broker, declared = { onUnknown: 'resend', consumersDeduplicate: true }) =>
  kafkaRail(untyped({ type: 'x', ...declared, kafka: { producer, topic: 't', ...broker } }))

describe('a declaration of a broker rail', () => {
  test.for<[string, () => Rail]>([
    ['NATS', () => nats({})],
    ['NATS with onUnknown hold', () => nats({}, { onUnknown: 'hold' })],
    ['a subject of many tokens', () => nats({ subject: 'payments.sepa.eu-1' })],
    ['a clocksApartMs of 0', () => nats({ clocksApartMs: 0 })],
    ['RabbitMQ', () => rabbit({})],
    ['RabbitMQ with onUnknown hold', () => rabbit({}, { onUnknown: 'hold' })],
    ['the default exchange', () => rabbit({ exchange: '' })],
    ['a routing key of 255 bytes', () => rabbit({ routingKey: 'é'.repeat(127) + 'x' })],
    ['Kafka', () => kafka({})],
    ['Kafka with onUnknown hold', () => kafka({}, { onUnknown: 'hold' })],
    ['a topic of 249 characters', () => kafka({ topic: 't'.repeat(249) })],
  ])('is accepted and loads: %s', ([, declare]) => {
    expect(() => loadRail(declare())).not.toThrow()
  })

  test.for<[string, () => Rail, string]>([
    ['no type', () => nats({}, { type: undefined }), 'type: expected text'],
    [
      'no options',
      () => natsRail(untyped({ type: 'x', onUnknown: 'inquire' })),
      'nats: expected an object with jetstream',
    ],
    ['a client that cannot publish', () => nats({ jetstream: {} }), 'nats.jetstream: expected a client with publish()'],
    ['no client', () => nats({ jetstream: null }), 'nats.jetstream: expected a client with publish()'],
    ['a stream with a dot', () => nats({ stream: 'a.b' }), 'nats.stream: expected a name without dots'],
    ['a stream that is a path', () => nats({ stream: '../x' }), 'nats.stream: expected a name without dots'],
    ['a subject with a wildcard', () => nats({ subject: 'a.*' }), 'nats.subject: expected tokens joined by dots'],
    ['a subject that matches everything', () => nats({ subject: '>' }), 'nats.subject: expected tokens joined by dots'],
    ['a subject that ends in a dot', () => nats({ subject: 'a.' }), 'nats.subject: expected tokens joined by dots'],
    ['a subject with a space', () => nats({ subject: 'a b' }), 'nats.subject: expected tokens joined by dots'],
    ['a subject with a line feed', () => nats({ subject: 'a\r\nPUB' }), 'nats.subject: expected tokens joined by dots'],
    ['no subject', () => nats({ subject: undefined }), 'nats.subject: expected text'],
    ['headers that are no function', () => nats({ headers: {} }), 'nats.headers: expected the function'],
    ['a clocksApartMs of more than an hour', () => nats({ clocksApartMs: 3_600_001 }), 'nats.clocksApartMs: expected'],
    ['NATS with onUnknown resend', () => nats({}, { onUnknown: 'resend' }), 'onUnknown: expected "inquire" or "hold"'],
    ['NATS without a policy', () => nats({}, { onUnknown: undefined }), 'onUnknown: expected "inquire" or "hold"'],
    ['a field misspelt', () => nats({ subjekt: 's' }), 'nats."subjekt": unknown; did you mean subject?'],
    ['a body that is no function', () => nats({ body: 'x' }), 'nats.body: expected a function'],
    ['RabbitMQ without a connect function', () => rabbit({ connect: {} }), 'rabbit.connect: expected a function'],
    ['an exchange that is no text', () => rabbit({ exchange: 7 }), 'rabbit.exchange: expected text, got number'],
    [
      'a routing key of 256 bytes',
      () => rabbit({ routingKey: 'é'.repeat(128) }),
      'rabbit.routingKey: expected at most 255',
    ],
    ['an exchange with NUL', () => rabbit({ exchange: 'a\0' }), 'rabbit.exchange: expected text without NUL'],
    [
      'RabbitMQ with onUnknown inquire',
      () => rabbit({}, { onUnknown: 'inquire' }),
      'onUnknown: expected "resend" or "hold"',
    ],
    [
      'RabbitMQ with resend but without consumersDeduplicate',
      () => rabbit({}, { onUnknown: 'resend' }),
      'consumersDeduplicate: expected true',
    ],
    [
      'a consumersDeduplicate that is not true',
      () => rabbit({}, { onUnknown: 'resend', consumersDeduplicate: 'yes' }),
      'consumersDeduplicate: expected true',
    ],
    [
      'a consumersDeduplicate with onUnknown hold',
      () => rabbit({}, { onUnknown: 'hold', consumersDeduplicate: true }),
      'consumersDeduplicate: expected none',
    ],
    ['Kafka without a producer', () => kafka({ producer: undefined }), 'kafka.producer: expected a client with send()'],
    ['a topic with a slash', () => kafka({ topic: 'a/b' }), 'kafka.topic: expected letters'],
    ['a topic of dots', () => kafka({ topic: '..' }), 'kafka.topic: expected letters'],
    ['a topic of 250 characters', () => kafka({ topic: 't'.repeat(250) }), 'kafka.topic: expected at most 249'],
    ['a key that is no function', () => kafka({ key: 'k' }), 'kafka.key: expected a function'],
    [
      'Kafka with resend but without consumersDeduplicate',
      () => kafka({}, { onUnknown: 'resend' }),
      'consumersDeduplicate: expected true',
    ],
  ])('is refused, and the field is named: %s', ([, declare, message]) => {
    expect(declare).toThrow(message)
  })

  test.for<[string, () => Rail]>([
    ['codes and a misspelt field', () => nats({}, { codes: { X: 'success' }, dispatchh: 1 })],
    ['a field misspelt', () => kafka({}, { onUnknown: 'hold', timeoutms: 1 })],
  ])('is refused for an unknown field when the rail is loaded: %s', ([, declare]) => {
    expect(() => loadRail(declare())).toThrow('unknown; ')
  })
})

describe('a broker rail', () => {
  const all: [string, Declare][] = [
    ['NATS', nats],
    ['RabbitMQ', rabbit],
    ['Kafka', kafka],
  ]

  test.for(all)('returns notSent after the lease has expired: %s', async ([, declare]) => {
    const verdict = await callRail(loadRail(declare({})), railRequest({ notAfter: new Date(0) }))
    expect(verdict).toMatchObject({ kind: 'notSent' })
    expect(verdict.message).toContain('the lease of this message has expired')
  })

  test.for(all)('rejects a call whose signal is already aborted (NOT_SENT): %s', async ([, declare]) => {
    const rail = loadRail(declare({}))
    await expect(async () => rail.dispatch(railRequest(), { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: 'NOT_SENT',
    })
  })

  test.for(all)('returns notSent if the body cannot be built or is not JSON: %s', async ([, declare]) => {
    const bodies = [() => ({ amount: 10n }), () => undefined, () => Promise.reject.call(undefined)]
    for (const body of bodies) {
      expect(await callRail(loadRail(declare({ body })), railRequest())).toMatchObject({ kind: 'notSent' })
    }
  })

  test('NATS: returns notSent if the stream configuration cannot be read', async () => {
    expect(await callRail(loadRail(nats({})), railRequest())).toMatchObject({ kind: 'notSent' })
  })

  test('RabbitMQ: returns notSent without a connection or with an invalid routing key', async () => {
    expect(await callRail(loadRail(rabbit({})), railRequest())).toMatchObject({ kind: 'notSent' })
    expect(await callRail(loadRail(rabbit({ routingKey: () => 7 })), railRequest())).toMatchObject({ kind: 'notSent' })
  })

  test('Kafka: returns notSent with an invalid record key', async () => {
    expect(await callRail(loadRail(kafka({ key: () => undefined })), railRequest())).toMatchObject({ kind: 'notSent' })
  })
})

/** Returns a Kafka rail whose producer resolves with these records and stores each record sent. */
const answering = (records: unknown, sent: KafkaRecord[] = []) =>
  loadRail(
    kafka({
      producer: {
        send: async (record: KafkaRecord) => {
          sent.push(record)
          return records
        },
      },
    }),
  )

describe('the Kafka rail', () => {
  test('sends one record with acks -1, keyed by participant, with id and trace headers', async () => {
    const sent: KafkaRecord[] = []
    const request = railRequest({ traceparent: 'tp', tracestate: 'ts' })
    const verdict = await callRail(answering([{ errorCode: 0 }], sent), request)
    expect(verdict).toMatchObject({ kind: 'success', reference: request.reference })
    expect(sent).toEqual([
      {
        topic: 't',
        acks: -1,
        messages: [
          {
            key: 'bank-1',
            value: expect.stringContaining(request.reference),
            headers: { 'outbox-id': request.reference, traceparent: 'tp', tracestate: 'ts' },
          },
        ],
      },
    ])
  })

  test.for([[[]], [[{ errorCode: 7 }]], [[{ errorCode: 0 }, { errorCode: 0 }]], [undefined], [[null]]])(
    'returns unknown unless the answer has one record without an error: %j',
    async ([records]) => {
      expect(await callRail(answering(records), railRequest())).toMatchObject({ kind: 'unknown' })
    },
  )

  test('returns unknown for every error of the producer, even a refused connection', async () => {
    // The producer retries and reports only its last try. An earlier try may have been published.
    const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
    const rail = loadRail(kafka({ producer: { send: () => Promise.reject(refused) } }))
    expect(await callRail(rail, railRequest())).toMatchObject({ kind: 'unknown' })
  })

  test('ends at once with unknown if the signal aborts while the producer sends', async () => {
    const rail = loadRail(kafka({ producer: { send: () => new Promise(() => {}) } }))
    const stop = new AbortController()
    const verdict = callRail(rail, railRequest(), { signal: stop.signal })
    stop.abort()
    expect(await verdict).toMatchObject({ kind: 'unknown' })
  })
})

describe('for a NATS stream,', () => {
  const NOON = Date.UTC(2026, 0, 1, 12)
  const at = (minutes: number) => new Date(NOON + minutes * 60_000)
  const stream = (state: Partial<NatsStreamInfo['state']>, given: Partial<NatsStreamInfo> = {}): NatsStreamInfo => ({
    created: at(-60).toISOString(),
    config: { retention: 'limits' },
    state: { messages: 0, first_seq: 1, first_ts: at(-30).toISOString(), last_seq: 0, ...state },
    ...given,
  })
  const MINUTE = 60_000

  test.for<[string, boolean, NatsStreamInfo]>([
    ['the stream has always been empty', true, stream({})],
    ['an older server reports an empty stream as first_seq 0', true, stream({ first_seq: 0 })],
    ['the stream still has every message', true, stream({ messages: 5, last_seq: 5, first_ts: at(5).toISOString() })],
    [
      'the oldest message left is older than the payment',
      true,
      stream({ messages: 5, first_seq: 6, last_seq: 10, first_ts: at(-2).toISOString() }),
    ],
    [
      'the oldest message left is as old as the payment',
      false,
      stream({ messages: 5, first_seq: 6, last_seq: 10, first_ts: at(0).toISOString() }),
    ],
    [
      'the oldest message left is older by less than the clocks may differ',
      false,
      stream({ messages: 5, first_seq: 6, last_seq: 10, first_ts: at(-0.5).toISOString() }),
    ],
    ['a message in the middle was deleted', false, stream({ messages: 4, last_seq: 5 })],
    [
      'a message at the end was deleted',
      false,
      stream({ messages: 4, first_seq: 6, last_seq: 10, first_ts: at(-2).toISOString() }),
    ],
    ['the stream was purged', false, stream({ messages: 0, first_seq: 11, last_seq: 10 })],
    ['the stream is younger than the payment', false, stream({}, { created: at(1).toISOString() })],
    ['the stream may be younger than the payment', false, stream({}, { created: at(-0.5).toISOString() })],
    ['the creation time of the stream is invalid', false, stream({}, { created: 'yesterday' })],
  ])('retainsEverythingSince, if %s, returns %s', ([, expected, info]) => {
    expect(retainsEverythingSince(info, at(0), MINUTE)).toBe(expected)
  })

  test('retainsEverythingSince returns false for a payment of unknown age', () => {
    expect(retainsEverythingSince(stream({}), undefined, 0)).toBe(false)
  })

  test('findStreamProblem finds a problem in workqueue, interest and no_ack streams only', () => {
    expect(findStreamProblem(stream({}))).toBeUndefined()
    expect(findStreamProblem(stream({}, { config: { retention: 'workqueue' } }))).toContain('workqueue')
    expect(findStreamProblem(stream({}, { config: { retention: 'interest' } }))).toContain('interest')
    expect(findStreamProblem(stream({}, { config: { retention: 'limits', no_ack: true } }))).toContain('no_ack')
  })

  test('timeOfReference reads the time of a UUIDv7 and returns undefined for other ids', () => {
    expect(timeOfReference('0199b5d0-5c00-7abc-8def-0123456789ab')).toEqual(new Date(0x0199b5d05c00))
    expect(timeOfReference('0199b5d0-5c00-4abc-8def-0123456789ab')).toBeUndefined()
    expect(timeOfReference('0199b5d0-5c00-7abc-cdef-0123456789ab')).toBeUndefined()
    expect(timeOfReference('invoice-1')).toBeUndefined()
  })
})
