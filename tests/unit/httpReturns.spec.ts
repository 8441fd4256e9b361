import { beforeAll, describe, expect, test } from 'vitest'
import { SCOPES } from '../../libs/access/index.js'
import { call } from '../../libs/db/index.js'
import type { OutboxPage, ReturnRecorded, Timeline } from '../../libs/http/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { useTestDatabase } from '../support/database.js'
import { createKey, openHttpFixture, problemOf } from '../support/httpFixture.js'
import { buildInstruction, enqueue, eventRows } from '../support/outboxItems.js'
import { enqueueFailed, enqueuePaid } from '../support/outboxPeople.js'

/** Tests returns and replacements of payments over HTTP. */

const db = await useTestDatabase()
const fixture = closeAfterAll(await openHttpFixture(db))
let operator: string
beforeAll(async () => {
  operator = (await createKey(db, { scopes: SCOPES, owner: 'alice' })).key
})

const MONEY = { amount: '10.50', currency: 'EUR', code: 'AC04', reference: 'RT-1' }

function post(path: string, body: object, key = operator, headers: Readonly<Record<string, string>> = {}) {
  return fixture.call(path, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
}

function postReturn(outboxId: string, body: object = MONEY, key = operator) {
  return post(`/v1/outbox/${outboxId}/returns`, body, key)
}

async function read<Answer>(response: Promise<Response>): Promise<Answer> {
  const answered = await response
  expect(answered.status).toBe(200)
  const answer: Answer = JSON.parse(await answered.text())
  return answer
}

/** Returns the ids of the payments that a query lists. */
async function list(query: string): Promise<string[]> {
  const { items } = await read<OutboxPage>(fixture.call(`/v1/outbox?${query}`))
  return items.map(({ outboxId }) => outboxId)
}

/** Builds the body of an instruction that replaces a payment. */
function replacing({ outboxId, participantId }: { readonly outboxId: string; readonly participantId: string }) {
  const { instructionId, railType, payload } = buildInstruction()
  return { instructionId, participantId, railType, payload, replaces: outboxId }
}

function send(body: { readonly instructionId: string }, key = operator) {
  return post('/v1/instructions', body, key, { 'idempotency-key': body.instructionId })
}

describe('POST /v1/outbox/{outboxId}/returns', () => {
  test('records a return once, in the name of the key’s owner, and the timeline shows it', async () => {
    const { outboxId } = await enqueuePaid(db)
    const body = { ...MONEY, occurredAt: '2026-01-31T12:00:00+01:00' }
    const first = await read<ReturnRecorded>(postReturn(outboxId, body))
    expect(first).toEqual({ outboxId, eventId: expect.any(String), created: true, returnedTotal: '10.50' })
    expect(await read<ReturnRecorded>(postReturn(outboxId, body))).toEqual({ ...first, created: false })
    const timeline = await read<Timeline>(fixture.call(`/v1/outbox/${outboxId}`))
    expect(timeline).toMatchObject({
      item: { state: 'DISPATCHED', returned: true, returnedAmount: '10.50' },
      events: [
        {
          eventType: 'RETURN_RECORDED',
          actor: 'alice',
          detail: { amount: '10.50', occurred_at: '2026-01-31T11:00:00.000000Z' },
        },
      ],
      replacedBy: null,
    })
  })

  test('shows no amount in the timeline if the rail masks amounts', async () => {
    const railType = 'discreet'
    const fields = JSON.stringify({ '/amount': 'masked' })
    await call(db.as('symphony_executor'), 'declare_outbox_rail', [railType, true, fields, 'w', true])
    const { outboxId } = await enqueuePaid(db, { railType })
    await read<ReturnRecorded>(postReturn(outboxId, { ...MONEY, amount: '9.87' }))
    const { key } = await createKey(db, { scopes: ['read'], owner: 'reader' })
    const headers = { authorization: `Bearer ${key}` }
    const timeline = await (await fixture.call(`/v1/outbox/${outboxId}`, { headers })).text()
    expect(timeline).toContain('RETURN_RECORDED')
    expect(timeline).toContain('"currency":"EUR"')
    expect(timeline).not.toContain('9.87')
  })

  test('answers 409 to more money than was paid, a used reference, and an undispatched payment', async () => {
    const { outboxId } = await enqueuePaid(db)
    const answers = async (id: string, body: object) => {
      const { status, code, detail } = await problemOf(await postReturn(id, body))
      return [status, code, detail?.includes(id)]
    }
    expect(await answers(outboxId, { ...MONEY, amount: '10.51' })).toEqual([409, 'RETURN_EXCEEDS_PAYMENT', true])
    await postReturn(outboxId)
    expect(await answers(outboxId, { ...MONEY, code: 'MD06' })).toEqual([409, 'IDEMPOTENCY_CONFLICT', true])
    expect(await answers((await enqueueFailed(db)).outboxId, MONEY)).toEqual([409, 'ALREADY_ENDED', true])
    expect(await answers((await enqueue(db)).outboxId, MONEY)).toEqual([409, 'DECISION_REFUSED', true])
  })

  test.each([
    ['another currency', { ...MONEY, currency: 'CHF' }],
    ['an amount with a sign', { ...MONEY, amount: '-1' }],
    ['an amount as a number', { ...MONEY, amount: 10.5 }],
    ['more digits than the currency has', { ...MONEY, amount: '1.001' }],
    ['no reference', { amount: '1', currency: 'EUR', code: 'AC04' }],
    ['a time without an offset', { ...MONEY, occurredAt: '2026-01-31T12:00:00' }],
    ['an unknown field', { ...MONEY, reason: 'closed' }],
  ])('answers 422 to %s and records nothing', async (_, body) => {
    const { outboxId } = await enqueuePaid(db)
    expect(await problemOf(await postReturn(outboxId, body))).toMatchObject({ status: 422, code: 'INVALID_ARGUMENT' })
    expect(await eventRows(db, outboxId)).toEqual([])
  })

  test('needs the scope operate; a key restricted to participants records only their returns', async () => {
    const mine = await enqueuePaid(db)
    const other = await enqueuePaid(db)
    const ingest = await createKey(db, { scopes: ['ingest', 'read', 'audit'], owner: 'shop' })
    expect(await problemOf(await postReturn(mine.outboxId, MONEY, ingest.key))).toMatchObject({ code: 'SCOPE_MISSING' })
    const { key } = await createKey(db, { scopes: ['operate'], owner: 'bob', participants: [mine.participantId] })
    expect(await problemOf(await postReturn(other.outboxId, MONEY, key))).toMatchObject({ code: 'ITEM_NOT_FOUND' })
    expect(await eventRows(db, other.outboxId)).toEqual([])
    expect(await read<ReturnRecorded>(postReturn(mine.outboxId, MONEY, key))).toMatchObject({ created: true })
  })
})

test('GET /v1/outbox?returned=true lists only returned payments, even with a search word', async () => {
  const railType = 'returned-rail'
  const kept = await enqueuePaid(db, { railType })
  const back = await enqueuePaid(db, { railType, participantId: 'returned-participant' })
  await postReturn(back.outboxId, { ...MONEY, amount: '1' })
  expect(await list(`returned=true&rail=${railType}`)).toEqual([back.outboxId])
  expect(await list('returned=true&participant=returned-participant')).toEqual([back.outboxId])
  expect(await list(`returned=true&state=DISPATCHED&rail=${railType}`)).toEqual([back.outboxId])
  expect(await list(`returned=true&q=${back.instructionId}`)).toEqual([back.outboxId])
  expect(await list(`returned=true&q=${kept.instructionId}`)).toEqual([])
  for (const query of ['returned=false', 'returned=true&state=FAILED']) {
    expect(await problemOf(await fixture.call(`/v1/outbox?${query}`))).toMatchObject({ code: 'INVALID_QUERY' })
  }
})

describe('an instruction with a replaces field', () => {
  test('is accepted for a returned payment, and each timeline names the other payment', async () => {
    const old = await enqueuePaid(db)
    await postReturn(old.outboxId)
    const response = await send(replacing(old))
    expect(response.status).toBe(201)
    const { outboxId }: { outboxId: string } = JSON.parse(await response.text())
    expect(await read<Timeline>(fixture.call(`/v1/outbox/${old.outboxId}`))).toMatchObject({ replacedBy: outboxId })
    expect(await read<Timeline>(fixture.call(`/v1/outbox/${outboxId}`))).toMatchObject({
      item: { replaces: old.outboxId },
      replacedBy: null,
    })
  })

  test('is refused for a payment that was not returned (NOT_REPLACEABLE), alone and in a batch', async () => {
    const old = await enqueuePaid(db)
    expect(await problemOf(await send(replacing(old)))).toMatchObject({
      status: 409,
      code: 'NOT_REPLACEABLE',
      detail: expect.stringContaining('NOT_RETURNED'),
    })
    expect(await problemOf(await post('/v1/instructions/batch', { instructions: [replacing(old)] }))).toMatchObject({
      code: 'NOT_REPLACEABLE',
    })
  })

  test('cannot replace a payment of a participant that the key may not see', async () => {
    const other = await enqueueFailed(db)
    const mine = 'replacing-participant'
    const { key } = await createKey(db, { scopes: ['ingest'], owner: 'shop', participants: [mine] })
    const body = { ...replacing(other), participantId: mine }
    expect(await problemOf(await send(body, key))).toMatchObject({
      code: 'NOT_REPLACEABLE',
      detail: expect.stringContaining('UNKNOWN_PAYMENT'),
    })
  })
})
