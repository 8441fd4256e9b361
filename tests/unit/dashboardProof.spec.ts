import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { checkProof, firstBreak, payloadIn, type RowDefect } from '../../libs/dashboard/data/ledgerProof.js'
import type { Proof, ProofRow } from '../../libs/http/index.js'
import { enqueuePaymentOutboxBatch, placeOutboxHold, resolveOutboxHold } from '../../libs/outbox/index.js'
import { loadRails, maskPayloadText } from '../../libs/rails/index.js'
import { openHttpFixture, type HttpFixture } from '../support/httpFixture.js'
import { LedgerFixture } from '../support/ledgerFixture.js'
import { buildInstruction, enqueue, enqueueAndFail } from '../support/outboxItems.js'
import { createPerson } from '../support/outboxPeople.js'

/** Tests the check that the dashboard runs in the browser, with proofs of a real ledger. */

const IBAN = 'DE89370400440532013000'
const MASKING = loadRails([
  {
    type: 'masking',
    onUnknown: 'resend',
    money: false,
    fields: { '/iban': 'masked' },
    dispatch: () => ({ outcome: 'terminal', code: 'NO' }),
  },
])

let ledger: LedgerFixture
let http: HttpFixture
/** Proof of a payment with two attempts and two events, in one block with other rows. */
let sound: Proof
let another: Proof
let masked: Proof
/** Proof of a payment in a later block. */
let later: Proof
beforeAll(async () => {
  ledger = await LedgerFixture.open()
  http = await openHttpFixture(ledger.db, {
    limits: { requestsPerSecond: 100_000 },
    api: {
      protection: {
        encrypt: async (_tx, instructions) => instructions,
        maskFor: async (_role, railType) => (text) => maskPayloadText(text, MASKING.get(railType)?.fields ?? []),
      },
    },
  })
  await ledger.fill()
  const payment = await enqueueAndFail(ledger.db, 2, { payload: { note: 'ü€😀', amount: '12.50' } })
  const { control } = await createPerson(ledger.db, 'carol')
  await placeOutboxHold(control, payment.outboxId, 'wait')
  await resolveOutboxHold(control, payment.outboxId, 'RETRY', 'go on')
  const other = await enqueueAndFail(ledger.db, 1)
  const secret = await enqueueAndFail(ledger.db, 1, { railType: 'masking', payload: { iban: IBAN } })
  await ledger.fill()
  await ledger.sealAll(1_000)
  sound = await proofOf(payment.outboxId)
  another = await proofOf(other.outboxId)
  masked = await proofOf(secret.outboxId)
  const { outboxId } = await enqueueAndFail(ledger.db, 1)
  await ledger.sealAll(1_000)
  later = await proofOf(outboxId)
})
afterAll(async () => {
  await http.close()
  await ledger.close()
})

async function proofOf(outboxId: string, query = ''): Promise<Proof> {
  const response = await http.call(`/v1/outbox/${outboxId}/proof${query}`)
  expect(response.status).toBe(200)
  const proof: Proof = JSON.parse(await response.text())
  return proof
}

async function defectsOf(proof: Proof): Promise<string[]> {
  return (await checkProof(proof)).flatMap(({ position, defect }) =>
    defect === undefined ? [] : [`${position}: ${defect}`],
  )
}

describe('the proof of an unchanged payment', () => {
  test.each([1, 3, 4, 5, 17, 100])('is valid at each position of a block of %i rows', async (size) => {
    // Enqueues in one transaction, so that one block holds all rows.
    const instructions = Array.from({ length: size }, () => buildInstruction())
    const items = await enqueuePaymentOutboxBatch(ledger.db.as('symphony_ingest'), instructions)
    await ledger.sealAll(1_000)
    const blocks = new Set<string | null>()
    for (const { outboxId } of items) {
      const proof = await proofOf(outboxId)
      expect(await checkProof(proof)).toEqual([
        { position: 'identity', block: proof.blocks[0]?.no, defect: undefined, isMasked: false },
      ])
      blocks.add(proof.rows[0]!.block)
    }
    const { rows } = await ledger.db.queryNoRole<{ count: number }>(
      'SELECT row_count AS count FROM payment_outbox_blocks WHERE block_no = ANY ($1::bigint[])',
      [[...blocks]],
    )
    expect(rows).toEqual([{ count: size }])
  })

  test('is valid in small blocks, for payments of every outcome and rows of every kind', async () => {
    await ledger.fill()
    await ledger.sealAll(3)
    const { rows } = await ledger.db.queryNoRole<{ id: string }>(
      'SELECT outbox_id AS id FROM payment_outbox_identities ORDER BY recorded_xid DESC LIMIT 20',
    )
    const kinds = new Set<string>()
    for (const { id } of rows) {
      const proof = await proofOf(id)
      for (const { kind } of proof.rows) kinds.add(kind)
      expect([id, await defectsOf(proof), proof.rows.filter(({ block }) => block === null)]).toEqual([id, [], []])
    }
    expect([...kinds].toSorted()).toEqual(['attempt', 'event', 'identity'])
  })

  test('lists the rows of the payment in order, and none of them is broken', async () => {
    const checked = await checkProof(sound)
    expect(checked.map(({ position }) => position)).toEqual([
      'identity',
      'attempt 1',
      'attempt 2',
      'event 1',
      'event 2',
    ])
    expect(firstBreak(checked)).toBeUndefined()
    // The changed proofs below need a hash tree of several levels.
    expect(sound.rows.map(({ nodes }) => nodes.length > 1)).toEqual([true, true, true, true, true])
  })

  test('contains the payload of the last attempt, or null without an attempt', async () => {
    expect(JSON.parse(payloadIn(sound) ?? '')).toEqual({ note: 'ü€😀', amount: '12.50' })
    expect(payloadIn(await proofOf((await enqueue(ledger.db)).outboxId))).toBeNull()
  })
})

describe('an unsealed row in a ledger proof', () => {
  test('is valid without a block, and broken if its record belongs to another payment', async () => {
    const { outboxId } = await enqueueAndFail(ledger.db, 1)
    const open = await proofOf(outboxId)
    expect([open.blocks, await checkProof(open)]).toEqual([
      [],
      [
        { position: 'identity', block: null, defect: undefined, isMasked: false },
        { position: 'attempt 1', block: null, defect: undefined, isMasked: false },
      ],
    ])
    open.rows[1]!.record = another.rows[1]!.record
    expect(await defectsOf(open)).toEqual(['attempt 1: it is about another payment'])
  })
})

describe('a masked row in a ledger proof', () => {
  test('is valid with its masked payload, and with its full payload (payloads=plain)', async () => {
    expect((await checkProof(masked)).map(({ isMasked, defect }) => [isMasked, defect])).toEqual([
      [false, undefined],
      [true, undefined],
    ])
    expect(payloadIn(masked)).toBe('{"iban":"••••3000"}')
    const plain = await proofOf(masked.outboxId, '?payloads=plain')
    expect((await checkProof(plain)).map(({ isMasked, defect }) => [isMasked, defect])).toEqual([
      [false, undefined],
      [false, undefined],
    ])
    expect(payloadIn(plain)).toContain(IBAN)
  })

  test.each<[string, (row: ProofRow) => void, RowDefect]>([
    ['another id', (row) => (row.id = sound.rows[1]!.id), 'its block has no entry of it'],
    ['another transaction', (row) => (row.transaction += '1'), 'it differs from what was sealed'],
    ['no entry', (row) => (row.entries = null), 'its block has no entry of it'],
    [
      'another hash',
      (row) => (row.entries = flipped(row.entries, ownEntryAt(row) + 57)),
      'its block differs from its hash',
    ],
    ['other nodes', (row) => (row.nodes[0] = flipped(row.nodes[0], 0)), 'its block differs from its hash'],
  ])('is reported as broken if it has %s', async (_what, tamper, defect) => {
    const changed = structuredClone(masked)
    tamper(changed.rows[1]!)
    expect(await defectsOf(changed)).toEqual([`attempt 1: ${defect}`])
  })
})

type Tamper = (proof: Proof) => unknown
/** Returns a change of attempt 1, which is the second row. */
const attempt =
  (tamper: (row: ProofRow) => unknown): Tamper =>
  ({ rows }) =>
    tamper(rows[1]!)

describe('a ledger proof that was changed', () => {
  test.each<[string, Tamper, string]>([
    ['a byte of a record', attempt((row) => (row.record = flipped(row.record, -1))), 'it differs from what was sealed'],
    [
      'the record of another payment',
      attempt((row) => (row.record = another.rows[1]!.record)),
      'it is about another payment',
    ],
    ['another id', attempt((row) => (row.id = another.rows[1]!.id)), 'it is about another payment'],
    ['another transaction', attempt((row) => (row.transaction += '0')), 'it differs from what was sealed'],
    ['a row without its entry', attempt((row) => (row.entries = null)), 'its block has no entry of it'],
    [
      'entries of other rows',
      attempt((row) => (row.entries = another.rows[1]!.entries)),
      'its block has no entry of it',
    ],
    [
      'its own entry with another hash',
      attempt((row) => (row.entries = flipped(row.entries, ownEntryAt(row) + 57))),
      'it differs from what was sealed',
    ],
    [
      'its own entry with another transaction',
      attempt((row) => (row.entries = flipped(row.entries, ownEntryAt(row) + 25))),
      'it differs from what was sealed',
    ],
    [
      'the entry of a neighbouring row',
      attempt((row) => (row.entries = flipped(row.entries, (ownEntryAt(row) + 58 + 57) % bytesIn(row.entries)))),
      'its block differs from its hash',
    ],
    [
      'a byte of a node',
      attempt((row) => (row.nodes[0] = flipped(row.nodes[0], 0))),
      'its block differs from its hash',
    ],
    [
      'a byte of the top',
      attempt((row) => (row.nodes[row.nodes.length - 1] = flipped(row.nodes.at(-1), -1))),
      'its block differs from its hash',
    ],
    ['a node that is left out', attempt((row) => row.nodes.pop()), 'its block differs from its hash'],
    ['no nodes', attempt((row) => (row.nodes = [])), 'its block differs from its hash'],
    ['a block that was not sent', attempt((row) => (row.block = '999')), 'its block is missing'],
  ])('is reported as broken at attempt 1: %s', async (_what, tamper, defect) => {
    const changed = structuredClone(sound)
    tamper(changed)
    expect(firstBreak(await checkProof(changed))).toMatchObject({ position: 'attempt 1', defect })
  })

  test.each<[string, Tamper, string]>([
    [
      'a byte of a head',
      ({ blocks }) => (blocks[0]!.head = flipped(blocks[0]!.head, -1)),
      'its block differs from its hash',
    ],
    [
      'a digit of a hash',
      ({ blocks }) => (blocks[0]!.hash = `f${blocks[0]!.hash.slice(1)}0`),
      'its block differs from its hash',
    ],
    ['no blocks', (proof) => (proof.blocks = []), 'its block is missing'],
    [
      'a block under another number',
      ({ rows, blocks }) => {
        for (const block of blocks) block.no += '0'
        for (const row of rows) row.block += '0'
      },
      'its block differs from its hash',
    ],
    [
      'another block under its number',
      ({ blocks }) => (blocks[0] = { ...later.blocks[0]!, no: blocks[0]!.no }),
      'its block differs from its hash',
    ],
    [
      'another block',
      ({ rows, blocks }) => {
        blocks[0] = later.blocks[0]!
        for (const row of rows) row.block = blocks[0].no
      },
      'its block differs from its hash',
    ],
    ['another payment', (proof) => (proof.outboxId = another.outboxId), 'it is about another payment'],
    ['no identity', ({ rows }) => rows.shift(), 'it is missing'],
    ['no rows', (proof) => (proof.rows = []), 'it is missing'],
    ['the identity of another payment', ({ rows }) => (rows[0] = another.rows[0]!), 'it is about another payment'],
  ])('is reported as broken at the identity: %s', async (_what, tamper, defect) => {
    const changed = structuredClone(sound)
    tamper(changed)
    expect(firstBreak(await checkProof(changed))).toMatchObject({ position: 'identity', defect })
  })

  test.each<[string, Tamper, string, string]>([
    ['a number that is too high', ({ rows }) => (rows[1]!.number = '2'), 'attempt 2', 'a number is missing before it'],
    ['a missing attempt', ({ rows }) => rows.splice(1, 1), 'attempt 2', 'a number is missing before it'],
    ['a missing event', ({ rows }) => rows.splice(3, 1), 'event 2', 'a number is missing before it'],
    [
      'two attempts that exchanged their numbers',
      ({ rows }) => rows.splice(1, 2, { ...rows[2]!, number: '1' }, { ...rows[1]!, number: '2' }),
      'attempt 1',
      'it has another number',
    ],
    [
      'two events that exchanged their numbers',
      ({ rows }) => rows.splice(3, 2, { ...rows[4]!, number: '1' }, { ...rows[3]!, number: '2' }),
      'event 1',
      'it has another number',
    ],
  ])('is reported as broken at the first row with a wrong number: %s', async (_what, tamper, position, defect) => {
    const changed = structuredClone(sound)
    tamper(changed)
    expect(firstBreak(await checkProof(changed))).toMatchObject({ position, defect })
  })
})

describe('a change by a superuser', () => {
  test.each([
    ['an attempt', 'attempts', `error_code = 'FORGED'`, 'attempt 1: it differs from what was sealed'],
    ['a transaction', 'attempts', 'recorded_xid = recorded_xid - 1', 'attempt 1: it differs from what was sealed'],
    ['an identity', 'identities', `key_scope = 'FORGED'`, 'identity: it differs from what was sealed'],
  ])('is found by the check in the browser: %s', async (_what, kind, change, defect) => {
    const table = `payment_outbox_${kind}`
    const { outboxId } = await enqueueAndFail(ledger.db, 1)
    await ledger.sealAll()
    await ledger.db.queryNoRole(`
      ALTER TABLE ${table} DISABLE TRIGGER USER;
      UPDATE ${table} SET ${change} WHERE outbox_id = '${outboxId}';
      ALTER TABLE ${table} ENABLE ALWAYS TRIGGER ${table}_is_append_only`)
    expect(await defectsOf(await proofOf(outboxId))).toEqual([defect])
  })
})

/** Returns the same bytes with one bit flipped. */
function flipped(base64: string | null | undefined, at: number): string {
  const bytes = Buffer.from(base64 ?? '', 'base64')
  const index = at < 0 ? bytes.length + at : at
  bytes.writeUInt8(bytes.readUInt8(index) ^ 1, index)
  return bytes.toString('base64')
}

function bytesIn(base64: string | null): number {
  return Buffer.from(base64 ?? '', 'base64').length
}

/** Returns the offset of the row's own entry among the entries of its leaf. */
function ownEntryAt({ id, entries }: ProofRow): number {
  return Buffer.from(entries ?? '', 'base64').indexOf(Buffer.from(id.replaceAll('-', ''), 'hex')) - 2
}
