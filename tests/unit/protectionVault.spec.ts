import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { ArgumentRangeError, InvalidArgumentError } from '../../libs/core/index.js'
import { enqueue, enqueueMany, type OutboxInstruction } from '../../libs/outbox/index.js'
import {
  ensureSubjectKeys,
  FieldKeyMissingError,
  FieldVault,
  KeyRing,
  readSubjectKeys,
  rewrapSubjectKeys,
  SubjectErasedError,
  Vault,
} from '../../libs/protection/index.js'
import { loadRails } from '../../libs/rails/index.js'
import { useTestDatabase } from '../support/database.js'
import { buildInstruction } from '../support/outboxItems.js'
import { buildMasterKey, ProtectionFixture } from '../support/protectionFixture.js'
import { failureOf, race } from '../support/race.js'

/** Tests fields that are encrypted before they reach the database, and their data keys. */

const SECRET = 'DE89370400440532013000'
const first = buildMasterKey('first')
const second = buildMasterKey('second')
const db = await useTestDatabase()

const ingest = () => db.as('symphony_ingest')
const control = () => db.as('symphony_control')
const vault = () => new Vault(db)

function fixture(): {
  readonly fixture: ProtectionFixture
  readonly instruct: (payload?: object) => OutboxInstruction
} {
  const type = `rail-${randomUUID()}`
  const made = new ProtectionFixture(db, [first], {
    type,
    fields: { '/iban': 'encrypted', '/memo': 'forbidden', '/list/*/x': 'encrypted' },
    subject: '/who',
  })
  const instruct = (payload = {}) =>
    buildInstruction({ railType: type, payload: { who: randomUUID(), iban: SECRET, amount: '1', ...payload } })
  return { fixture: made, instruct }
}

async function stored(outboxId: string): Promise<string> {
  const { rows } = await db.queryNoRole<{ payload: string }>(
    'SELECT payload::text FROM payment_outbox_pending WHERE outbox_id = $1',
    [outboxId],
  )
  return rows[0]!.payload
}

describe('a payload field of class encrypted', () => {
  test('is ciphertext in the database; other fields are unchanged', async () => {
    const { fixture: made, instruct } = fixture()
    const instruction = instruct({ list: [{ x: { a: [1] }, y: 2 }, { y: 3 }] })
    const { outboxId } = await made.enqueue(instruction)
    const payload: Record<string, unknown> = JSON.parse(await stored(outboxId))
    expect(payload).toEqual({
      ...instruction.payload,
      iban: expect.stringMatching(/^symphony\.sealed\.v1\./),
      list: [{ x: expect.stringMatching(/^symphony\.sealed\.v1\./), y: 2 }, { y: 3 }],
    })
    const { rows } = await db.queryNoRole<{ n: string }>(
      `SELECT count(*)::text AS n FROM payment_outbox_pending p WHERE p::text LIKE $1`,
      [`%${SECRET}%`],
    )
    expect(rows[0]!.n).toBe('0')
  })

  test('counts as the same content if its JSON keys are reordered, not if its value differs', async () => {
    const { fixture: made, instruct } = fixture()
    const instruction = instruct({ iban: { a: 1, b: [2] } })
    const item = await made.enqueue(instruction)
    const again = await made.enqueue({ ...instruction, payload: { ...instruction.payload, iban: { b: [2], a: 1 } } })
    expect(again).toEqual({ ...item, created: false })
    const other = { ...instruction, payload: { ...instruction.payload, iban: { a: 2, b: [2] } } }
    expect(await failureOf(made.enqueue(other))).toMatchObject({ code: 'IDEMPOTENCY_CONFLICT' })
  })

  test('counts as the same content after the master key was rotated', async () => {
    const { fixture: made, instruct } = fixture()
    const instruction = instruct()
    const item = await made.enqueue(instruction)
    const both = new KeyRing([first, second], 'second')
    expect(await vault().rotate({ masterKeys: both })).toEqual({ masterKeyId: 'second', rewrapped: expect.any(Number) })
    expect((await vault().status()).masterKeys.map(({ masterKeyId }) => masterKeyId)).toEqual(['second'])
    expect(await vault().rotate({ masterKeys: both })).toEqual({ masterKeyId: 'second', rewrapped: 0 })
    const later = new FieldVault(made.rail.rails, new KeyRing([second], 'second'))
    expect(await enqueue(instruction, { tx: ingest(), protection: later })).toEqual({ ...item, created: false })
    // A producer with only the old master key fails instead of encrypting with another key.
    expect(await failureOf(made.enqueue(instruction))).toBeInstanceOf(FieldKeyMissingError)
    await vault().rotate({ masterKeys: new KeyRing([first, second], 'first') })
  })

  test('uses one data key per subject if four producers enqueue concurrently', async () => {
    const { fixture: made, instruct } = fixture()
    const who = randomUUID()
    const { values, errors } = await race(db, 'symphony_ingest', 4, (tx) => made.enqueue(instruct({ who }), tx))
    expect([values.length, errors]).toEqual([4, []])
    const { rows } = await db.queryNoRole<{ keys: string }>(
      `SELECT count(DISTINCT split_part(payload->>'iban', '.', 4))::text AS keys FROM payment_outbox_pending
       WHERE payload->>'who' = $1`,
      [who],
    )
    expect(rows[0]!.keys).toBe('1')
  })

  test('leaves no data key behind if its transaction rolls back', async () => {
    const { fixture: made, instruct } = fixture()
    const who = randomUUID()
    const client = await db.connect('symphony_ingest')
    await client.query('BEGIN')
    await made.enqueue(instruct({ who }), { query: (text, values) => client.query<never>(text, [...(values ?? [])]) })
    await client.query('ROLLBACK')
    expect(await failureOf(vault().shred({ subject: who, reason: 'gone' }))).toMatchObject({ code: 'SUBJECT_UNKNOWN' })
  })

  test('is refused without a master key or with an invalid subject', async () => {
    const { fixture: made, instruct } = fixture()
    const keyless = new FieldVault(made.rail.rails)
    expect(await failureOf(enqueue(instruct(), { tx: ingest(), protection: keyless }))).toBeInstanceOf(
      FieldKeyMissingError,
    )
    expect(await failureOf(made.enqueue(instruct({ who: 'two words' })))).toBeInstanceOf(InvalidArgumentError)
    expect(await failureOf(made.enqueue(instruct({ who: { deep: 1 } })))).toMatchObject({ argument: 'payload/who' })
    const instruction = instruct()
    const { who: _who, ...payload } = instruction.payload
    expect(await failureOf(made.enqueue({ ...instruction, payload }))).toBeInstanceOf(InvalidArgumentError)
  })

  test('is refused if it is a getter, which could return another value later', async () => {
    const { fixture: made, instruct } = fixture()
    const payload = Object.defineProperty({ who: 'x' }, 'iban', { enumerable: true, get: () => SECRET })
    const failure = await failureOf(made.enqueue({ ...instruct(), payload }))
    expect(failure).toMatchObject({ argument: 'payload.iban' })
  })
})

describe('FieldVault', () => {
  test('refuses a card number, and its whole batch, before it creates a key', async () => {
    const { fixture: made, instruct } = fixture()
    const who = randomUUID()
    const bad = instruct({ who, memo: 'my card is 4111 1111 1111 1111' })
    expect(await failureOf(made.enqueue(bad))).toMatchObject({ argument: 'payload/memo' })
    const batch = enqueueMany([instruct({ who }), bad], { tx: ingest(), protection: made.vault })
    const failure = await failureOf(batch)
    expect(failure).toMatchObject({ code: 'CARD_NUMBER_REFUSED' })
    expect(failure).toMatchObject({ argument: 'instructions[1].payload/memo' })
    expect(await failureOf(vault().shred({ subject: who, reason: 'x' }))).toMatchObject({ code: 'SUBJECT_UNKNOWN' })
  })

  test('returns payloads without an encrypted field unchanged and needs no key', async () => {
    const keyless = new FieldVault(
      loadRails([{ type: 'r', onUnknown: 'hold', dispatch: () => 1, fields: { '/a': 'encrypted' } }]),
    )
    const instructions = [buildInstruction(), buildInstruction({ railType: 'r', payload: { b: 1 } })]
    expect(await keyless.encrypt(ingest(), instructions)).toBe(instructions)
  })

  test('refuses more than 1,000 instructions before any query', () => {
    const instructions = Array.from({ length: 1_001 }, () => buildInstruction())
    expect(() => fixture().fixture.vault.encrypt(ingest(), instructions)).toThrow(ArgumentRangeError)
  })
})

describe('data keys of subjects', () => {
  const WRAPPED = 'A'.repeat(80)

  test('are destroyed for good for one subject; keys of other subjects stay', async () => {
    const { fixture: made, instruct } = fixture()
    const who = randomUUID()
    const { outboxId } = await made.enqueue(instruct({ who }))
    const before = await vault().status()
    expect(await vault().shred({ subject: who, reason: 'asked to' })).toBe(true)
    expect(await vault().shred({ subject: who, reason: 'asked again' })).toBe(false)
    expect(await vault().status()).toMatchObject({ live: before.live - 1, destroyed: before.destroyed + 1 })
    expect(await failureOf(made.enqueue(instruct({ who })))).toBeInstanceOf(SubjectErasedError)
    const keyId = JSON.parse(await stored(outboxId)).iban.split('.')[3]
    expect(await readSubjectKeys(db.as('symphony_executor'), [keyId])).toEqual([
      { keyId, subject: who, masterKeyId: null, wrappedKey: null, destroyed: true },
    ])
    const { rows } = await db.queryNoRole('SELECT * FROM subject_keys WHERE subject = $1', [who])
    expect(rows[0]).toMatchObject({
      destroyed_by: expect.any(String),
      destroyed_because: 'asked to',
      wrapped_key: null,
    })
    await made.enqueue(instruct())
  })

  test('are rewrapped only if they are still under the previous master key', async () => {
    const offered = { subject: randomUUID(), keyId: randomUUID(), wrappedKey: WRAPPED }
    await ensureSubjectKeys(ingest(), [offered], 'x')
    const next = [{ keyId: offered.keyId, wrappedKey: 'B'.repeat(80) }]
    expect(await rewrapSubjectKeys(control(), next, 'y', 'other')).toBe(0)
    expect(await rewrapSubjectKeys(control(), next, 'y', 'x')).toBe(1)
    expect(await rewrapSubjectKeys(control(), next, 'y', 'x')).toBe(0)
    // A key that its master key cannot unwrap stops a rotation, so that it is not lost silently.
    const rings = [new KeyRing([first], 'first'), new KeyRing([first, { ...second, id: 'y' }], 'first')]
    for (const masterKeys of rings)
      expect(await failureOf(vault().rotate({ masterKeys }))).toBeInstanceOf(FieldKeyMissingError)
    await vault().shred({ subject: offered.subject, reason: 'of the test' })
    expect(await rewrapSubjectKeys(control(), next, 'z', 'y')).toBe(0)
  })

  test('cannot have the id of another subject’s key', async () => {
    const taken = { subject: randomUUID(), keyId: randomUUID(), wrappedKey: WRAPPED }
    await ensureSubjectKeys(ingest(), [taken], 'x')
    const other = { ...taken, subject: randomUUID() }
    expect(await ensureSubjectKeys(ingest(), [other], 'x')).toEqual([])
    await vault().shred({ subject: taken.subject, reason: 'of the test' })
  })

  test.each([
    ['subjects that are not ids', `ensure_subject_keys(ARRAY['a b'], ARRAY[gen_random_uuid()], ARRAY['W'], 'm')`],
    [
      'a subject twice',
      `ensure_subject_keys(ARRAY['a','a'], ARRAY[gen_random_uuid(), gen_random_uuid()], ARRAY['W','W'], 'm')`,
    ],
    [
      'more keys than subjects',
      `ensure_subject_keys(ARRAY['a'], ARRAY[gen_random_uuid(), gen_random_uuid()], ARRAY['W','W'], 'm')`,
    ],
    ['a null among the ids', `ensure_subject_keys(ARRAY['a'], ARRAY[NULL]::uuid[], ARRAY['W'], 'm')`],
    ['no ids', `ensure_subject_keys(ARRAY['a'], NULL, ARRAY['W'], 'm')`],
    [
      'a wrapped key of another length',
      `ensure_subject_keys(ARRAY['a'], ARRAY[gen_random_uuid()], ARRAY['AAAA'], 'm')`,
    ],
    [
      'fewer wrapped keys than ids',
      `rewrap_subject_keys(ARRAY[gen_random_uuid(), gen_random_uuid()], ARRAY['W'], 'm', 'n')`,
    ],
    ['no master key', `ensure_subject_keys(ARRAY['a'], ARRAY[gen_random_uuid()], ARRAY['W'], NULL)`],
    ['no previous master key', `rewrap_subject_keys(ARRAY[gen_random_uuid()], ARRAY['W'], 'm', '')`],
    ['an empty list of ids', `read_subject_keys(ARRAY[]::uuid[])`],
    ['an invalid subject', `destroy_subject_key('two words', 'why')`],
    ['no reason', `destroy_subject_key('subject-1', ' ')`],
  ])('have SQL functions that refuse a call with %s (22023)', async (_what, call) => {
    const text = `SELECT * FROM ${call.replaceAll(`'W'`, `'${WRAPPED}'`)}`
    expect(await failureOf(db.queryNoRole(text))).toMatchObject({ code: '22023' })
  })
})
