import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Proof } from '../../libs/http/index.js'
import { OutboxRelayer, type OutboxInstruction } from '../../libs/outbox/index.js'
import { FieldVault, KeyRing, Vault } from '../../libs/protection/index.js'
import { loadRails, maskPayloadText } from '../../libs/rails/index.js'
import { useTestDatabase } from '../support/database.js'
import { openHttpFixture, problemOf, type HttpFixture } from '../support/httpFixture.js'
import { buildInstruction } from '../support/outboxItems.js'
import { buildMasterKey } from '../support/protectionFixture.js'

/** Tests of the field classes that rails declare, as the API applies them. */

const IBAN = 'DE89370400440532013000'
const rail = (type: string, fields: object) => ({
  type,
  onUnknown: 'resend',
  money: false,
  fields,
  dispatch: () => ({ outcome: 'terminal', code: 'NO' }),
})
const rails = loadRails([
  rail('encrypted', { '/iban': 'encrypted', '/memo': 'forbidden' }),
  rail('masked', { '/iban': 'masked' }),
  rail('open', {}),
])
const key = buildMasterKey('m')

const db = await useTestDatabase()
let fixture: HttpFixture
beforeAll(async () => {
  fixture = await openHttpFixture(db, {
    api: { protection: protectionWith(new FieldVault(rails, new KeyRing([key], 'm'))) },
  })
})
afterAll(async () => {
  await fixture.close()
})

function protectionWith(vault: FieldVault) {
  return {
    encrypt: vault.encrypt.bind(vault),
    maskFor: async (_role: unknown, railType: string) => (text: string) =>
      maskPayloadText(text, rails.get(railType)?.fields ?? []),
  }
}

function bodyOf({ idempotencyKey: _key, ...body }: OutboxInstruction): object {
  return body
}

describe('an instruction on a rail with field classes', () => {
  test('is stored with encrypted fields, alone and in a batch, and stays idempotent', async () => {
    const instruction = buildInstruction({ railType: 'encrypted', payload: { iban: IBAN } })
    const first = await fixture.post(bodyOf(instruction), instruction.idempotencyKey)
    const again = await fixture.post(bodyOf(instruction), instruction.idempotencyKey)
    expect([first.status, again.status]).toEqual([201, 200])
    const batch = await fixture.call('/v1/instructions/batch', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        instructions: [instruction, buildInstruction({ railType: 'encrypted', payload: { iban: IBAN } })],
      }),
    })
    expect(JSON.parse(await batch.text()).items.map(({ created }: { created: boolean }) => created)).toEqual([
      false,
      true,
    ])
    const { rows } = await db.queryNoRole<{ text: string }>(
      `SELECT string_agg(p.payload::text, ' ') AS text FROM payment_outbox_pending p WHERE rail_type = 'encrypted'`,
    )
    expect(rows[0]!.text).not.toContain(IBAN)
  })

  test('is refused for a card number in a forbidden field; the error names only the field', async () => {
    const body = bodyOf(buildInstruction({ railType: 'encrypted', payload: { memo: 'pay 4111 1111 1111 1111' } }))
    const problem = await problemOf(await fixture.post(body, randomUUID()))
    expect(problem).toMatchObject({ status: 422, code: 'CARD_NUMBER_REFUSED', argument: 'payload/memo' })
    expect(JSON.stringify(problem)).not.toContain('4111')
  })

  test('is refused if the key of its subject was destroyed (SUBJECT_ERASED)', async () => {
    const instruction = buildInstruction({ railType: 'encrypted', payload: { iban: IBAN } })
    await fixture.post(bodyOf(instruction), instruction.idempotencyKey)
    await new Vault(db).shred({ subject: instruction.participantId, reason: 'asked to' })
    const problem = await problemOf(await fixture.post(bodyOf(instruction), randomUUID()))
    expect(problem).toMatchObject({ status: 409, code: 'SUBJECT_ERASED', argument: 'payload' })
  })

  test('is refused if it needs encryption and there is no master key (ENCRYPTION_UNAVAILABLE)', async () => {
    const keyless = await openHttpFixture(db, { api: { protection: protectionWith(new FieldVault(rails)) } })
    const instruction = buildInstruction({ railType: 'encrypted', payload: { iban: IBAN } })
    expect(await problemOf(await keyless.post(bodyOf(instruction), 'k'))).toMatchObject({
      status: 503,
      code: 'ENCRYPTION_UNAVAILABLE',
    })
    await keyless.close()
  })
})

describe('GET /v1/outbox/{outboxId}/proof', () => {
  test('returns masked payloads instead of their raw records; payloads=plain returns raw records', async () => {
    const { outboxId, ...masked } = await proofOf('masked')
    expect(JSON.stringify(masked)).not.toContain(IBAN)
    expect(masked.rows.map(({ record }) => record === null)).toEqual([false, true])
    expect(masked.rows.map(({ payload }) => payload)).toEqual([null, '{"iban":"••••3000","amount":"1.50"}'])
    const plain = await readProof(outboxId, '?payloads=plain')
    expect(plain.rows.map(({ payload }) => payload)).toEqual([null, null])
    expect(plain.rows.map(({ record }) => hasIban(record))).toEqual([false, true])
  })

  test('returns the raw records of a rail without field classes', async () => {
    const { rows } = await proofOf('open')
    expect(rows.map(({ payload, record }) => [payload, hasIban(record)])).toEqual([
      [null, false],
      [null, true],
    ])
  })

  test('refuses an unknown value of the query parameter payloads (INVALID_QUERY)', async () => {
    const response = await fixture.call(`/v1/outbox/${randomUUID()}/proof?payloads=all`)
    expect(await problemOf(response)).toMatchObject({ status: 400, code: 'INVALID_QUERY' })
  })
})

/** Returns the proof of a terminal payment. */
async function proofOf(railType: string): Promise<Proof> {
  const instruction = buildInstruction({ railType, payload: { iban: IBAN, amount: '1.50' } })
  const { outboxId } = JSON.parse(await (await fixture.post(bodyOf(instruction), instruction.idempotencyKey)).text())
  const relayer = new OutboxRelayer(db.database, new Map([[railType, rails.get(railType)!]]))
  await relayer.runOnce()
  await relayer.stop()
  return readProof(outboxId)
}

async function readProof(outboxId: string, query = ''): Promise<Proof> {
  const proof: Proof = JSON.parse(await (await fixture.call(`/v1/outbox/${outboxId}/proof${query}`)).text())
  return proof
}

function hasIban(record: string | null): boolean {
  return Buffer.from(record ?? '', 'base64').includes(IBAN)
}
