import { connect, type ChannelModel, type ConfirmChannel } from 'amqplib'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { Inbox, InboxWorker, type InboxClaim, type InboxHandlerContext } from '../../../libs/inbox/index.js'
import { rabbitRail, type RabbitOptions } from '../../../libs/brokers/index.js'
import { callRail, loadRail, runRailContract, type LoadedRail } from '../../../libs/rails/index.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { freePort } from './support/BrokerProcess.js'
import { PAYABLE, railRequest } from '../../support/railRequest.js'
import { BrokerFixture } from './support/BrokerFixture.js'
import { pasteProgram } from './support/pasteProgram.js'
import { startRabbit, type RabbitServer } from './support/startRabbit.js'

let server: RabbitServer
/** Connection of the test itself, reopened after each restart of the broker. */
let connection: ChannelModel
let channel: ConfirmChannel
beforeAll(async () => {
  server = await startRabbit()
  await readServer()
})
afterAll(async () => {
  await connection.close().catch(() => {})
  await server.remove()
})

async function readServer(): Promise<void> {
  connection = await connect(server.url)
  connection.on('error', () => {})
  channel = await connection.createConfirmChannel()
  channel.on('error', () => {})
}

interface Place {
  readonly exchange: string
  readonly queue: string
}

/** Declares a durable exchange and queue for one test. */
async function declare({
  bound = true,
  queueArguments = {},
}: { bound?: boolean; queueArguments?: object } = {}): Promise<Place> {
  const place = { exchange: `payments-${randomUUID()}`, queue: `payments-${randomUUID()}` }
  await channel.assertExchange(place.exchange, 'direct', { durable: true })
  await channel.assertQueue(place.queue, { durable: true, arguments: queueArguments })
  if (bound) await channel.bindQueue(place.queue, place.exchange, 'payments')
  return place
}

function railAt(given: Partial<RabbitOptions & Place> & { exchange: string }, declared: object = {}): LoadedRail {
  const { queue: _, ...rabbit } = given
  const options = { connect: () => connect(server.url), routingKey: 'payments', ...rabbit }
  const policy = { onUnknown: 'resend', consumersDeduplicate: true } as const
  const rail = loadRail(rabbitRail({ type: 'rabbit', timeoutMs: 5_000, ...policy, ...declared, rabbit: options }))
  onTestFinished(() => rail.close().catch(() => {}))
  return rail
}

/** Removes the messages of a queue and returns their ids. */
async function take(queue: string): Promise<string[]> {
  const ids: string[] = []
  for (
    let message = await channel.get(queue, { noAck: true });
    message !== false;
    message = await channel.get(queue, { noAck: true })
  ) {
    ids.push(String(message.properties.messageId))
  }
  return ids
}

/**
 * Consumes like an application: stores each message in the inbox, then acknowledges it. A worker applies the effect.
 */
class Consumer {
  readonly db: TestDatabase
  readonly #inbox: Inbox
  readonly #worker: InboxWorker

  private constructor(db: TestDatabase, inbox: Inbox, worker: InboxWorker) {
    this.db = db
    this.#inbox = inbox
    this.#worker = worker
  }

  static async of(db: TestDatabase): Promise<Consumer> {
    const { name, database } = await db.createLogin('bank', { roles: ['symphony_ingest', 'symphony_executor'] })
    await db.queryNoRole(`CREATE SCHEMA bank; GRANT USAGE ON SCHEMA bank TO "${name}";
      CREATE TABLE bank.effects (reference text); GRANT INSERT ON bank.effects TO "${name}"`)
    const handlers = {
      payment: async ({ payload }: InboxClaim, { tx }: InboxHandlerContext) => {
        await tx.query('INSERT INTO bank.effects (reference) VALUES ($1)', [payload['reference']])
      },
    }
    return new Consumer(db, new Inbox(database), new InboxWorker(database, handlers, { handlerRole: name }))
  }

  /** Empties the queue, handles its messages and returns their number, copies included. */
  async consume(queue: string): Promise<number> {
    let copies = 0
    for (let message = await channel.get(queue); message !== false; message = await channel.get(queue)) {
      const { messageId } = message.properties
      const payload = JSON.parse(String(message.content))
      await this.#inbox.enqueue({ source: 'rabbit', messageId: String(messageId), topic: 'payment', payload })
      channel.ack(message)
      copies += 1
    }
    while ((await this.#worker.runOnce()).claimed > 0);
    return copies
  }

  /** Counts the effects of each reference. */
  async effects(): Promise<Map<string, number>> {
    const { rows } = await this.db.queryNoRole<{ reference: string; count: number }>(
      'SELECT reference, count(*)::int AS count FROM bank.effects GROUP BY reference',
    )
    return new Map(rows.map(({ reference, count }) => [reference, count]))
  }
}

async function createConsumer(): Promise<Consumer> {
  const db = await createTestDatabase({ countBranches: false })
  onTestFinished(() => db.drop())
  return Consumer.of(db)
}

test('rabbitRail passes the rail contract if the consumer uses an inbox', async () => {
  const place = await declare()
  const consumer = await createConsumer()
  const rail = rabbitRail({
    type: 'rabbit',
    onUnknown: 'resend',
    consumersDeduplicate: true,
    rabbit: { connect: () => connect(server.url), exchange: place.exchange, routingKey: 'payments' },
  })
  onTestFinished(async () => rail.close?.())
  const effectsOf = async (reference: string) => {
    await consumer.consume(place.queue)
    return (await consumer.effects()).get(reference) ?? 0
  }
  const results = await runRailContract(rail, { payload: PAYABLE, effectsOf })
  expect(results.filter(({ skipped }) => skipped === true).map(({ rule }) => rule)).toEqual([
    'a paid reference is found, under the reference of the payment',
    'a reference never sent is absent',
    'a refusal is terminal, and pays nothing',
    'the text of a refusal holds no account, card or credential',
    'the list of payments has a payment once, with our reference and amount',
    'the sample payload has an account',
  ])
})

test('a RabbitMQ message is persistent and has the request, the outbox id and the trace context', async () => {
  const place = await declare()
  const sent = railRequest({ traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`, tracestate: 'x=1' })
  expect(await callRail(railAt(place), sent)).toMatchObject({ kind: 'success', reference: sent.reference })
  const message = await channel.get(place.queue, { noAck: true })
  if (message === false) throw new Error('the queue is empty')
  expect(message.properties).toMatchObject({
    messageId: sent.reference,
    deliveryMode: 2,
    contentType: 'application/json',
    headers: { traceparent: sent.traceparent, tracestate: 'x=1' },
  })
  expect(JSON.parse(String(message.content))).toMatchObject({ reference: sent.reference, payload: PAYABLE })
})

/** Routes a request to a queue only if its attempt number is even. */
const everySecond = ({ attempt }: { attempt: number }) => (attempt % 2 === 0 ? 'payments' : 'nowhere')

describe('a publish that cannot have happened', () => {
  test('is notSent if no queue is bound, and succeeds after a queue is bound', async () => {
    const place = await declare({ bound: false })
    const rail = railAt(place)
    const unroutable = railRequest()
    expect(await callRail(rail, unroutable)).toMatchObject({ kind: 'notSent' })
    await channel.bindQueue(place.queue, place.exchange, 'payments')
    expect(await callRail(rail, unroutable)).toMatchObject({ kind: 'success' })
    expect(await take(place.queue)).toEqual([unroutable.reference])
  })

  test('is notSent if the broker returns the message; other concurrent publishes succeed', async () => {
    const place = await declare()
    const rail = railAt({ ...place, routingKey: everySecond })
    const requests = Array.from({ length: 200 }, (_, index) => railRequest({ attempt: index + 1 }))
    const verdicts = await Promise.all(requests.map((one) => callRail(rail, one)))
    expect(verdicts.map(({ kind }) => kind)).toEqual(
      requests.map(({ attempt }) => (attempt % 2 === 0 ? 'success' : 'notSent')),
    )
    const routed = requests.filter(({ attempt }) => attempt % 2 === 0).map(({ reference }) => reference)
    expect(new Set(await take(place.queue))).toEqual(new Set(routed))
  })

  test('is notSent if the exchange does not exist; the next succeeds once the exchange exists', async () => {
    const exchange = `later-${randomUUID()}`
    const { queue } = await declare()
    const rail = railAt({ exchange })
    expect(await callRail(rail, railRequest())).toMatchObject({ kind: 'notSent' })
    await channel.assertExchange(exchange, 'direct', { durable: true })
    await channel.bindQueue(queue, exchange, 'payments')
    expect(await callRail(rail, railRequest())).toMatchObject({ kind: 'success' })
  })

  test('is notSent if no broker listens', async () => {
    const port = await freePort()
    const rail = railAt({ exchange: '', connect: () => connect(`amqp://127.0.0.1:${port}`) })
    expect(await callRail(rail, railRequest())).toMatchObject({ kind: 'notSent' })
  })

  test('is notSent if the default exchange has no queue with the routing key as its name', async () => {
    const { queue } = await declare()
    expect(await callRail(railAt({ exchange: '', routingKey: queue }), railRequest())).toMatchObject({
      kind: 'success',
    })
    const nowhere = railAt({ exchange: '', routingKey: randomUUID() })
    expect(await callRail(nowhere, railRequest())).toMatchObject({ kind: 'notSent' })
  })

  test('is notSent after close()', async () => {
    const place = await declare()
    const rail = railAt(place)
    expect(await callRail(rail, railRequest())).toMatchObject({ kind: 'success' })
    await rail.close()
    expect(await callRail(rail, railRequest())).toMatchObject({ kind: 'notSent' })
  })
})

describe('a publish that the broker does not confirm', () => {
  test('is unknown after a nack, because another queue may hold the message', async () => {
    const full = await declare({ queueArguments: { 'x-max-length': 1, 'x-overflow': 'reject-publish' } })
    const other = await declare({ bound: false })
    await channel.bindQueue(other.queue, full.exchange, 'payments')
    const rail = railAt(full)
    await callRail(rail, railRequest())
    const refused = railRequest()
    expect(await callRail(rail, refused)).toMatchObject({ kind: 'unknown' })
    expect(await take(other.queue)).toContain(refused.reference)
  })

  test('is unknown if its exchange is deleted; the next payment gets a new channel', async () => {
    const place = await declare()
    const rail = railAt(place)
    await callRail(rail, railRequest())
    await channel.deleteExchange(place.exchange)
    expect(await callRail(rail, railRequest())).toMatchObject({ kind: 'unknown' })
    expect(await callRail(rail, railRequest())).toMatchObject({ kind: 'notSent' })
    await channel.assertExchange(place.exchange, 'direct', { durable: true })
    await channel.bindQueue(place.queue, place.exchange, 'payments')
    expect(await callRail(rail, railRequest())).toMatchObject({ kind: 'success' })
  })

  test('is unknown after a timeout; a resend ends as notSent until the broker answers', async () => {
    const place = await declare()
    const rail = railAt(place, { timeoutMs: 300 })
    await callRail(rail, railRequest())
    await take(place.queue)
    const late = railRequest()
    server.broker.freeze()
    onTestFinished(() => server.broker.resume())
    expect(await callRail(rail, late)).toMatchObject({ kind: 'unknown', code: 'RAIL_TIMEOUT' })
    expect(await callRail(rail, late)).toMatchObject({ kind: 'notSent' })
    // The broker cannot answer, so only the signal can end the call of the adapter.
    const another = railRequest()
    const ended = async () => rail.dispatch(another, { signal: AbortSignal.timeout(10) })
    await expect(ended).rejects.toThrow('aborted before the broker confirmed the message')
    server.broker.resume()
    const ids: string[] = []
    await expect.poll(async () => ids.push(...(await take(place.queue)))).toBe(2)
    expect(ids).toEqual([late.reference, another.reference])
    await expect.poll(async () => (await callRail(rail, late)).kind).toBe('success')
  })

  test('is notSent while the broker has a memory alarm, and succeeds afterwards', async () => {
    const place = await declare()
    const rail = railAt(place, { timeoutMs: 300 })
    await callRail(rail, railRequest())
    await server.control('set_vm_memory_high_watermark', 'absolute', '1')
    onTestFinished(() => server.control('set_vm_memory_high_watermark', '0.4'))
    await expect.poll(async () => (await callRail(rail, railRequest())).kind).toBe('notSent')
    await server.control('set_vm_memory_high_watermark', '0.4')
    await expect.poll(async () => (await callRail(rail, railRequest())).kind).toBe('success')
  })
})

test('a worker killed between publish and completion leaves one effect per payment', async () => {
  const place = await declare()
  const fixture = await BrokerFixture.set('rabbit', { RABBIT_URL: server.url, RABBIT_EXCHANGE: place.exchange })
  const ids = await fixture.killWorkerWhileFlowing()
  const consumer = await Consumer.of(fixture.db)
  // The queue has more copies than payments, because the kill caused resends.
  expect(await consumer.consume(place.queue)).toBeGreaterThan(ids.length)
  expect(await consumer.effects()).toEqual(new Map(ids.map((id) => [id, 1])))
  expect(await fixture.dispatched()).toEqual(new Map(ids.map((id) => [id, id])))
})

test('a RabbitMQ broker killed under load loses no message: one effect per payment', async () => {
  const place = await declare()
  const fixture = await BrokerFixture.set('rabbit', { RABBIT_URL: server.url, RABBIT_EXCHANGE: place.exchange })
  const ids = await fixture.killWhileFlowing(server.broker)
  await readServer()
  const consumer = await Consumer.of(fixture.db)
  await consumer.consume(place.queue)
  expect(await consumer.effects()).toEqual(new Map(ids.map((id) => [id, 1])))
})

test('the RabbitMQ program of brokers.md runs when pasted and prints its documented output', async () => {
  const { printed, promised } = await pasteProgram('queue.mjs', { RABBIT_URL: server.url })
  expect(printed).toBe(promised)
})
