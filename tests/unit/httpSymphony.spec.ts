import { afterEach, beforeAll, expect, test, vi } from 'vitest'
import { createHttpServer, type HttpServerOptions } from '../../libs/http/index.js'
import { LedgerProjector } from '../../libs/ledger/index.js'
import { Symphony, SymphonyFleet } from '../../libs/symphony/index.js'
import { useTestDatabase } from '../support/database.js'
import { bodyOf } from '../support/httpFixture.js'
import { sealLedger } from '../support/sealLedger.js'
import { statementOf } from '../support/statements.js'

const db = await useTestDatabase()
let url: string
const stops: (() => Promise<unknown>)[] = []
beforeAll(async () => {
  const roles = ['control', 'ingest', 'readonly', 'auditor', 'auth', 'executor'].map((role) => `symphony_${role}`)
  const login = await db.createLogin('http_symphony', { roles })
  await db.queryNoRole('SELECT set_actor_gateway($1, true)', [login.name])
  url = login.url
})
afterEach(async () => {
  for (const stop of stops.splice(0).toReversed()) await stop()
})

const bank = {
  type: 'bank',
  onUnknown: 'resend',
  fields: { '/memo': 'masked' },
  dispatch: () => ({ outcome: 'success', reference: 'r-1' }) as const,
} as const

/** Opens a server of a Symphony with one rail, and returns functions that call it with its token. */
async function serve(given: Partial<HttpServerOptions> = {}) {
  const symphony = new Symphony({ url, schema: db.schema, rails: [bank] })
  stops.push(() => symphony.close())
  const server = createHttpServer({ symphony, accessToken: 'a-token', ...given })
  stops.push(() => server.close())
  const address = await server.listen({ host: '127.0.0.1', port: 0 })
  const headers = { authorization: 'Bearer a-token', 'content-type': 'application/json' }
  const call = (path: string, body?: object) =>
    fetch(`${address}${path}`, {
      headers: { ...headers, ...(body === undefined ? {} : { 'idempotency-key': crypto.randomUUID() }) },
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    })
  const upload = (path: string, body: string) =>
    fetch(`${address}${path}`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/octet-stream' },
      body,
    })
  return { symphony, call, upload }
}

const PAYLOAD = { amount: '12.50', currency: 'EUR', destination: 'DE89370400440532013000' }

test('a server created from a Symphony accepts payments of its rails and shows their state', async () => {
  const { symphony, call } = await serve({ searchKey: 'a secret of thirty-two characters' })
  const instruction = { instructionId: 'HS-1', participantId: 'shop', railType: 'bank', payload: PAYLOAD }
  expect((await call('/v1/instructions', instruction)).status).toBe(201)
  expect((await call('/v1/instructions', { ...instruction, railType: 'unknown' })).status).toBe(422)
  await symphony.worker().runOnce()
  expect(await (await call('/v1/instructions/HS-1')).json()).toMatchObject({ items: [{ state: 'DISPATCHED' }] })
  expect((await call('/readyz')).status).toBe(200)
  const metrics = await (await call('/metrics')).text()
  expect(metrics).toContain('rail_answers_total{rail="bank",answer="success"} 1')
  const name = decodeURIComponent(new URL(url).pathname.slice(1))
  expect(await (await call('/v1/databases')).json()).toMatchObject({ databases: [{ name, state: 'up' }] })
  // The server itself hashes the destinations of payments whose blocks are sealed and projected.
  await sealLedger(db)
  while ((await new LedgerProjector(db.as('symphony_executor')).runOnce()).more);
  await vi.waitFor(
    async () =>
      expect(await (await call('/v1/outbox?destination=de89 3704 0044 0532 0130 00')).json()).toMatchObject({
        items: [{ instructionId: 'HS-1' }],
      }),
    { timeout: 10_000, interval: 100 },
  )
})

test('a server created from a Symphony compares a statement with the payments of its rails', async () => {
  const { symphony, call, upload } = await serve({ accessTokenOwner: 'olga' })
  const instruction = { instructionId: 'HS-2', participantId: 'shop', railType: 'bank', payload: PAYLOAD }
  const { outboxId } = await bodyOf(await call('/v1/instructions', instruction))
  await symphony.worker().runOnce()
  const entry = { reference: outboxId, amount: '12.50', currency: 'EUR', bookedOn: '2026-11-16' }
  const answer = await upload('/v1/reconciliations?rail=bank&format=ndjson', statementOf([entry]))
  expect(await answer.json()).toMatchObject({ counts: { matched: 1 }, repeated: false })
  const { rows } = await db.queryNoRole('SELECT actor FROM reconciliation_runs')
  expect(rows).toEqual([{ actor: expect.stringContaining('olga') }])
})

test('a server with api: false has health and metrics, and no API', async () => {
  const { call } = await serve({ api: false })
  expect((await call('/healthz')).status).toBe(200)
  expect((await call('/readyz')).status).toBe(200)
  expect((await call('/metrics')).status).toBe(200)
  expect((await call('/v1/status')).status).toBe(404)
})

test('a server with a fleet lists the databases of the fleet', async () => {
  const fleet = new SymphonyFleet({ databases: [{ name: 'north', url, schema: db.schema }] })
  stops.push(() => fleet.close())
  await fleet.start()
  const { call } = await serve({ fleet, symphony: fleet.of('north') })
  expect(await (await call('/v1/databases')).json()).toMatchObject({ databases: [{ name: 'north', state: 'up' }] })
})

test('createHttpServer refuses a short search key, a non-Symphony, and a Symphony without a url', () => {
  expect(() => createHttpServer({ symphony: new Symphony() })).toThrow(
    expect.objectContaining({ code: 'DATABASE_URL_MISSING' }),
  )
  const { events } = new Symphony()
  expect(() => createHttpServer({ symphony: { events, close: async () => {} } })).toThrow(
    expect.objectContaining({ code: 'INVALID_ARGUMENT', argument: 'symphony' }),
  )
  const symphony = new Symphony({ url, schema: db.schema })
  stops.push(() => symphony.close())
  expect(() => createHttpServer({ symphony, searchKey: 'short' })).toThrow(
    expect.objectContaining({ code: 'INVALID_ARGUMENT', argument: 'searchKey' }),
  )
})
