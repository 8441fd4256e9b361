import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { ApiKeys } from '../../libs/access/index.js'
import { openDatabase } from '../../libs/db/index.js'
import type { Identity } from '../../libs/http/access/Identity.js'
import type { ItemsEvent } from '../../libs/http/index.js'
import { SseConnections } from '../../libs/http/stream/SseConnections.js'
import { useTestDatabase } from '../support/database.js'
import { EventStreamClient } from '../support/eventStream.js'
import {
  createKey,
  openHttpFixture,
  problemOf,
  TOKEN,
  type HttpFixture,
  type HttpFixtureOptions,
} from '../support/httpFixture.js'
import { claimOnly, complete, enqueue } from '../support/outboxItems.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { portOf } from '../support/portOf.js'
import { openConnection, untilTableWaits } from '../support/race.js'
import { TcpProxy } from '../support/tcpProxy.js'

const db = await useTestDatabase()

const RESTRICTED: Identity = {
  via: 'key',
  owner: 'shop',
  keyScope: 'shop',
  scopes: ['read'],
  participants: ['none'],
  apiKey: null,
  expiresAt: null,
}

/** Opens a server that polls often, so that tests are quick. */
async function quickStage(options: HttpFixtureOptions = {}): Promise<HttpFixture> {
  const fixture = await openHttpFixture(db, { streamPollMs: 20, ...options })
  onTestFinished(() => fixture.close())
  return fixture
}

async function listen(fixture: HttpFixture, token = TOKEN): Promise<EventStreamClient> {
  const client = await EventStreamClient.open(`${fixture.address}/v1/stream`, token)
  onTestFinished(() => client.leave())
  return client
}

/** Opens a stream and waits until it has sent one change. It sends every later change. */
async function listening(fixture: HttpFixture): Promise<EventStreamClient> {
  const client = await listen(fixture)
  await expect.poll(() => client.dataOf('status').length, POLL_OPTIONS).toBeGreaterThan(0)
  const marker = await enqueue(db)
  await expect
    .poll(() => changesIn(client).flatMap(({ outboxId }) => outboxId), POLL_OPTIONS)
    .toContain(marker.outboxId)
  return client
}

function changesIn(client: EventStreamClient) {
  return client.dataOf('items').flatMap((data) => {
    const event: ItemsEvent = JSON.parse(data)
    return event.items
  })
}

/** Returns the readonly role and a counter of its queries. */
function counting() {
  const readonly = db.as('symphony_readonly')
  const asked = { queries: 0 }
  return {
    asked,
    readonly: {
      ...readonly,
      query: (text: string, values?: readonly unknown[]) => ((asked.queries += 1), readonly.query<never>(text, values)),
    },
  }
}

test('GET /v1/stream sends the status, and every new state of a payment', async () => {
  const client = await listening(await quickStage())
  expect(client.response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
  const before = client.dataOf('status').length
  const item = await enqueue(db)
  const statesOf = () => changesIn(client).flatMap(({ outboxId, state }) => (outboxId === item.outboxId ? [state] : []))
  await expect.poll(statesOf, POLL_OPTIONS).toEqual(['DUE'])
  const lease = await claimOnly(db, item.railType)
  await expect.poll(statesOf, POLL_OPTIONS).toEqual(['DUE', 'LEASED'])
  await complete(db, lease, { state: 'DISPATCHED', railReference: 'x' })
  await expect.poll(statesOf, POLL_OPTIONS).toEqual(['DUE', 'LEASED', 'DISPATCHED'])
  await expect.poll(() => client.dataOf('status').length, POLL_OPTIONS).toBeGreaterThan(before)
})

test('GET /v1/stream sends `looked` events and at most one other event while nothing changes', async () => {
  const client = await listening(await quickStage())
  const otherEvents = () => client.events.length - client.dataOf('looked').length
  await expect.poll(() => client.dataOf('looked').length, POLL_OPTIONS).toBeGreaterThan(10)
  const [before, polls] = [otherEvents(), client.dataOf('looked').length]
  await expect.poll(() => client.dataOf('looked').length, POLL_OPTIONS).toBeGreaterThan(polls + 20)
  expect(otherEvents() - before).toBeLessThanOrEqual(1)
  expect(JSON.parse(client.dataOf('looked').at(-1) ?? '')).toEqual({ at: expect.stringMatching(/^\d{4}-.*Z$/) })
})

test('GET /v1/stream makes no database queries while no client is connected', async () => {
  const { asked, readonly } = counting()
  const fixture = await quickStage({ roles: { readonly } })
  expect(asked.queries).toBe(0)
  const clients = [await listening(fixture), await listen(fixture), await listen(fixture)]
  const marker = await enqueue(db)
  for (const client of clients) {
    await expect.poll(() => changesIn(client).map(({ outboxId }) => outboxId), POLL_OPTIONS).toContain(marker.outboxId)
  }
  for (const client of clients) client.leave()
  // The last poll may still be running. After it there are no more queries.
  let last = -1
  await expect
    .poll(
      () => {
        const before = last
        last = asked.queries
        return before === asked.queries
      },
      { timeout: 60_000, interval: 200 },
    )
    .toBe(true)
  const silent = asked.queries
  await enqueue(db)
  expect(asked.queries).toBe(silent)
})

test('GET /v1/stream with a key restricted to participants sends only their changes, no status', async () => {
  const fixture = await quickStage()
  const { key } = await createKey(db, { scopes: ['read'], owner: 'shop', participants: ['stream-mine'] })
  const bound = await listen(fixture, key)
  const all = await listening(fixture)
  const participantsOf = async (participantId: string) => (await enqueue(db, { participantId })).outboxId
  const theirs = await participantsOf('stream-theirs')
  const mine: string[] = []
  // The restricted stream gets no changes from before its first poll.
  await expect
    .poll(
      async () => {
        mine.push(await participantsOf('stream-mine'))
        return changesIn(bound).length
      },
      { timeout: 60_000, interval: 100 },
    )
    .toBeGreaterThan(0)
  await expect
    .poll(() => changesIn(all).map(({ outboxId }) => outboxId), POLL_OPTIONS)
    .toEqual(expect.arrayContaining([theirs, mine[0]]))
  expect(mine).toEqual(expect.arrayContaining(changesIn(bound).map(({ outboxId }) => outboxId)))
  expect(bound.dataOf('status')).toEqual([])
})

test('GET /v1/stream continues after its connections to the database were cut', async () => {
  const proxy = await TcpProxy.before(db.url)
  onTestFinished(() => proxy.close())
  const url = new URL(db.url)
  url.port = String(proxy.port)
  const away = openDatabase({ url: url.href, schema: db.schema })
  onTestFinished(() => away.close())
  const client = await listening(await quickStage({ roles: { readonly: away.as('symphony_readonly') } }))
  proxy.cut()
  const comments = client.comments
  const item = await enqueue(db)
  await expect.poll(() => changesIn(client).map(({ outboxId }) => outboxId), POLL_OPTIONS).toContain(item.outboxId)
  expect(client.comments).toBeGreaterThanOrEqual(comments)
})

test('GET /v1/stream ends at once when the server closes', async () => {
  const fixture = await openHttpFixture(db, { streamPollMs: 20 })
  const client = await listening(fixture)
  await fixture.close()
  expect(await client.ended).toBe('ended')
})

test('GET /v1/stream ends when its key is revoked', async () => {
  const clock = { ms: 0, now: () => new Date(0), monotonicMs: () => (clock.ms += 1_000) }
  const fixture = await quickStage({ clock })
  const { key, keyId } = await createKey(db, { scopes: ['read'], owner: 'carol' })
  const client = await listen(fixture, key)
  await new ApiKeys(db).revoke({ keyId })
  expect(await client.ended).toBe('ended')
})

test('streamsMax limits open streams (503 STREAMS_EXHAUSTED); a closed stream no longer counts', async () => {
  const fixture = await quickStage({ limits: { streamsMax: 1 } })
  const first = await listen(fixture)
  const refused = await fixture.call('/v1/stream')
  expect(refused.headers.get('retry-after')).toBe('5')
  expect(await problemOf(refused)).toMatchObject({ status: 503, code: 'STREAMS_EXHAUSTED' })
  first.leave()
  const statusOf = async () => {
    const client = await listen(fixture)
    client.leave()
    return client.response.status
  }
  await expect.poll(statusOf, POLL_OPTIONS).toBe(200)
})

test('streamsMax does not count a client that left during the authorization', async () => {
  const fixture = await quickStage({ limits: { streamsMax: 1 } })
  const { key } = await createKey(db, { scopes: ['read'], owner: 'dan' })
  const blocker = await openConnection(db)
  onTestFinished(() => blocker.close())
  await blocker.query('BEGIN; LOCK TABLE api_keys IN ACCESS EXCLUSIVE MODE')
  const leaving = new AbortController()
  const headers = { authorization: `Bearer ${key}` }
  const left = fetch(`${fixture.address}/v1/stream`, { headers, signal: leaving.signal }).catch(() => 'left')
  await untilTableWaits(db, 'api_keys')
  leaving.abort()
  expect(await left).toBe('left')
  // The server notices the closed connection before the key is read.
  await sleep(200)
  await blocker.query('ROLLBACK')
  await expect.poll(async () => (await listen(fixture)).response.status, POLL_OPTIONS).toBe(200)
})

test('a stream gets its events while the key of another stream is checked without an answer', async () => {
  const connections = new SseConnections({
    role: db.as('symphony_readonly'),
    statusCache: { read: () => Promise.reject(new Error('a restricted caller reads no status')) },
    streamsMax: 2,
    pollMs: 20,
  })
  const checks = [() => new Promise<boolean>(() => {}), () => Promise.resolve(true)]
  const server = createServer((_request, response) => {
    connections.add(RESTRICTED, response, checks.shift()!)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  onTestFinished(() => connections.close())
  const url = `http://127.0.0.1:${portOf(server)}/`
  const clients = [await EventStreamClient.open(url, ''), await EventStreamClient.open(url, '')]
  for (const client of clients) onTestFinished(() => client.leave())
  for (const client of clients)
    await expect.poll(() => client.dataOf('looked').length, POLL_OPTIONS).toBeGreaterThan(10)
})

test('a key restricted to participants opens at most a quarter of streamsMax', async () => {
  const fixture = await quickStage({ limits: { streamsMax: 4 } })
  const { key } = await createKey(db, { scopes: ['read'], owner: 'eve', participants: ['p-1'] })
  const other = await createKey(db, { scopes: ['read'], owner: 'finn', participants: ['p-2'] })
  const statuses = []
  for (const token of [key, key, other.key, TOKEN, TOKEN]) statuses.push((await listen(fixture, token)).response.status)
  expect(statuses).toEqual([200, 503, 200, 200, 200])
})

test('close() ends the streams at once although the database does not answer their poll', async () => {
  const fixture = await openHttpFixture(db, { streamPollMs: 20 })
  const client = await listening(fixture)
  const blocker = await openConnection(db)
  onTestFinished(() => blocker.close())
  await blocker.query('BEGIN; LOCK TABLE payment_outbox_identities IN ACCESS EXCLUSIVE MODE')
  await untilTableWaits(db, 'payment_outbox_identities')
  await fixture.close()
  expect(await client.ended).toBe('ended')
  // The poll still waits, so close() did not wait for it.
  await untilTableWaits(db, 'payment_outbox_identities')
})
