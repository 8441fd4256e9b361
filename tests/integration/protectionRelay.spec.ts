import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { JsonObject } from '../../libs/core/index.js'
import { databaseSource, verifyLedger } from '../../libs/ledger/index.js'
import { OutboxRelayer, type OutboxInstruction } from '../../libs/outbox/index.js'
import { KeyRing, Vault } from '../../libs/protection/index.js'
import type { Rail, RailAnswer, RailRequest } from '../../libs/rails/index.js'
import { useTestDatabase } from '../support/database.js'
import { buildInstruction, attemptRows, claimOnly, complete, enqueue, pendingRow } from '../support/outboxItems.js'
import { approve, createPerson, propose } from '../support/outboxPeople.js'
import { buildMasterKey, ProtectionFixture } from '../support/protectionFixture.js'

/** Tests encrypted fields from the producer to the rail. */

const SECRET = 'DE89370400440532013000'
const first = buildMasterKey('first')
const db = await useTestDatabase()

function fixture(declared: Partial<Rail> = {}, answer?: (request: RailRequest) => RailAnswer): ProtectionFixture {
  return new ProtectionFixture(
    db,
    [first],
    { type: `rail-${randomUUID()}`, fields: { '/iban': 'encrypted' }, ...declared },
    answer,
  )
}

function buildEncrypted(made: ProtectionFixture, overrides: Partial<OutboxInstruction> = {}): OutboxInstruction {
  const [railType = ''] = made.rail.rails.keys()
  return buildInstruction({ railType, payload: { iban: SECRET, n: 1 }, ...overrides })
}

async function reasonFor(outboxId: string): Promise<string | undefined> {
  return (await pendingRow(db, outboxId))?.hold_reason ?? undefined
}

async function ledgerText(): Promise<string> {
  const { rows } = await db.queryNoRole<{ text: string }>(
    `SELECT string_agg(t, E'\\n') AS text FROM (
       SELECT a::text AS t FROM payment_outbox_attempts a UNION ALL SELECT p::text FROM payment_outbox_pending p
       UNION ALL SELECT e::text FROM payment_outbox_events e UNION ALL SELECT i::text FROM payment_outbox_identities i) all_rows`,
  )
  return rows[0]?.text ?? ''
}

describe('a payment with an encrypted field', () => {
  test('reaches its rail decrypted; ledger, queue and events never contain the plaintext', async () => {
    const made = fixture({}, (request) => ({
      outcome: 'terminal',
      code: 'NO',
      message: `cannot pay ${JSON.stringify(request.payload['iban'])}`,
    }))
    const { outboxId } = await made.enqueue(buildEncrypted(made))
    const events = await made.relay()
    expect(made.rail.calls.map(({ payload }) => payload)).toEqual([{ iban: SECRET, n: 1 }])
    expect(await attemptRows(db, outboxId)).toMatchObject([{ state: 'FAILED', error_code: 'NO' }])
    expect(await ledgerText()).not.toContain(SECRET)
    expect(JSON.stringify(events, (_, value) => (typeof value === 'bigint' ? String(value) : value))).not.toContain(
      SECRET,
    )
  })

  test('is decrypted again after a redrive', async () => {
    const made = fixture({}, ({ idempotencyKey }) =>
      idempotencyKey.includes('redrive')
        ? { outcome: 'success', reference: 'paid' }
        : { outcome: 'terminal', code: 'NO' },
    )
    const { outboxId } = await made.enqueue(buildEncrypted(made))
    await made.relay()
    const [ann, bob] = [await createPerson(db, 'ann'), await createPerson(db, 'bob')]
    await approve(bob, await propose(ann, outboxId, 'REDRIVE'))
    await made.relay()
    expect(made.rail.calls.map(({ payload }) => payload['iban'])).toEqual([SECRET, SECRET])
  })

  test('is dispatched by a worker that has only the new master key, after Vault.rotate', async () => {
    const made = fixture()
    await made.enqueue(buildEncrypted(made))
    const next = buildMasterKey('next')
    await new Vault(db).rotate({ masterKeys: new KeyRing([first, next], 'next') })
    await made.relay([next])
    expect(made.rail.calls).toHaveLength(1)
    await new Vault(db).rotate({ masterKeys: new KeyRing([first, next], 'first') })
  })

  test('is decrypted for an inquiry to its rail', async () => {
    const made = fixture({ onUnknown: 'inquire', queryStatus: () => ({ outcome: 'success', reference: 'found' }) })
    const { outboxId } = await made.enqueue(buildEncrypted(made))
    const [railType = ''] = made.rail.rails.keys()
    await complete(db, await claimOnly(db, railType), {
      state: 'RETRYABLE',
      outcomeUnknown: true,
      retryDelaySeconds: 0,
    })
    await db.makeDue(outboxId)
    await made.relay()
    expect(made.rail.inquiries.map(({ payload }) => payload['iban'])).toEqual([SECRET])
    expect(made.rail.calls).toEqual([])
  })
})

describe('a payment whose fields cannot be decrypted', () => {
  test.each<
    [
      string,
      string,
      (made: ProtectionFixture, item: { readonly outboxId: string; readonly who: string }) => Promise<unknown>,
    ]
  >([
    ['the worker has another master key', 'FIELD_KEY_MISSING', (made) => made.relay([buildMasterKey('other')])],
    [
      'the master key of that name is another key',
      'FIELD_UNREADABLE',
      (made) => made.relay([{ ...buildMasterKey('first') }]),
    ],
    [
      'the worker has no vault',
      'FIELD_KEY_MISSING',
      async ({ rail }) => {
        const relayer = new OutboxRelayer(db.database, rail.rails)
        await relayer.runOnce()
        await relayer.stop()
      },
    ],
    [
      'the data key was destroyed',
      'FIELD_KEY_DESTROYED',
      async (made, { who }) => {
        await new Vault(db).shred({ subject: who, reason: 'asked to' })
        await made.relay()
      },
    ],
    [
      'the data key is missing',
      'FIELD_KEY_MISSING',
      async (made, { who }) => {
        await db.queryNoRole('DELETE FROM subject_keys WHERE subject = $1', [who])
        await made.relay()
      },
    ],
    [
      'the ciphertext comes from another payment',
      'FIELD_UNREADABLE',
      async (made, { outboxId, who }) => {
        const other = await made.enqueue(
          buildEncrypted(made, { participantId: who, notBefore: new Date('2100-01-01') }),
        )
        await db.queryNoRole(
          `UPDATE payment_outbox_pending p SET payload = o.payload FROM payment_outbox_pending o
           WHERE p.outbox_id = $1 AND o.outbox_id = $2`,
          [outboxId, other.outboxId],
        )
        await made.relay()
      },
    ],
    [
      'the ciphertext is malformed',
      'FIELD_UNREADABLE',
      async (made, { outboxId }) => {
        await db.queryNoRole(
          `UPDATE payment_outbox_pending SET payload = '{"iban": "symphony.sealed.v1.?"}' WHERE outbox_id = $1`,
          [outboxId],
        )
        await made.relay()
      },
    ],
  ])('is held without a call or an inquiry if %s (%s)', async (_why, reason, relay) => {
    const made = fixture({ onUnknown: 'inquire', queryStatus: () => ({ outcome: 'absent' }) })
    const instruction = buildEncrypted(made)
    const { outboxId } = await made.enqueue(instruction)
    await relay(made, { outboxId, who: instruction.participantId })
    expect([made.rail.calls, made.rail.inquiries]).toEqual([[], []])
    expect(await reasonFor(outboxId)).toBe(reason)
    expect(await attemptRows(db, outboxId)).toEqual([])
  })

  test('is released and not held if the data key cannot be read from the database', async () => {
    const made = fixture()
    const { outboxId } = await made.enqueue(buildEncrypted(made))
    await db.queryNoRole('REVOKE EXECUTE ON FUNCTION read_subject_keys(uuid[]) FROM symphony_executor')
    try {
      const events = await made.relay()
      expect(events.filter(({ type }) => type === 'outbox.fault')).toMatchObject([
        { during: 'preparing a dispatch', outboxId },
      ])
    } finally {
      await db.queryNoRole('GRANT EXECUTE ON FUNCTION read_subject_keys(uuid[]) TO symphony_executor')
    }
    expect(await reasonFor(outboxId)).toBeUndefined()
    await made.relay()
    expect(made.rail.calls).toHaveLength(1)
  })
})

test('a payment without encrypted fields is dispatched by a worker with or without keys', async () => {
  const made = fixture()
  const [railType = ''] = made.rail.rails.keys()
  await enqueue(db, { railType, payload: { iban: SECRET } })
  await made.relay()
  await enqueue(db, { railType, payload: { iban: SECRET } })
  const relayer = new OutboxRelayer(db.database, made.rail.rails)
  await relayer.runOnce()
  await relayer.stop()
  expect(made.rail.calls).toHaveLength(2)
})

test('shredding a subject makes its fields unreadable; the ledger stays unchanged and verifies', async () => {
  const made = fixture()
  const instruction = buildEncrypted(made)
  const { outboxId } = await made.enqueue(instruction)
  await made.relay()
  const before = await attemptRows(db, outboxId)
  await new Vault(db).shred({ subject: instruction.participantId, reason: 'erasure request' })
  expect(await attemptRows(db, outboxId)).toEqual(before)
  const report = await verifyLedger(databaseSource(db.as('symphony_auditor')), {})
  expect(report.breaks).toEqual([])
  const [railType = ''] = made.rail.rails.keys()
  const { rows } = await db.queryNoRole<{ payload: JsonObject }>(
    'SELECT payload FROM payment_outbox_attempts WHERE outbox_id = $1',
    [outboxId],
  )
  const open = made.vault.decrypter(db.as('symphony_executor'), made.rail.rails.get(railType)!)
  const opened = await open({ ...instruction, payload: rows[0]!.payload })
  expect(opened).toEqual({ ok: false, reason: 'FIELD_KEY_DESTROYED' })
})
