import { Kafka, logLevel, type KafkaMessage } from 'kafkajs'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { kafkaRail, OUTBOX_ID_HEADER } from '../../../libs/brokers/index.js'
import { callRail, loadRail } from '../../../libs/rails/index.js'
import { PAYABLE, railRequest } from '../../support/railRequest.js'

/** Tests the Kafka rail with the broker that KAFKA_BROKERS names. */

const kafka = new Kafka({
  clientId: 'symphony-test',
  brokers: (process.env['KAFKA_BROKERS'] ?? '').split(','),
  logLevel: logLevel.NOTHING,
})
const producer = kafka.producer({ idempotent: true })
const topic = `symphony-${randomUUID()}`
beforeAll(async () => {
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: 3 }], waitForLeaders: true })
  await admin.disconnect()
  await producer.connect()
})
afterAll(() => producer.disconnect())

const rail = loadRail(
  kafkaRail({ type: 'kafka', onUnknown: 'resend', consumersDeduplicate: true, kafka: { producer, topic } }),
)

/** Resolves with the records of an outbox id after `count` records have arrived. */
async function consume(reference: string, count: number): Promise<KafkaMessage[]> {
  const consumer = kafka.consumer({ groupId: randomUUID() })
  onTestFinished(() => consumer.disconnect())
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  const found: KafkaMessage[] = []
  await consumer.run({
    eachMessage: async ({ message }) => {
      if (String(message.headers?.[OUTBOX_ID_HEADER]) === reference) found.push(message)
    },
  })
  await expect.poll(() => found.length).toBe(count)
  return found
}

test('a Kafka record contains the request, the participant as key, and the outbox id', async () => {
  const sent = railRequest({ traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01` })
  expect(await callRail(rail, sent)).toMatchObject({ kind: 'success', reference: sent.reference })
  const [record] = await consume(sent.reference, 1)
  expect(String(record?.key)).toBe(sent.participantId)
  expect(String(record?.headers?.['traceparent'])).toBe(sent.traceparent)
  expect(JSON.parse(String(record?.value))).toMatchObject({ reference: sent.reference, payload: PAYABLE })
})

test('a payment sent twice is two records with the same outbox id, for consumers to deduplicate', async () => {
  const repeated = railRequest()
  expect(await callRail(rail, repeated)).toMatchObject({ kind: 'success', reference: repeated.reference })
  expect(await callRail(rail, repeated)).toMatchObject({ kind: 'success', reference: repeated.reference })
  expect(await consume(repeated.reference, 2)).toHaveLength(2)
})
