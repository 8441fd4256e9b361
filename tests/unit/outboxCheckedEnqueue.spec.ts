import { randomUUID } from 'node:crypto'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { InvalidPayloadError } from '../../libs/core/index.js'
import { enqueue, enqueueMany, type OutboxInstruction } from '../../libs/outbox/index.js'
import { loadRails } from '../../libs/rails/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { symphony } from '../support/commandLine.js'
import { useTestDatabase } from '../support/database.js'
import { bodyOf, openHttpFixture, problemOf } from '../support/httpFixture.js'
import { sequenceOf } from '../support/outboxItems.js'
import { failureOf, openConnection } from '../support/race.js'

/** Tests that a process with configured rails refuses an invalid payment before COMMIT. */

const rails = loadRails([{ type: 'resend-bank', onUnknown: 'hold', dispatch: () => undefined }])
const db = await useTestDatabase()
const fixture = closeAfterAll(await openHttpFixture(db, { api: { rails } }))
let railsFile: string
beforeAll(async () => {
  railsFile = join(await mkdtemp(join(tmpdir(), 'rails-')), 'rails.mjs')
  await writeFile(railsFile, `export default [{ type: 'resend-bank', onUnknown: 'hold', dispatch: () => undefined }]\n`)
})

const SOUND = { amount: '12.50', currency: 'EUR', destination: 'DE89370400440532013000' }

function buildInstruction(overrides: Partial<OutboxInstruction> = {}): OutboxInstruction {
  const id = randomUUID()
  return {
    instructionId: id,
    idempotencyKey: id,
    participantId: `p-${id}`,
    railType: 'resend-bank',
    payload: SOUND,
    ...overrides,
  }
}

function post({ idempotencyKey, ...body }: OutboxInstruction): Promise<Response> {
  return fixture.post(body, idempotencyKey)
}

const FAULTS: readonly (readonly [string, Partial<OutboxInstruction>, string, string])[] = [
  ['a currency that does not exist', { payload: { ...SOUND, amount: 12.5, currency: 'EURO' } }, 'payload', 'INVALID_'],
  ['a negative amount', { payload: { amount: -1 } }, 'payload', 'INVALID_AMOUNT'],
  ['a misspelt rail', { railType: 'Resend-Bnk' }, 'railType', 'did you mean resend-bank?'],
]

describe.each(FAULTS)('a payment with %s', (_, fault, argument, message) => {
  test('is refused by an API with rails (422 INVALID_PAYLOAD) and takes no sequence number', async () => {
    const instruction = buildInstruction(fault)
    expect(await problemOf(await post(instruction))).toMatchObject({
      status: 422,
      code: 'INVALID_PAYLOAD',
      argument,
      detail: expect.stringContaining(message),
    })
    expect(await sequenceOf(db, instruction.participantId)).toEqual({ taken: [], next: undefined })
  })

  test('is refused by enqueue with rails (InvalidPayloadError); the transaction continues', async () => {
    const tx = await openConnection(db, 'symphony_ingest')
    const instruction = buildInstruction(fault)
    const other = buildInstruction()
    await tx.query('BEGIN')
    const error = await failureOf(enqueue(instruction, { tx, rails }))
    expect(error).toBeInstanceOf(InvalidPayloadError)
    expect(error).toMatchObject({ code: 'INVALID_PAYLOAD', argument, message: expect.stringContaining(message) })
    expect((await enqueue(other, { tx, rails })).created).toBe(true)
    await tx.query('COMMIT')
    await tx.close()
    expect(await sequenceOf(db, instruction.participantId)).toEqual({ taken: [], next: undefined })
    expect(await sequenceOf(db, other.participantId)).toEqual({ taken: [1n], next: 2n })
  })

  test('is not refused if it was enqueued before without rails; other content conflicts (409)', async () => {
    const instruction = buildInstruction(fault)
    const ingest = db.as('symphony_ingest')
    const first = await enqueue(instruction, { tx: ingest })
    expect(await enqueue(instruction, { tx: ingest, rails })).toEqual({ ...first, created: false })
    const response = await post(instruction)
    expect(response.status).toBe(200)
    expect(await bodyOf(response)).toMatchObject({ outboxId: first.outboxId, created: false })
    const other = { ...instruction, payload: { ...instruction.payload, note: 'other' } }
    expect(await problemOf(await post(other))).toMatchObject({ status: 409, code: 'IDEMPOTENCY_CONFLICT' })
  })

  test('is refused by symphony enqueue --rails with exit code 1, alone and in a file', async () => {
    const instruction = buildInstruction(fault)
    const env = { DATABASE_URL: db.url, SYMPHONY_SCHEMA: db.schema }
    const { instructionId, participantId, railType, payload } = instruction
    const words = ['--instruction', instructionId, '--participant', participantId, '--rail', railType]
    const one = await symphony(['enqueue', ...words, '--payload', JSON.stringify(payload), '--rails', railsFile], env)
    expect([one.exitCode, one.stderr]).toEqual([1, expect.stringContaining(message)])
    const file = join(await mkdtemp(join(tmpdir(), 'payments-')), 'payments.ndjson')
    await writeFile(file, [buildInstruction(), instruction].map((line) => JSON.stringify(line)).join('\n'))
    const many = await symphony(['enqueue', '--file', file, '--rails', railsFile], env)
    expect([many.exitCode, many.stderr]).toEqual([1, expect.stringMatching(/line 2, (payload|railType): /)])
    expect(await sequenceOf(db, participantId)).toEqual({ taken: [], next: undefined })
  })
})

test('a batch request with an invalid payment is refused as a whole; the response names the item', async () => {
  const batch = [buildInstruction(), buildInstruction({ railType: 'resend-bnk' })]
  const response = await fixture.call('/v1/instructions/batch', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ instructions: batch }),
  })
  expect(await problemOf(response)).toMatchObject({ code: 'INVALID_PAYLOAD', argument: 'instructions[1].railType' })
  expect(await sequenceOf(db, batch[0]!.participantId)).toEqual({ taken: [], next: undefined })
})

test('enqueueMany with rails accepts an invalid payment that was enqueued before', async () => {
  const known = buildInstruction({ payload: { amount: '-1' } })
  const ingest = db.as('symphony_ingest')
  await enqueue(known, { tx: ingest })
  const items = await enqueueMany([known, buildInstruction()], { tx: ingest, rails })
  expect(items.map(({ created }) => created)).toEqual([false, true])
})

test('enqueueMany enqueues none of 1,001 payments if a rail refuses the last', async () => {
  const { participantId } = buildInstruction()
  const valid = Array.from({ length: 1_000 }, () => buildInstruction({ participantId }))
  const refused = buildInstruction({ participantId, payload: { amount: '-1' } })
  const after = buildInstruction({ participantId })
  await db.as('symphony_ingest').transaction(async (tx) => {
    await expect(enqueueMany([...valid, refused], { tx, rails })).rejects.toThrow(InvalidPayloadError)
    await enqueueMany([after], { tx, rails })
  })
  expect(await sequenceOf(db, participantId)).toMatchObject({ taken: [1n] })
})

test('an API without rails accepts every rail', async () => {
  const unaware = await openHttpFixture(db, { api: { rails: new Map() } })
  onTestFinished(() => unaware.close())
  const { idempotencyKey, ...body } = buildInstruction({ railType: 'unheard-of' })
  expect((await unaware.post(body, idempotencyKey)).status).toBe(201)
})
