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

/** With real brokers: `npm run brokers`. Here is what needs none: mistakes, and what is certain before anything is sent. */

type Declare = (broker: object, declared?: object) => Rail

const jetstream: NatsJetStream = {
  publish: () => Promise.reject(new Error('it was published')),
  jetstreamManager: () => Promise.reject(new Error('it was asked')),
}
const producer = { send: () => Promise.reject(new Error('it was published')) }
const connect = () => Promise.reject(new Error('it was connected'))

// As from a file in JavaScript: nothing has checked the types.
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

describe('a declaration', () => {
  test.for<[string, () => Rail]>([
    ['NATS', () => nats({})],
    ['NATS that holds', () => nats({}, { onUnknown: 'hold' })],
    ['a subject of many tokens', () => nats({ subject: 'payments.sepa.eu-1' })],
    ['clocks that agree', () => nats({ clocksApartMs: 0 })],
    ['RabbitMQ', () => rabbit({})],
    ['RabbitMQ that holds', () => rabbit({}, { onUnknown: 'hold' })],
    ['the default exchange', () => rabbit({ exchange: '' })],
    ['a routing key of 255 bytes', () => rabbit({ routingKey: 'é'.repeat(127) + 'x' })],
    ['Kafka', () => kafka({})],
    ['Kafka that holds', () => kafka({}, { onUnknown: 'hold' })],
    ['a topic of 249 characters', () => kafka({ topic: 't'.repeat(249) })],
  ])('%s is accepted, and loads', ([, declare]) => {
    expect(() => loadRail(declare())).not.toThrow()
  })

  test.for<[string, () => Rail, string]>([
    ['no type', () => nats({}, { type: undefined }), 'type: expected text'],
    [
      'no options',
      () => natsRail(untyped({ type: 'x', onUnknown: 'inquire' })),
      'nats: expected an object with jetstream',
    ],
    [
      'a client that cannot publish',
      () => nats({ jetstream: {} }),
      'nats.jetstream: expected something with publish()',
    ],
    ['no client', () => nats({ jetstream: null }), 'nats.jetstream: expected something with publish()'],
    ['a stream with a dot', () => nats({ stream: 'a.b' }), 'nats.stream: expected a name without dots'],
    ['a stream that is a path', () => nats({ stream: '../x' }), 'nats.stream: expected a name without dots'],
    ['a subject with a wildcard', () => nats({ subject: 'a.*' }), 'nats.subject: expected tokens joined by dots'],
    ['a subject that takes all', () => nats({ subject: '>' }), 'nats.subject: expected tokens joined by dots'],
    ['a subject that ends in a dot', () => nats({ subject: 'a.' }), 'nats.subject: expected tokens joined by dots'],
    ['a subject with a space', () => nats({ subject: 'a b' }), 'nats.subject: expected tokens joined by dots'],
    ['a subject with a line feed', () => nats({ subject: 'a\r\nPUB' }), 'nats.subject: expected tokens joined by dots'],
    ['no subject', () => nats({ subject: undefined }), 'nats.subject: expected text'],
    ['headers that nobody makes', () => nats({ headers: {} }), 'nats.headers: expected the function'],
    ['clocks that go apart', () => nats({ clocksApartMs: 3_600_001 }), 'nats.clocksApartMs: expected'],
    ['NATS that resends', () => nats({}, { onUnknown: 'resend' }), 'onUnknown: expected "inquire" or "hold"'],
    ['NATS without a policy', () => nats({}, { onUnknown: undefined }), 'onUnknown: expected "inquire" or "hold"'],
    ['a field misspelt', () => nats({ subjekt: 's' }), 'nats."subjekt": unknown; did you mean subject?'],
    ['a body that is none', () => nats({ body: 'x' }), 'nats.body: expected a function'],
    ['RabbitMQ without a way to connect', () => rabbit({ connect: {} }), 'rabbit.connect: expected a function'],
    ['an exchange that is none', () => rabbit({ exchange: 7 }), 'rabbit.exchange: expected text, got number'],
    [
      'a routing key of 256 bytes',
      () => rabbit({ routingKey: 'é'.repeat(128) }),
      'rabbit.routingKey: expected at most 255',
    ],
    ['an exchange with NUL', () => rabbit({ exchange: 'a\0' }), 'rabbit.exchange: expected text without NUL'],
    ['RabbitMQ that inquires', () => rabbit({}, { onUnknown: 'inquire' }), 'onUnknown: expected "resend" or "hold"'],
    [
      'RabbitMQ that resends to anybody',
      () => rabbit({}, { onUnknown: 'resend' }),
      'consumersDeduplicate: expected true',
    ],
    [
      'consumers of whom something like true is said',
      () => rabbit({}, { onUnknown: 'resend', consumersDeduplicate: 'yes' }),
      'consumersDeduplicate: expected true',
    ],
    [
      'a promise without a use',
      () => rabbit({}, { onUnknown: 'hold', consumersDeduplicate: true }),
      'consumersDeduplicate: expected nothing',
    ],
    [
      'Kafka without a producer',
      () => kafka({ producer: undefined }),
      'kafka.producer: expected something with send()',
    ],
    ['a topic with a slash', () => kafka({ topic: 'a/b' }), 'kafka.topic: expected letters'],
    ['a topic of dots', () => kafka({ topic: '..' }), 'kafka.topic: expected letters'],
    ['a topic of 250 characters', () => kafka({ topic: 't'.repeat(250) }), 'kafka.topic: expected at most 249'],
    ['a key that nobody makes', () => kafka({ key: 'k' }), 'kafka.key: expected a function'],
    ['Kafka that resends to anybody', () => kafka({}, { onUnknown: 'resend' }), 'consumersDeduplicate: expected true'],
  ])('%s is refused, by name', ([, declare, message]) => {
    expect(declare).toThrow(message)
  })

  test.for<[string, () => Rail]>([
    ['codes, which are the broker’s', () => nats({}, { codes: { X: 'success' }, dispatchh: 1 })],
    ['a field misspelt', () => kafka({}, { onUnknown: 'hold', timeoutms: 1 })],
  ])('%s is refused when the rail is loaded', ([, declare]) => {
    expect(() => loadRail(declare())).toThrow('unknown; ')
  })
})

describe('nothing is published, and certainly not', () => {
  const all: [string, Declare][] = [
    ['NATS', nats],
    ['RabbitMQ', rabbit],
    ['Kafka', kafka],
  ]

  test.for(all)('%s: after the lease has ended', async ([, declare]) => {
    const verdict = await callRail(loadRail(declare({})), railRequest({ notAfter: new Date(0) }))
    expect(verdict).toMatchObject({ kind: 'notSent' })
    expect(verdict.message).toContain('the lease behind this message has ended')
  })

  test.for(all)('%s: of a call that was given up before', async ([, declare]) => {
    const rail = loadRail(declare({}))
    await expect(async () => rail.dispatch(railRequest(), { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: 'NOT_SENT',
    })
  })

  test.for(all)('%s: if its body cannot be made, or is no JSON', async ([, declare]) => {
    const bodies = [() => ({ amount: 10n }), () => undefined, () => Promise.reject.call(undefined)]
    for (const body of bodies) {
      expect(await callRail(loadRail(declare({ body })), railRequest())).toMatchObject({ kind: 'notSent' })
    }
  })

  test('NATS: if its stream cannot be asked what it keeps', async () => {
    expect(await callRail(loadRail(nats({})), railRequest())).toMatchObject({ kind: 'notSent' })
  })

  test('RabbitMQ: without a connection, or with a routing key that is none', async () => {
    expect(await callRail(loadRail(rabbit({})), railRequest())).toMatchObject({ kind: 'notSent' })
    expect(await callRail(loadRail(rabbit({ routingKey: () => 7 })), railRequest())).toMatchObject({ kind: 'notSent' })
  })

  test('Kafka: with a key that is none', async () => {
    expect(await callRail(loadRail(kafka({ key: () => undefined })), railRequest())).toMatchObject({ kind: 'notSent' })
  })
})

/** A producer that answers so, and keeps what it was sent. */
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

describe('Kafka', () => {
  test('one record for all replicas, by its participant, with the id and the trace as headers', async () => {
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
    'an answer that is not that of one record is unknown: %j',
    async ([records]) => {
      expect(await callRail(answering(records), railRequest())).toMatchObject({ kind: 'unknown' })
    },
  )

  test('whatever the client throws is unknown, also a refused connection: it may have been another try’s', async () => {
    const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
    const rail = loadRail(kafka({ producer: { send: () => Promise.reject(refused) } }))
    expect(await callRail(rail, railRequest())).toMatchObject({ kind: 'unknown' })
  })

  test('a call that is given up ends at once, and is unknown', async () => {
    const rail = loadRail(kafka({ producer: { send: () => new Promise(() => {}) } }))
    const stop = new AbortController()
    const verdict = callRail(rail, railRequest(), { signal: stop.signal })
    stop.abort()
    expect(await verdict).toMatchObject({ kind: 'unknown' })
  })
})

describe('what a stream of NATS says of a payment that it does not have', () => {
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
    ['it is empty, and always was', true, stream({})],
    ['it is empty, and always was, as older servers say it', true, stream({ first_seq: 0 })],
    ['it has all it ever got', true, stream({ messages: 5, last_seq: 5, first_ts: at(5).toISOString() })],
    [
      'it dropped only what is older',
      true,
      stream({ messages: 5, first_seq: 6, last_seq: 10, first_ts: at(-2).toISOString() }),
    ],
    [
      'it dropped what is as old',
      false,
      stream({ messages: 5, first_seq: 6, last_seq: 10, first_ts: at(0).toISOString() }),
    ],
    [
      'clocks may be wrong',
      false,
      stream({ messages: 5, first_seq: 6, last_seq: 10, first_ts: at(-0.5).toISOString() }),
    ],
    ['a message was deleted inside', false, stream({ messages: 4, last_seq: 5 })],
    [
      'a message was deleted at its end',
      false,
      stream({ messages: 4, first_seq: 6, last_seq: 10, first_ts: at(-2).toISOString() }),
    ],
    ['it was purged', false, stream({ messages: 0, first_seq: 11, last_seq: 10 })],
    ['it is younger', false, stream({}, { created: at(1).toISOString() })],
    ['it may be younger', false, stream({}, { created: at(-0.5).toISOString() })],
    ['its times cannot be read', false, stream({}, { created: 'yesterday' })],
  ])('%s: believed is %s', ([, expected, info]) => {
    expect(retainsEverythingSince(info, at(0), MINUTE)).toBe(expected)
  })

  test('of a payment whose age is not known it is not believed', () => {
    expect(retainsEverythingSince(stream({}), undefined, 0)).toBe(false)
  })

  test('only a stream that keeps what was consumed, and that acknowledges, can be used', () => {
    expect(findStreamProblem(stream({}))).toBeUndefined()
    expect(findStreamProblem(stream({}, { config: { retention: 'workqueue' } }))).toContain('workqueue')
    expect(findStreamProblem(stream({}, { config: { retention: 'interest' } }))).toContain('interest')
    expect(findStreamProblem(stream({}, { config: { retention: 'limits', no_ack: true } }))).toContain('no_ack')
  })

  test('an outbox id says when it was made; another id does not', () => {
    expect(timeOfReference('0199b5d0-5c00-7abc-8def-0123456789ab')).toEqual(new Date(0x0199b5d05c00))
    expect(timeOfReference('0199b5d0-5c00-4abc-8def-0123456789ab')).toBeUndefined()
    expect(timeOfReference('0199b5d0-5c00-7abc-cdef-0123456789ab')).toBeUndefined()
    expect(timeOfReference('invoice-1')).toBeUndefined()
  })
})
