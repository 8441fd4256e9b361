import { randomUUID } from 'node:crypto'
import { describe, expect, onTestFinished, test } from 'vitest'
import { ApiKeys, isActorGateway } from '../../libs/access/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { useTestDatabase } from '../support/database.js'
import { createKey, bodyOf, openHttpFixture, problemOf } from '../support/httpFixture.js'

/** Tests of the identity of a payment over HTTP: the instruction id and the key. */

const db = await useTestDatabase()
const fixture = closeAfterAll(await openHttpFixture(db))

function buildBody(instructionId?: string) {
  const unique = randomUUID()
  return {
    ...(instructionId === undefined ? {} : { instructionId }),
    participantId: `participant-${unique}`,
    railType: `rail-${unique}`,
    payload: { amount: '12.50', currency: 'EUR' },
  }
}

async function countItems(key: string): Promise<number> {
  const count = 'SELECT count(*) AS count FROM payment_outbox_identities WHERE idempotency_key = $1'
  return Number((await db.queryNoRole<{ count: bigint }>(count, [key])).rows[0]!.count)
}

/** Posts one instruction as the holder of an API key. */
async function postAs(apiKey: string, body: object, idempotencyKey: string): Promise<Response> {
  return fixture.call('/v1/instructions', {
    method: 'POST',
    headers: {
      authorization: `Bearer ${apiKey}`,
      'content-type': 'application/json',
      'idempotency-key': idempotencyKey,
    },
    body: JSON.stringify(body),
  })
}

async function postBatch(instructions: readonly object[]): Promise<Response> {
  return fixture.call('/v1/instructions/batch', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ instructions }),
  })
}

describe('an Idempotency-Key that is already in use', () => {
  test('is refused with another instruction, and the answer names the first one (409 KEY_REUSED)', async () => {
    const key = randomUUID()
    expect((await fixture.post(buildBody('A-1'), key)).status).toBe(201)
    const response = await fixture.post(buildBody('A-2'), key)
    expect(await problemOf(response)).toMatchObject({
      status: 409,
      code: 'KEY_REUSED',
      instructionId: 'A-1',
      detail: expect.stringContaining('instruction A-1'),
    })
    expect(await countItems(key)).toBe(1)
  })

  test('is refused in a batch for another instruction; no item of the batch is stored (409)', async () => {
    const key = randomUUID()
    await fixture.post(buildBody('B-1'), key)
    const fresh = { ...buildBody('B-0'), idempotencyKey: randomUUID() }
    const response = await postBatch([fresh, { ...buildBody('B-2'), idempotencyKey: key }])
    expect(await problemOf(response)).toMatchObject({
      code: 'KEY_REUSED',
      instructionId: 'B-1',
      argument: 'instructions[1]',
    })
    expect(await countItems(fresh.idempotencyKey)).toBe(0)
  })

  test('is refused if two instructions of one batch use the same key (409)', async () => {
    const idempotencyKey = randomUUID()
    const response = await postBatch([
      { ...buildBody('C-1'), idempotencyKey },
      { ...buildBody('C-2'), idempotencyKey },
    ])
    expect(await problemOf(response)).toMatchObject({ status: 409, code: 'KEY_REUSED', instructionId: 'C-1' })
    expect(await countItems(idempotencyKey)).toBe(0)
  })

  test('stays in use if the API key of its owner is rotated, and is free for every other owner', async () => {
    const key = randomUUID()
    const first = await createKey(db, { scopes: ['ingest'], owner: 'shop' })
    expect((await postAs(first.key, buildBody('D-1'), key)).status).toBe(201)
    await new ApiKeys(db).revoke(first)
    const rotated = await createKey(db, { scopes: ['ingest'], owner: 'Shop' })
    expect(await problemOf(await postAs(rotated.key, buildBody('D-2'), key))).toMatchObject({ instructionId: 'D-1' })
    const other = await createKey(db, { scopes: ['ingest'], owner: 'warehouse' })
    expect((await postAs(other.key, buildBody('D-2'), key)).status).toBe(201)
    expect((await fixture.post(buildBody('D-3'), key)).status).toBe(201)
  })
})

describe('an instruction without instructionId', () => {
  test('gets its Idempotency-Key as instructionId; a repetition answers 200', async () => {
    const key = randomUUID()
    const body = buildBody()
    const first = await fixture.post(body, key)
    expect(first.status).toBe(201)
    expect(first.headers.get('location')).toBe(`/v1/instructions/${key}`)
    const accepted = await bodyOf(first)
    expect(accepted).toMatchObject({ instructionId: key, created: true })
    const again = await fixture.post(body, key)
    expect(again.status).toBe(200)
    expect(await bodyOf(again)).toEqual({ ...accepted, created: false })
  })

  test('is refused if its key was used with other content (409 IDEMPOTENCY_CONFLICT)', async () => {
    const key = randomUUID()
    await fixture.post(buildBody(), key)
    expect(await problemOf(await fixture.post(buildBody(), key))).toMatchObject({ code: 'IDEMPOTENCY_CONFLICT' })
    expect(await countItems(key)).toBe(1)
  })

  test('is accepted in a batch if it has an idempotencyKey, and refused without one (422)', async () => {
    const idempotencyKey = randomUUID()
    const accepted = await bodyOf(await postBatch([{ ...buildBody(), idempotencyKey }]))
    expect(accepted).toMatchObject({ items: [{ instructionId: idempotencyKey, created: true }] })
    expect(await problemOf(await postBatch([buildBody()]))).toMatchObject({
      status: 422,
      code: 'INVALID_INSTRUCTION',
      argument: 'instructions[0].instructionId',
    })
  })
})

test('an API whose login may not act for other people accepts no payment (503)', async () => {
  const control = db.as('symphony_control')
  const roles = {
    ingest: db.as('symphony_ingest'),
    mayActFor: (people: 'keys' | 'names') => isActorGateway(control, people),
  }
  const unlisted = await openHttpFixture(db, { roles })
  onTestFinished(() => unlisted.close())
  const key = randomUUID()
  expect(await problemOf(await unlisted.post(buildBody(), key))).toMatchObject({
    status: 503,
    code: 'OPERATE_UNAVAILABLE',
    detail: expect.stringContaining('symphony deploy --create-login'),
  })
  expect(await countItems(key)).toBe(0)
})

test('/openapi.json and /docs explain which ids identify a payment', async () => {
  const { tags } = await bodyOf(await fixture.call('/openapi.json'))
  expect(tags).toContainEqual({
    name: 'instructions',
    description: expect.stringMatching(/identify a payment.*KEY_REUSED.*Without an instruction id, the key is the id/),
  })
  expect(await (await fixture.call('/docs/page.js')).text()).toContain('description: rules')
})
