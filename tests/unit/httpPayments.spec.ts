import { beforeAll, describe, expect, test } from 'vitest'
import { SCOPES, type Scope } from '../../libs/access/index.js'
import { call } from '../../libs/db/index.js'
import type { HoldPage, OutboxPage, Proof, Status, Timeline, WorkerHistory, Workers } from '../../libs/http/index.js'
import {
  DestinationHash,
  DestinationHasher,
  enqueuePaymentOutboxBatch,
  heartbeatOutboxWorker,
  recordLateOutcome,
  repairExpiredLeases,
} from '../../libs/outbox/index.js'
import { LedgerProjector } from '../../libs/ledger/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { useTestDatabase } from '../support/database.js'
import { createKey, openHttpFixture, problemOf } from '../support/httpFixture.js'
import { buildInstruction, claimOnly, complete, enqueue, enqueueAndClaim, WORKER } from '../support/outboxItems.js'
import { enqueueFailed, enqueueUnknown } from '../support/outboxPeople.js'
import { sealLedger } from '../support/sealLedger.js'

const db = await useTestDatabase()
const destinationHash = new DestinationHash('a secret of thirty-two characters')
const fixture = closeAfterAll(await openHttpFixture(db, { api: { destinationHash } }))
const keys = new Map<string, string>()
beforeAll(async () => {
  for (const owner of ['alice', 'bob']) keys.set(owner, (await createKey(db, { scopes: SCOPES, owner })).key)
})

async function get<Answer>(path: string): Promise<Answer> {
  const response = await fixture.call(path)
  const text = await response.text()
  if (!response.ok) throw new Error(`${path}: ${text}`)
  const answer: Answer = JSON.parse(text)
  return answer
}

/** Performs an operator action as one of two people. */
function act(person: 'alice' | 'bob', path: string, body?: object, method = 'POST'): Promise<Response> {
  return fixture.call(path, {
    method,
    headers: {
      authorization: `Bearer ${keys.get(person)}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
}

async function acted<Answer>(person: 'alice' | 'bob', path: string, body?: object): Promise<Answer> {
  const response = await act(person, path, body)
  const text = await response.text()
  expect([path, response.status, text]).toEqual([path, 200, text])
  const answer: Answer = JSON.parse(text)
  return answer
}

function post(body: unknown): Promise<Response> {
  const headers = { 'content-type': 'application/json' }
  return fixture.call('/v1/instructions/batch', { method: 'POST', headers, body: JSON.stringify(body) })
}

/** Returns the ids of all pages of a list, in order. */
async function pages(path: string, limit: number): Promise<string[]> {
  const ids: string[] = []
  for (let cursor: string | null = ''; cursor !== null;) {
    const page: OutboxPage = await get(`${path}&limit=${limit}${cursor === '' ? '' : `&cursor=${cursor}`}`)
    expect(page.items.length).toBeLessThanOrEqual(limit)
    ids.push(...page.items.map(({ outboxId }) => outboxId))
    cursor = page.next
  }
  return ids
}

describe('GET /v1/outbox', () => {
  test('returns each payment once over all pages of a participant, a rail or a state', async () => {
    const participantId = 'paged'
    const batch = Array.from({ length: 23 }, () => buildInstruction({ participantId, railType: 'paged-rail' }))
    const made = await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), batch)
    const newestFirst = made.map(({ outboxId }) => outboxId).toReversed()
    for (const limit of [1, 5, 23, 100]) {
      expect(await pages(`/v1/outbox?participant=${participantId}`, limit)).toEqual(newestFirst)
      expect((await pages('/v1/outbox?rail=paged-rail', limit)).toSorted()).toEqual(newestFirst.toSorted())
      expect((await pages(`/v1/outbox?state=DUE&participant=${participantId}`, limit)).toSorted()).toEqual(
        newestFirst.toSorted(),
      )
    }
    expect(await pages('/v1/outbox?rail=unknown-rail', 100)).toEqual([])
  })

  test('finds payments by instruction, participant, rail reference or outbox id', async () => {
    const item = await enqueue(db)
    const lease = await claimOnly(db, item.railType)
    await complete(db, lease, { state: 'DISPATCHED', railReference: `REF-${item.outboxId}` })
    const another = await enqueue(db, { instructionId: item.instructionId })
    const find = async (q: string) =>
      (await get<OutboxPage>(`/v1/outbox?q=${encodeURIComponent(q)}`)).items.map(({ outboxId }) => outboxId)
    expect(await find(item.instructionId)).toEqual([another.outboxId, item.outboxId])
    // A search by key finds only payments of this HTTP caller. This payment was enqueued in SQL.
    expect(await find(item.idempotencyKey)).toEqual([])
    expect(await find(item.participantId)).toEqual([item.outboxId])
    expect(await find(`REF-${item.outboxId}`)).toEqual([item.outboxId])
    expect(await find(item.outboxId)).toEqual([item.outboxId])
    expect(await find(item.outboxId.toUpperCase())).toEqual([item.outboxId])
    expect(await find(item.outboxId.slice(0, 23))).toContain(item.outboxId)
    expect(await find(item.outboxId.slice(0, 7))).toEqual([])
    expect(await find(`REF-${item.outboxId.slice(0, -1)}`)).toEqual([])
    expect((await get<OutboxPage>(`/v1/outbox?q=${item.instructionId}&state=DISPATCHED`)).items).toMatchObject([
      { outboxId: item.outboxId },
    ])
  })

  test('finds a payment by its idempotency key only for the caller that enqueued it over HTTP', async () => {
    const instruction = buildInstruction()
    const other = await enqueue(db, { idempotencyKey: instruction.idempotencyKey })
    const { items }: OutboxPage = JSON.parse(await (await post({ instructions: [instruction] })).text())
    const path = `/v1/outbox?q=${instruction.idempotencyKey}`
    const found = (await get<OutboxPage>(path)).items.map(({ outboxId }) => outboxId)
    expect(found).toEqual([items[0]!.outboxId])
    expect(found).not.toContain(other.outboxId)
    const headers = { authorization: `Bearer ${keys.get('alice')}` }
    expect(await (await fixture.call(path, { headers })).json()).toMatchObject({ items: [] })
  })

  test('lists a payment at once if sorted by newest, and after its projection if by oldest', async () => {
    const { outboxId } = await enqueue(db, { railType: 'current' })
    expect(await pages('/v1/outbox?rail=current&sort=newest', 1)).toEqual([outboxId])
    expect(await pages('/v1/outbox?rail=current&sort=oldest', 1)).toEqual([])
  })

  test('filters by amount and time, sorts by amount, and counts per state', async () => {
    const ids: string[] = []
    for (const amount of ['5', '20', '10']) {
      const item = await enqueue(db, { railType: 'amounts', payload: { amount, currency: 'XTS' } })
      ids.push(item.outboxId)
    }
    const [five, twenty, ten] = ids
    await sealLedger(db)
    while ((await new LedgerProjector(db.as('symphony_executor')).runOnce()).more);
    const year2000 = 'from=2000-01-01T00:00:00Z&to=2001-01-01T00:00:00Z'
    expect(await pages('/v1/outbox?currency=XTS', 2)).toEqual([twenty, ten, five])
    expect(await pages('/v1/outbox?currency=XTS&sort=smallest&state=DUE&amountMin=6', 1)).toEqual([ten, twenty])
    expect(await pages('/v1/outbox?currency=XTS&state=HELD', 2)).toEqual([])
    expect(await pages('/v1/outbox?currency=XTS&state=FAILED', 2)).toEqual([])
    expect(await pages('/v1/outbox?rail=amounts&sort=oldest', 2)).toEqual(ids)
    expect(await pages('/v1/outbox?rail=amounts&from=2000-01-01T00:00:00Z', 2)).toEqual(ids.toReversed())
    expect(await pages(`/v1/outbox?rail=amounts&${year2000}`, 2)).toEqual([])
    expect((await get<OutboxPage>(`/v1/outbox?q=${ten}&currency=XTS&amountMin=10`)).items).toHaveLength(1)
    expect((await get<OutboxPage>(`/v1/outbox?q=${ten}&currency=XTS&amountMin=11`)).items).toEqual([])
    expect((await get<OutboxPage>(`/v1/outbox?q=${ten}&${year2000}`)).items).toEqual([])
    expect(await get('/v1/outbox/counts?rail=amounts')).toEqual({
      states: { PENDING: 3, HELD: 0, DISPATCHED: 0, FAILED: 0, CANCELLED: 0 },
      returned: 0,
      truncated: false,
    })
    for (const list of ['dlq', 'holds', 'inbox', 'jobs/nightly/runs']) {
      expect(await get(`/v1/${list}?${year2000}`)).toEqual({ items: [], next: null })
    }
    const { next } = await get<OutboxPage>('/v1/outbox?currency=XTS&limit=1')
    for (const wrong of [
      'amountMin=5',
      'sort=largest',
      'currency=XTS&sort=oldest',
      'from=yesterday',
      'destination=',
      'from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z',
      `sort=oldest&cursor=${next}`,
    ]) {
      expect([wrong, await problemOf(await fixture.call(`/v1/outbox?${wrong}`))]).toMatchObject([
        wrong,
        { code: 'INVALID_QUERY' },
      ])
    }
  })

  test('filters by destination only with scope audit, complete hashes and the search key', async () => {
    const destination = 'DE89 3704 0044 0532 0130 00'
    const item = await enqueue(db, { railType: 'paid-to', participantId: 'payer', payload: { destination } })
    await call(db.as('symphony_executor'), 'declare_outbox_rail', ['paid-to', true, '{}', 'w', true])
    const hasher = new DestinationHasher(db.as('symphony_control'), destinationHash)
    await sealLedger(db)
    while ((await new LedgerProjector(db.as('symphony_executor')).runOnce()).more);
    while ((await hasher.runOnce()).more);
    const path = '/v1/outbox?destination=de89370400440532013000'
    expect(await pages(path, 5)).toEqual([item.outboxId])
    expect(await get('/v1/outbox/counts?destination=DE893704')).toMatchObject({ states: { PENDING: 0 } })
    expect((await get<OutboxPage>(`/v1/outbox?q=${item.outboxId}&destination=DE1`)).items).toEqual([])
    const asKey = async (scopes: readonly Scope[], participants?: readonly string[]) => {
      const { key } = await createKey(db, { scopes, owner: 'carl', ...(participants && { participants }) })
      return fixture.call(path, { headers: { authorization: `Bearer ${key}` } })
    }
    expect(await problemOf(await asKey(['read']))).toMatchObject({ code: 'SCOPE_MISSING' })
    expect(await (await asKey(['read', 'audit'], ['other'])).json()).toMatchObject({ items: [] })
    expect(await (await asKey(['read', 'audit'], ['payer'])).json()).toMatchObject({ items: [{ state: 'DUE' }] })
    expect(fixture.logged()).not.toContain('0532013000')
    for (const change of ['last_block = last_block + 99', `last_block = last_block - 99, hash_key = 'other'`]) {
      await db.queryNoRole(`UPDATE ledger_projection SET ${change}`)
      expect(await problemOf(await fixture.call(path))).toMatchObject({ code: 'DESTINATION_SEARCH_UNAVAILABLE' })
    }
    const without = await openHttpFixture(db)
    const problem = await problemOf(await without.call(path))
    await without.close()
    expect(problem).toMatchObject({ status: 503, detail: expect.stringContaining('SYMPHONY_SEARCH_KEY') })
  })

  test('filters by each state', async () => {
    const railType = 'states'
    const of = (ordered = false) => ({ railType, participantId: `p-${Math.random()}`, ordered })
    const dispatched = await enqueue(db, of())
    await complete(db, await claimOnly(db, railType), { state: 'DISPATCHED', railReference: 'x' })
    const failed = await enqueueFailed(db, of())
    const held = await enqueueUnknown(db, of())
    const expired = await enqueue(db, of())
    await claimOnly(db, railType)
    await db.expireLease(expired.outboxId)
    const leased = await enqueue(db, of())
    await db.queryNoRole(
      `UPDATE payment_outbox_pending SET claimed_by = 'w', lease_token = gen_random_uuid(), claimed_at = now(),
         lease_expires_at = now() + interval '1 hour' WHERE outbox_id = $1`,
      [leased.outboxId],
    )
    const scheduled = await enqueue(db, { ...of(), notBefore: new Date('2099-01-01') })
    const due = await enqueue(db, { railType, participantId: 'ordered', ordered: true })
    const blocked = await enqueue(db, { railType, participantId: 'ordered', ordered: true })
    const expected = {
      DISPATCHED: dispatched,
      FAILED: failed,
      HELD: held,
      EXPIRED: expired,
      LEASED: leased,
      SCHEDULED: scheduled,
      DUE: due,
      BLOCKED: blocked,
    }
    for (const [state, { outboxId }] of Object.entries(expected)) {
      const { items } = await get<OutboxPage>(`/v1/outbox?rail=${railType}&state=${state}`)
      expect([state, items.map((item) => [item.outboxId, item.state])]).toEqual([state, [[outboxId, state]]])
    }
  })

  test.each([
    ['an unknown parameter', 'stat=DUE', 'stat'],
    ['an unknown state', 'state=PAID', 'state'],
    ['a state twice', 'state=DUE&state=HELD', 'state'],
    ['limit 0', 'limit=0', 'limit'],
    ['limit 501', 'limit=501', 'limit'],
    ['a limit in hexadecimal', 'limit=0x10', 'limit'],
    ['a limit with a sign', 'limit=%2B5', 'limit'],
    ['an invalid cursor', 'cursor=abc', 'cursor'],
    [
      'the cursor of another list',
      `cursor=${Buffer.from('["HELD","01981f0e-7c00-7000-8000-000000000001"]').toString('base64url')}`,
      'cursor',
    ],
    ['a cursor with a bad id', `cursor=${Buffer.from('["outbox","1 OR 1=1"]').toString('base64url')}`, 'cursor'],
    [
      'a cursor beside q',
      `q=a&cursor=${Buffer.from('["outbox","01981f0e-7c00-7000-8000-000000000001"]').toString('base64url')}`,
      'cursor',
    ],
    ['a q with a NUL', 'q=a%00b', 'word'],
    ['a rail with a space', 'rail=a%20b', 'rail'],
  ])('answers 400 for %s and names the parameter', async (_, query, argument) => {
    expect(await problemOf(await fixture.call(`/v1/outbox?${query}`))).toMatchObject({
      status: 400,
      code: 'INVALID_QUERY',
      argument,
    })
  })
})

describe('GET /v1/outbox/{outboxId}', () => {
  test('shows lease, attempts, late outcome, hold, redrive, proposers and approvers', async () => {
    const item = await enqueueAndClaim(db)
    const leased = await get<Timeline>(`/v1/outbox/${item.outboxId}`)
    expect(leased.item).toMatchObject({
      state: 'LEASED',
      claimedBy: WORKER,
      leaseExpiresAt: expect.stringMatching(/\.\d{6}Z$/),
    })
    await db.expireLease(item.outboxId)
    await repairExpiredLeases(db.as('symphony_executor'), 10, WORKER)
    await recordLateOutcome(db.as('symphony_executor'), WORKER, { ...item, state: 'FAILED', errorCode: 'LATE' })
    await acted('alice', `/v1/outbox/${item.outboxId}/hold`, { reason: 'looks odd' })
    await acted('bob', `/v1/outbox/${item.outboxId}/notes`, { note: 'asked the bank', assignee: 'bob' })
    expect((await get<HoldPage>('/v1/holds')).items).toContainEqual(
      expect.objectContaining({
        assignee: 'bob',
        latestNote: expect.objectContaining({ note: 'asked the bank', actor: 'bob' }),
      }),
    )
    const assigned = async (name: string) => (await get<HoldPage>(`/v1/holds?assignee=${name}`)).items
    expect((await assigned('bob')).map((hold) => hold.item.outboxId)).toEqual([item.outboxId])
    expect(await assigned('alice')).toEqual([])
    const { proposalId } = await acted<{ proposalId: string }>('alice', `/v1/holds/${item.outboxId}/resolve`, {
      decision: 'FAILED',
      reason: 'not paid',
    })
    await acted('bob', `/v1/proposals/${proposalId}/approve`)
    const redrive = await acted<{ proposalId: string }>('bob', `/v1/outbox/${item.outboxId}/redrive`, {
      reason: 'pay it after all',
    })
    const { redrivenAs } = await acted<{ redrivenAs: string }>('alice', `/v1/proposals/${redrive.proposalId}/approve`)
    const timeline = await get<Timeline>(`/v1/outbox/${item.outboxId}`)
    expect(timeline.item).toMatchObject({ state: 'FAILED', claimedBy: null })
    expect(timeline.attempts.map(({ attemptNo, state, workerId }) => [attemptNo, state, workerId])).toEqual([
      [1, 'ZOMBIE_REQUEUE', WORKER],
      [2, 'FAILED', 'bob'],
    ])
    expect(timeline.events.map(({ eventType, actor }) => [eventType, actor])).toEqual([
      ['LATE_OUTCOME', WORKER],
      ['HOLD_PLACED', 'alice'],
      ['NOTE_ADDED', 'bob'],
      ['DECISION_PROPOSED', 'alice'],
      ['HOLD_RESOLVED', 'bob'],
      ['REDRIVE_PROPOSED', 'bob'],
      ['REDRIVE_CREATED', 'alice'],
    ])
    expect(timeline.proposals).toMatchObject([
      { decision: 'REDRIVE', status: 'APPROVED', proposedBy: 'bob', decidedBy: 'alice' },
      { decision: 'FAILED', status: 'APPROVED', proposedBy: 'alice', decidedBy: 'bob' },
    ])
    expect(timeline.redrivenAs).toEqual([redrivenAs])
    expect((await get<Timeline>(`/v1/outbox/${redrivenAs}`)).item).toMatchObject({ redriveOf: item.outboxId })
  })

  test('answers 404 for an unknown id and 422 for an invalid one', async () => {
    expect(await problemOf(await fixture.call('/v1/outbox/00000000-0000-7000-8000-000000000000'))).toMatchObject({
      code: 'ITEM_NOT_FOUND',
    })
    expect(await problemOf(await fixture.call('/v1/outbox/not-an-id'))).toMatchObject({
      code: 'INVALID_ARGUMENT',
      argument: 'outboxId',
    })
  })

  test('has a subroute /proof, which returns the bytes that the hash of each ledger row covers', async () => {
    const item = await enqueueUnknown(db, { payload: { note: 'ü€😀' } })
    await acted('alice', `/v1/holds/${item.outboxId}/resolve`, { decision: 'RETRY', reason: 'try again' })
    const proof = await get<Proof>(`/v1/outbox/${item.outboxId}/proof`)
    expect(proof).toMatchObject({ outboxId: item.outboxId, next: null })
    expect(proof.rows.map(({ kind, number }) => `${kind} ${number}`)).toEqual([
      'identity 0',
      'attempt 1',
      'event 1',
      'event 2',
    ])
    const records = proof.rows.map(({ record }) => Buffer.from(record ?? '', 'base64'))
    for (const record of records)
      expect(record.includes(Buffer.from(item.outboxId.replaceAll('-', ''), 'hex'))).toBe(true)
    expect(records.map((record) => record.includes('{"note": "ü€😀"}'))).toEqual([false, true, false, false])
  })
})

describe('a decision of an operator over HTTP', () => {
  test('is approved once and not by its proposer, even if the letter case of the name differs', async () => {
    const item = await enqueueUnknown(db)
    const proposed = await acted<{ status: string; proposalId: string }>(
      'alice',
      `/v1/holds/${item.outboxId}/resolve`,
      {
        decision: 'DISPATCHED',
        railReference: 'TX-9',
        reason: 'seen at the bank',
      },
    )
    expect(proposed.status).toBe('PROPOSED')
    const shouting = await createKey(db, { scopes: ['operate'], owner: 'ALICE' })
    for (const key of [keys.get('alice'), shouting.key]) {
      const response = await fixture.call(`/v1/proposals/${proposed.proposalId}/approve`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}` },
      })
      expect(await problemOf(response)).toMatchObject({ status: 409, code: 'SECOND_PERSON_REQUIRED' })
    }
    const { items } = await get<HoldPage>('/v1/holds')
    expect(items.find((one) => one.item.outboxId === item.outboxId)).toMatchObject({
      proposal: { proposedBy: 'alice', decision: 'DISPATCHED' },
    })
    expect(await acted('bob', `/v1/proposals/${proposed.proposalId}/approve`)).toMatchObject({
      outboxId: item.outboxId,
      decision: 'DISPATCHED',
    })
    expect(await problemOf(await act('bob', `/v1/proposals/${proposed.proposalId}/approve`))).toMatchObject({
      code: 'DECISION_REFUSED',
    })
    expect((await get<Timeline>(`/v1/outbox/${item.outboxId}`)).item).toMatchObject({
      state: 'DISPATCHED',
      lastRailReference: 'TX-9',
    })
  })

  test('cancels an unsent payment if the key has the scope ingest or operate', async () => {
    for (const scope of ['ingest', 'operate'] as const) {
      const item = await enqueue(db, { participantId: 'cancelling' })
      const { key } = await createKey(db, { scopes: [scope], owner: `shop-${scope}`, participants: ['cancelling'] })
      const cancel = () =>
        fixture.call(`/v1/outbox/${item.outboxId}/cancel`, {
          method: 'POST',
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
          body: JSON.stringify({ reason: 'the order was cancelled' }),
        })
      expect((await cancel()).status).toBe(200)
      expect(await get<Timeline>(`/v1/outbox/${item.outboxId}`)).toMatchObject({
        item: { state: 'FAILED', lastErrorCode: 'CANCELLED', lastAttemptAction: 'cancelled' },
        attempts: [{ action: 'cancelled', workerId: `shop-${scope}`, errorMessage: 'the order was cancelled' }],
      })
      expect(await problemOf(await cancel())).toMatchObject({
        status: 409,
        code: 'NOT_CANCELLABLE',
        reason: 'CANCELLED',
        detail: expect.stringContaining('Nothing is left to do.'),
      })
    }
  })

  test('cannot cancel a payment of another participant (404) or with a lease (409)', async () => {
    const foreign = await enqueue(db, { participantId: 'theirs' })
    const { key } = await createKey(db, { scopes: ['ingest'], owner: 'shop', participants: ['cancelling'] })
    const refused = await fixture.call(`/v1/outbox/${foreign.outboxId}/cancel`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ reason: 'mine' }),
    })
    expect(await problemOf(refused)).toMatchObject({ status: 404, code: 'ITEM_NOT_FOUND' })
    const leased = await enqueueAndClaim(db)
    const response = await act('alice', `/v1/outbox/${leased.outboxId}/cancel`, { reason: 'late' })
    expect(await problemOf(response)).toMatchObject({ status: 409, code: 'NOT_CANCELLABLE', reason: 'LEASED' })
  })

  test('is refused if the item is in the wrong state (409) or does not exist', async () => {
    const dispatched = await enqueue(db)
    await complete(db, await claimOnly(db, dispatched.railType), { state: 'DISPATCHED', railReference: 'x' })
    expect(
      await problemOf(await act('alice', `/v1/outbox/${dispatched.outboxId}/hold`, { reason: 'late' })),
    ).toMatchObject({ status: 409, code: 'ALREADY_ENDED', detail: expect.stringContaining('DISPATCHED') })
    const waiting = await enqueue(db)
    expect(
      await problemOf(await act('alice', `/v1/holds/${waiting.outboxId}/resolve`, { decision: 'RETRY', reason: 'x' })),
    ).toMatchObject({ code: 'DECISION_REFUSED', detail: expect.stringContaining('not held') })
    expect(
      await problemOf(await act('alice', `/v1/outbox/${waiting.outboxId}/redrive`, { reason: 'x' })),
    ).toMatchObject({ code: 'DECISION_REFUSED' })
    const unknownId = '00000000-0000-7000-8000-000000000000'
    expect(await problemOf(await act('alice', `/v1/outbox/${unknownId}/hold`, { reason: 'x' }))).toMatchObject({
      code: 'ITEM_NOT_FOUND',
    })
    expect(await problemOf(await act('alice', `/v1/proposals/${unknownId}/approve`))).toMatchObject({
      code: 'PROPOSAL_NOT_FOUND',
    })
  })

  test.each([
    ['no reason', {}, 'reason'],
    ['an empty reason', { reason: '' }, 'reason'],
    ['a blank reason', { reason: '  ' }, 'reason'],
    ['a reason of 1001 characters', { reason: 'x'.repeat(1_001) }, 'reason'],
    ['a reason that is a number', { reason: 7 }, 'reason'],
    ['an unknown field', { reason: 'x', force: true }, 'force'],
  ])('is refused with %s (422), and no hold is placed', async (_, body, argument) => {
    const { outboxId } = await enqueue(db)
    expect(await problemOf(await act('alice', `/v1/outbox/${outboxId}/hold`, body))).toMatchObject({
      status: 422,
      code: 'INVALID_ARGUMENT',
      argument,
    })
    expect((await get<Timeline>(`/v1/outbox/${outboxId}`)).item.state).toBe('DUE')
  })
})

describe('a batch of instructions over HTTP', () => {
  test('is accepted; a repetition returns the same items in the same order', async () => {
    const instructions = Array.from({ length: 3 }, () => buildInstruction({ participantId: 'batched' }))
    const first: { items: { outboxId: string; created: boolean }[] } = JSON.parse(
      await (await post({ instructions })).text(),
    )
    expect(first.items.map(({ created }) => created)).toEqual([true, true, true])
    const again: typeof first = JSON.parse(await (await post({ instructions })).text())
    expect(again.items).toMatchObject(first.items.map(({ outboxId }) => ({ outboxId, created: false })))
  })

  test('is refused as a whole if one item conflicts or is invalid, and that item is named', async () => {
    const known = buildInstruction({ participantId: 'all-or-none' })
    await post({ instructions: [known] })
    const fresh = buildInstruction({ participantId: 'all-or-none' })
    const conflict = await problemOf(await post({ instructions: [fresh, { ...known, payload: { amount: '2' } }] }))
    expect(conflict).toMatchObject({ status: 409, code: 'IDEMPOTENCY_CONFLICT', argument: 'instructions[1]' })
    const invalid = await problemOf(await post({ instructions: [fresh, { ...known, railType: '' }] }))
    expect(invalid).toMatchObject({ status: 422, code: 'INVALID_INSTRUCTION', argument: 'instructions[1].railType' })
    expect((await fixture.call(`/v1/instructions/${fresh.instructionId}`)).status).toBe(404)
  })

  test.each([
    ['no list', {}],
    ['an empty list', { instructions: [] }],
    ['1001 instructions', { instructions: Array.from({ length: 1_001 }, () => buildInstruction()) }],
    ['another field', { instructions: [buildInstruction()], atomic: false }],
    ['a list by itself', [buildInstruction()]],
  ])('is refused for %s (422)', async (_, body) => {
    expect(await problemOf(await post(body))).toMatchObject({ status: 422, code: 'INVALID_INSTRUCTION' })
  })
})

describe('GET /v1/status', () => {
  test('returns queue totals, rails, workers, pauses, throughput and errors', async () => {
    await heartbeatOutboxWorker(db.as('symphony_executor'), 'reporting', {
      running: 3,
      waiting: 1,
      completing: 0,
      rails: [{ railType: 'reported', breaker: 'half-open', calls: 3 }, { railType: 7 }, 'nonsense'],
    })
    const { workers } = await get<Workers>('/v1/workers')
    // Malformed entries of the worker's report are left out.
    expect(workers.find(({ workerId }) => workerId === 'reporting')).toMatchObject({
      rails: [{ railType: 'reported', breaker: 'half-open', calls: 3 }],
    })
    const change = { railType: 'reported', workerId: 'reporting', from: 'closed', to: 'half-open' }
    for (const query of ['', '?rail=reported', '?worker=reporting', '?rail=reported&worker=reporting'])
      expect(await get<WorkerHistory>(`/v1/workers/history${query}`)).toMatchObject({
        breakerChanges: [{ ...change, at: expect.any(String) }],
      })
    expect(await get<WorkerHistory>('/v1/workers/history?rail=reported&worker=other')).toEqual({
      breakerChanges: [],
      throughput: [],
    })
    for (const query of ['?rail=', '?worker=a%20b', '?workers=reporting'])
      expect(await problemOf(await fixture.call(`/v1/workers/history${query}`))).toMatchObject({
        code: 'INVALID_QUERY',
      })
    await db.queryNoRole(
      `INSERT INTO outbox_workers VALUES ('silent', now(), now() - interval '1 minute', '{}'), ('gone', now(), now() - interval '2 days', '{}')`,
    )
    await acted('alice', '/v1/pauses', { kind: 'rail', name: 'reported', reason: 'maintenance', force: true })
    await enqueueFailed(db)
    const fresh = await openHttpFixture(db)
    const status: Status = JSON.parse(await (await fresh.call('/v1/status')).text())
    await fresh.close()
    const { rows } = await db.queryNoRole(
      'SELECT pending_count::text AS pending, failed_total::text AS failed FROM supervisor_outbox_status',
    )
    expect(status.queue).toMatchObject({ pendingCount: rows[0]!['pending'], failedTotal: rows[0]!['failed'] })
    expect(status.workers).toEqual({ alive: 1, silent: 1 })
    expect(status.rails.find(({ railType }) => railType === 'reported')).toMatchObject({
      workers: 1,
      calls: 3,
      breakers: { closed: 0, halfOpen: 1, open: 0 },
      pause: { pausedBy: 'alice', reason: 'maintenance' },
    })
    expect(status.throughput).toHaveLength(60)
    const failed = status.throughput.reduce((sum, minute) => sum + minute.failed, 0)
    expect(String(failed)).toBe(status.queue.failedLastHour)
    expect(status.errors).toContainEqual({
      railType: expect.any(String),
      state: 'FAILED',
      errorCode: 'REFUSED',
      outcomeUnknown: false,
      count: 1,
    })
    expect(status.latency).toMatchObject({ sampled: expect.any(Number) })
  })

  test('queries the database at most once per second, however many callers ask', async () => {
    let queries = 0
    const readonly = db.as('symphony_readonly')
    const counted = await openHttpFixture(db, {
      roles: { readonly: { ...readonly, query: (text, values) => ((queries += 1), readonly.query(text, values)) } },
    })
    const first = await (await counted.call('/v1/status')).text()
    const asked = queries
    expect(asked).toBeGreaterThan(5)
    const others = await Promise.all(Array.from({ length: 5 }, async () => (await counted.call('/v1/status')).text()))
    await counted.close()
    // If the machine stalls for a second, the status is read a second time, but never once per caller.
    expect(queries).toBeLessThanOrEqual(2 * asked)
    expect(others).toContain(first)
  })
})

describe('the HTTP API', () => {
  test('creates, pauses, resumes, triggers and deletes a job', async () => {
    const body = { cron: '0 2 * * *', topic: 'reports', payload: { secret: 'CANARY' }, timeZone: 'Africa/Cairo' }
    const put = await act('alice', '/v1/jobs/nightly', body, 'PUT')
    expect(JSON.parse(await put.text())).toMatchObject({ name: 'nightly', created: true, state: 'ACTIVE' })
    expect(await acted('alice', '/v1/jobs/nightly/pause')).toEqual({ changed: true })
    expect(await acted('alice', '/v1/jobs/nightly/pause')).toEqual({ changed: false })
    expect(await acted('alice', '/v1/jobs/nightly/resume')).toEqual({ changed: true })
    await acted('bob', '/v1/jobs/nightly/trigger')
    const runs = await (await fixture.call('/v1/jobs/nightly/runs')).text()
    expect(JSON.parse(runs)).toMatchObject({ items: [{ triggeredBy: 'bob', state: 'READY' }] })
    const jobs = await (await fixture.call('/v1/jobs')).text()
    expect(jobs).toContain('Africa/Cairo')
    expect(jobs).not.toContain('CANARY')
    const gone = await act('alice', '/v1/jobs/nightly', undefined, 'DELETE')
    expect(JSON.parse(await gone.text())).toEqual({ name: 'nightly', deleted: true, runsRemoved: 1 })
    expect(await problemOf(await act('alice', '/v1/jobs/nightly/trigger'))).toMatchObject({ code: 'JOB_NOT_FOUND' })
    expect(await problemOf(await act('alice', '/v1/jobs/bad', { ...body, cron: '99 * * * *' }, 'PUT'))).toMatchObject({
      code: 'INVALID_ARGUMENT',
      argument: 'cron',
    })
  })

  test('creates a proposed payment once; its proposer cannot approve it, another person can', async () => {
    const path = '/v1/instructions/propose'
    const { key } = await createKey(db, { owner: 'alice', scopes: ['ingest'] })
    const headers = {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      'idempotency-key': 'entered-by-hand',
    }
    const body = { participantId: 'acme', railType: 'rail-of-people', payload: { amount: '1' }, reason: 'the rent' }
    const send = (given: object) => fixture.call(path, { method: 'POST', headers, body: JSON.stringify(given) })
    const first = await send(body)
    expect(first.status).toBe(201)
    const item: { outboxId: string; proposalId: string } = JSON.parse(await first.text())
    const again = await send({ ...body, reason: 'pressed twice' })
    expect([again.status, JSON.parse(await again.text())]).toEqual([200, { ...item, created: false }])
    expect(await problemOf(await act('alice', `/v1/proposals/${item.proposalId}/approve`))).toMatchObject({
      code: 'SECOND_PERSON_REQUIRED',
    })
    expect(await acted('bob', `/v1/proposals/${item.proposalId}/approve`)).toMatchObject({ applied: true })
    for (const bad of [
      { reason: '' },
      { reason: undefined },
      { notBefore: '2099-01-01T00:00:00Z' },
      { replaces: 'x' },
    ]) {
      expect(await problemOf(await send({ ...body, ...bad }))).toMatchObject({ code: 'INVALID_INSTRUCTION' })
    }
  })

  test('schedules one timer per timer id, however often the request is repeated', async () => {
    const path = '/v1/timers/01981f0e-7c00-7000-8000-0000000000aa'
    const body = { topic: 'reminders', payload: { remind: 'me' }, dueAt: '2099-01-01T01:00:00+01:00' }
    for (const _ of [1, 2]) {
      const put = await act('alice', path, body, 'PUT')
      expect([put.status, JSON.parse(await put.text())]).toEqual([200, { timerId: path.slice(11) }])
    }
    const { rows } = await db.queryNoRole(`SELECT due_at FROM scheduler_timers WHERE topic = 'reminders'`)
    expect(rows).toEqual([{ due_at: new Date('2099-01-01T00:00:00Z') }])
    expect(await problemOf(await act('alice', path, { ...body, topic: 'other' }, 'PUT'))).toMatchObject({
      code: 'IDEMPOTENCY_CONFLICT',
    })
    expect(await problemOf(await act('alice', path, { ...body, dueAt: '2099-01-01' }, 'PUT'))).toMatchObject({
      code: 'INVALID_ARGUMENT',
      argument: 'dueAt',
    })
  })

  test('revives a dead message, but no live one (MESSAGE_NOT_DEAD) or unknown one (404)', async () => {
    const reason = { reason: 'repaired' }
    expect(await problemOf(await act('alice', '/v1/inbox/bank/none/revive', reason))).toMatchObject({
      code: 'MESSAGE_NOT_FOUND',
    })
    await db.queryNoRole(`SELECT record_inbox_sighting('bank', 'é/😀')`)
    const path = `/v1/inbox/bank/${encodeURIComponent('é/😀')}/revive`
    expect(await problemOf(await act('alice', path, reason))).toMatchObject({ code: 'MESSAGE_NOT_DEAD' })
    await db.queryNoRole(`SELECT mark_inbox_dead('bank', 'é/😀', 'poison')`)
    expect(await acted('alice', path, reason)).toMatchObject({ source: 'bank', messageId: 'é/😀' })
  })
})
