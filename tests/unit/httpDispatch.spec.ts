import { randomUUID } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import { closeAfterAll } from '../support/afterAll.js'
import { useTestDatabase } from '../support/database.js'
import { createKey, bodyOf, openHttpFixture, problemOf, TOKEN } from '../support/httpFixture.js'
import { rewindEpoch } from '../support/outboxEpochs.js'
import { claim, enqueue, enqueueAndClaim } from '../support/outboxItems.js'
import { createTimer } from '../support/scheduled.js'

/** Tests of freezes, pauses and cancelled timers over HTTP. */

const db = await useTestDatabase()
const fixture = closeAfterAll(await openHttpFixture(db))
let operator: string
beforeAll(async () => {
  operator = (await createKey(db, { owner: 'olga', scopes: ['read', 'operate'] })).key
})

function ask(path: string, body?: object, key = operator): Promise<Response> {
  const headers = { authorization: `Bearer ${key}` }
  if (body === undefined) return fixture.call(path, { headers })
  return fixture.call(path, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
}

async function cancel(timerId: string): Promise<Record<string, unknown>> {
  const headers = { authorization: `Bearer ${operator}` }
  return bodyOf(await fixture.call(`/v1/timers/${timerId}/cancel`, { method: 'POST', headers }))
}

const dispatch = async () => bodyOf(await ask('/v1/dispatch'))

test('GET /v1/dispatch shows neither freeze nor epoch before the first claim', async () => {
  expect(await dispatch()).toEqual({ frozen: false, freeze: null, lifted: null, epoch: null })
})

test('a freeze over HTTP stops claims until the lift; freeze and lift record person and reason', async () => {
  await enqueueAndClaim(db)
  const { railType } = await enqueue(db)
  expect(await dispatch()).toMatchObject({ frozen: false, freeze: null, epoch: { number: 1, timeline: 1 } })
  expect(await bodyOf(await ask('/v1/dispatch/freeze', { reason: 'snapshot of 03:00' }))).toEqual({ changed: true })
  expect(await bodyOf(await ask('/v1/dispatch/freeze', { reason: 'again' }))).toEqual({ changed: false })
  expect(await claim(db, railType)).toEqual([])
  expect(await dispatch()).toMatchObject({
    frozen: true,
    freeze: {
      by: 'olga',
      cause: 'OPERATOR',
      meaning: 'An operator froze dispatch.',
      reason: 'snapshot of 03:00',
      itemsMarked: null,
    },
    lifted: null,
  })
  // The person who froze dispatch may also lift the freeze. `onUnknown` of each rail still decides what is resent.
  expect(await bodyOf(await ask('/v1/dispatch/lift', { reason: 'both books agree' }))).toEqual({ changed: true })
  expect(await bodyOf(await ask('/v1/dispatch/lift', { reason: 'again' }))).toEqual({ changed: false })
  expect(await dispatch()).toMatchObject({
    frozen: false,
    freeze: null,
    lifted: { by: 'olga', reason: 'both books agree' },
  })
  const [item] = await claim(db, railType)
  expect(item).toMatchObject({ outcomeUnknown: true })
  const { rows } = await db.queryNoRole(
    `SELECT event_type, actor, detail->>'reason' AS reason FROM payment_outbox_events WHERE scope = 'dispatch'
       AND detail ? 'reason' ORDER BY event_no`,
  )
  expect(rows).toEqual([
    { event_type: 'PAUSED', actor: 'olga', reason: 'snapshot of 03:00' },
    { event_type: 'RESUMED', actor: 'olga', reason: 'both books agree' },
  ])
})

test('GET /v1/dispatch shows cause and meaning of a freeze that the database detected', async () => {
  await rewindEpoch(db, 'system_identifier = system_identifier + 1')
  const { railType } = await enqueue(db)
  expect(await claim(db, railType)).toEqual([])
  const { freeze } = await dispatch()
  expect(freeze).toMatchObject({ cause: 'ANOTHER_SERVER', meaning: expect.stringContaining('another server') })
  await ask('/v1/dispatch/lift', { reason: 'compared' })
})

test('a freeze cannot be lifted without a reason or with a read key', async () => {
  await ask('/v1/dispatch/freeze', { reason: 'for this test' })
  const reader = await createKey(db, { owner: 'rita', scopes: ['read'] })
  expect(await problemOf(await ask('/v1/dispatch/lift', { reason: '' }))).toMatchObject({ argument: 'reason' })
  expect(await problemOf(await ask('/v1/dispatch/lift', { reason: ' ' }))).toMatchObject({ code: 'INVALID_ARGUMENT' })
  expect(await problemOf(await ask('/v1/dispatch/lift', { reason: 'r' }, reader.key))).toMatchObject({
    code: 'SCOPE_MISSING',
  })
  expect(await dispatch()).toMatchObject({ frozen: true })
  await ask('/v1/dispatch/lift', { reason: 'compared' })
})

test('a timer is cancelled once over HTTP; a second call or an unknown id changes nothing', async () => {
  const { timerId } = await createTimer(db, { dueAt: new Date('2099-01-01T00:00:00Z') })
  expect(await cancel(timerId)).toEqual({ changed: true })
  expect(await cancel(timerId)).toEqual({ changed: false })
  expect(await cancel('00000000-0000-0000-0000-000000000000')).toEqual({ changed: false })
  const { rows } = await db.queryNoRole('SELECT state FROM scheduler_timers WHERE timer_id = $1', [timerId])
  expect(rows).toEqual([{ state: 'CANCELLED' }])
})

test('a pause of an unknown name is refused with a suggestion (UNKNOWN_NAME) unless forced', async () => {
  const { railType } = await enqueue(db)
  const name = railType.toUpperCase()
  const refused = await ask('/v1/pauses', { kind: 'rail', name, reason: 'closed' })
  expect(await problemOf(refused)).toMatchObject({ status: 422, code: 'UNKNOWN_NAME', argument: 'name' })
  expect((await problemOf(await ask('/v1/pauses', { kind: 'rail', name, reason: 'closed' }))).detail).toContain(
    `Did you mean ${railType}?`,
  )
  expect(await bodyOf(await ask('/v1/pauses', { kind: 'rail', name, reason: 'closed', force: true }))).toEqual({
    changed: true,
  })
  expect(await bodyOf(await ask('/v1/pauses'))).toMatchObject({ rails: expect.arrayContaining([railType, name]) })
  expect(await bodyOf(await ask('/v1/pauses/resume', { kind: 'rail', name, reason: 'open' }))).toEqual({
    changed: true,
  })
  expect(await problemOf(await ask('/v1/pauses', { kind: 'rail', reason: 'closed' }))).toMatchObject({
    code: 'INVALID_ARGUMENT',
    argument: 'name',
  })
})

test('a pause of kind all stops every claim, and the status shows its author and reason', async () => {
  const { railType } = await enqueue(db)
  expect(await bodyOf(await ask('/v1/pauses', { kind: 'all', reason: 'reconciliation' }))).toEqual({ changed: true })
  expect(await claim(db, railType)).toEqual([])
  expect(await bodyOf(await ask('/v1/status'))).toMatchObject({
    allPaused: { kind: 'all', pausedBy: 'olga', reason: 'reconciliation' },
  })
  expect(await bodyOf(await ask('/v1/pauses/resume', { kind: 'all', reason: 'done' }))).toEqual({ changed: true })
  expect(await claim(db, railType)).toHaveLength(1)
})

test.each([
  ['PUT', `/v1/timers/${randomUUID()}`, { dueAt: '2020-01-01T00:00:00Z' }],
  ['PUT', '/v1/jobs/forged', { cron: '0 2 * * *' }],
])('the route %s %s answers 422 for the topic and participants of alert notices', async (method, path, rest) => {
  const put = (body: object) =>
    fixture.call(path, {
      method,
      headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
      body: JSON.stringify({ topic: 'notes', payload: {}, ...rest, ...body }),
    })
  for (const [argument, value] of [
    ['topic', 'symphony.alerts'],
    ['participantId', 'alert:ops:SymphonyPaymentsHeld'],
  ] as const)
    expect(await problemOf(await put({ [argument]: value }))).toMatchObject({ status: 422, argument })
})
