import { beforeAll, expect, test } from 'vitest'
import { closeAfterAll } from '../support/afterAll.js'
import { useTestDatabase } from '../support/database.js'
import { bodyOf, createKey, openHttpFixture, problemOf } from '../support/httpFixture.js'
import { buildInstruction, enqueue, pendingRow } from '../support/outboxItems.js'

/** Tests of limits over HTTP. Access is tested with all routes in httpAccess.spec.ts. */

const db = await useTestDatabase()
const fixture = closeAfterAll(await openHttpFixture(db))
const people = { olga: '', pavel: '' }
beforeAll(async () => {
  for (const owner of ['olga', 'pavel'] as const) {
    people[owner] = (await createKey(db, { owner, scopes: ['read', 'operate'] })).key
  }
})

function ask(path: string, body?: object, as: keyof typeof people = 'olga'): Promise<Response> {
  const headers = { authorization: `Bearer ${people[as]}` }
  return fixture.call(path, {
    method: path === '/v1/limits' && body === undefined ? 'GET' : 'POST',
    headers: { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
}

const { railType } = buildInstruction()
const RULE = { kind: 'count', limit: '0', railType, windowSeconds: 60 }

async function propose(name: string, as: keyof typeof people = 'olga'): Promise<string> {
  const { proposalId } = await bodyOf(await ask('/v1/limits', { name, rule: RULE, reason: 'agreed' }, as))
  return String(proposalId)
}

test('a limit is proposed by one person, approved by another, and then holds payments above it', async () => {
  const proposalId = await propose('none')
  expect(await problemOf(await ask(`/v1/limits/proposals/${proposalId}/approve`))).toMatchObject({
    status: 409,
    code: 'SECOND_PERSON_REQUIRED',
  })
  expect(await bodyOf(await ask(`/v1/limits/proposals/${proposalId}/approve`, undefined, 'pavel'))).toEqual({
    proposalId,
    name: 'none',
  })
  const { outboxId } = await enqueue(db, { railType })
  expect(await pendingRow(db, outboxId)).toMatchObject({ hold_reason: 'LIMIT_EXCEEDED' })
  expect(await bodyOf(await ask('/v1/limits'))).toMatchObject({
    limits: [{ name: 'none', ...RULE, setBy: 'pavel', used: '0', exceededAt: expect.any(String) }],
    proposals: [],
  })
})

test('a proposed removal of a limit blocks other proposals for it; only one withdrawal succeeds', async () => {
  const { proposalId } = await bodyOf(await ask('/v1/limits/none/remove', { reason: 'over' }))
  expect(await problemOf(await ask('/v1/limits', { name: 'none', rule: RULE, reason: 'more' }))).toMatchObject({
    status: 409,
    code: 'DECISION_REFUSED',
  })
  expect(await bodyOf(await ask('/v1/limits'))).toMatchObject({ proposals: [{ proposalId, name: 'none', rule: null }] })
  const withdraw = `/v1/limits/proposals/${String(proposalId)}/withdraw`
  expect(await bodyOf(await ask(withdraw, { reason: 'kept' }, 'pavel'))).toEqual({ proposalId })
  expect(await problemOf(await ask(withdraw, { reason: 'kept' }))).toMatchObject({ code: 'DECISION_REFUSED' })
})

test.each([
  ['rule.limit', { ...RULE, limit: '1e3' }],
  ['rule.kind', { ...RULE, kind: 'sum' }],
  ['rule.windowSeconds', { ...RULE, windowSeconds: 59 }],
  ['p_limit_currency', { ...RULE, currency: 'EUR' }],
  ['p_rail_type', { kind: 'count', limit: '0', windowSeconds: 60 }],
])('a limit with an invalid %s is refused', async (argument, rule) => {
  const problem = await problemOf(await ask('/v1/limits', { name: 'refused', rule, reason: 'agreed' }))
  expect(problem).toMatchObject({ code: 'INVALID_ARGUMENT', detail: expect.stringContaining(argument) })
})

test('approving or withdrawing an unknown proposal of a limit answers 404', async () => {
  const unknown = '/v1/limits/proposals/01981f0e-7c00-7000-8000-000000000001'
  const notFound = { status: 404, code: 'PROPOSAL_NOT_FOUND' }
  expect(await problemOf(await ask(`${unknown}/approve`))).toMatchObject(notFound)
  expect(await problemOf(await ask(`${unknown}/withdraw`, { reason: 'kept' }))).toMatchObject(notFound)
})

test('the removal of an unknown limit is refused', async () => {
  expect(await problemOf(await ask('/v1/limits/unknown/remove', { reason: 'over' }))).toMatchObject({
    code: 'INVALID_ARGUMENT',
  })
})
