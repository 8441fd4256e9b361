import { readFile } from 'node:fs/promises'
import { beforeAll, describe, expect, test } from 'vitest'
import {
  ApiKeys,
  checkEvidence,
  checkStart,
  createCheckpointKeys,
  deploy,
  doctor,
  openLedger,
  Vault,
} from '../../libs/entry/admin.js'
import { Symphony } from '../../libs/index.js'
import { KeyRing } from '../../libs/protection/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import type { TestDatabase } from '../support/database.js'
import { LedgerFixture } from '../support/ledgerFixture.js'
import { buildMasterKey } from '../support/protectionFixture.js'
import { failureOf } from '../support/race.js'

/** Uses the entry point `symphony-pg/admin` as a program does: with a url and no open connection. */

// Branch counters change function bodies, which doctor would report as drift.
const fixture = closeAfterAll(await LedgerFixture.open({ countBranches: false }))
let db: TestDatabase
const file = (name: string) => fixture.file(name)
beforeAll(async () => {
  db = fixture.db
})

const keys = () => ({ privateKey: file('key.pem'), publicKey: file('pub.pem') })
const checkpoints = () => ({ file: file('checkpoints.ndjson'), publicKey: file('pub.pem') })
const open = () => openLedger({ url: db.url, schema: db.schema })
const first = buildMasterKey('first')
const second = buildMasterKey('second')

function openSymphony() {
  const bank = {
    type: 'bank',
    onUnknown: 'hold',
    fields: { '/destination': 'encrypted' },
    dispatch: () => ({ outcome: 'success', reference: 'r-1' }) as const,
  } as const
  return new Symphony({ url: db.url, schema: db.schema, rails: [bank], vault: new KeyRing([first], 'first') })
}

describe('deploy, doctor and checkStart', () => {
  test('accept a url; checkStart refuses a server without fsync', async () => {
    const target = { url: db.url, schema: db.schema }
    expect(await deploy(target)).toMatchObject({ outcome: 'unchanged' })
    expect(await doctor(target)).toMatchObject({ ok: true })
    expect(await checkStart(target)).toMatchObject({ refusals: [{ code: 'SERVER_NOT_DURABLE' }] })
  })
})

describe('ApiKeys', () => {
  test('creates, lists and revokes keys with a url; a call after close() fails (DATABASE_CLOSED)', async () => {
    const apiKeys = new ApiKeys({ url: db.url, schema: db.schema })
    const { keyId, key } = await apiKeys.create({ scopes: ['read'], owner: 'alice' })
    expect(key).toContain(keyId)
    expect(await apiKeys.list()).toMatchObject([{ keyId, status: 'ACTIVE' }])
    expect([await apiKeys.revoke({ keyId }), await apiKeys.revoke({ keyId })]).toEqual([true, false])
    await apiKeys.close()
    expect(await failureOf(apiKeys.list())).toMatchObject({ code: 'DATABASE_CLOSED' })
  })

  test('does not close a database that the caller opened', async () => {
    await new ApiKeys(db).close()
    expect(await new ApiKeys(db).list()).toHaveLength(1)
  })

  test('refuses an unknown option in its constructor', () => {
    const misspelt = { url: db.url, shema: 'x' }
    expect(() => new ApiKeys(misspelt)).toThrow(/shema/)
  })
})

describe('Vault', () => {
  test('rotates data keys and shreds one subject; a misspelt subject is refused (SUBJECT_UNKNOWN)', async () => {
    await using symphony = openSymphony()
    const payload = { amount: '1.00', currency: 'EUR', destination: 'DE89370400440532013000' }
    const instruction = { railType: 'bank', instructionId: 'V-1', participantId: 'customer-1', payload } as const
    await symphony.transaction((tx) => symphony.enqueue(instruction, { tx }))
    await symphony.worker().runOnce()

    await using vault = new Vault({ url: db.url, schema: db.schema })
    expect(await vault.rotate({ masterKeys: new KeyRing([first, second], 'second') })).toEqual({
      masterKeyId: 'second',
      rewrapped: 1,
    })
    expect(await vault.status()).toEqual({
      live: 1,
      destroyed: 0,
      masterKeys: [{ masterKeyId: 'second', keys: 1 }],
    })
    const misspelt = vault.shred({ subject: 'custommer-1', reason: 'request 88' })
    expect(await failureOf(misspelt)).toMatchObject({ code: 'SUBJECT_UNKNOWN', remedy: expect.any(String) })
    expect(await vault.shred({ subject: 'customer-1', reason: 'request 88' })).toBe(true)
    expect(await vault.shred({ subject: 'customer-1', reason: 'request 88' })).toBe(false)
  })
})

describe('a Ledger', () => {
  test('verifies, signs a checkpoint, and writes evidence and an export that verify offline', async () => {
    await createCheckpointKeys(keys())
    await using ledger = await open()
    await fixture.sealAll(5)
    expect(await ledger.verify()).toMatchObject({ openRows: 0, breakCount: 0 })
    const { signed } = await ledger.checkpoint({ file: file('checkpoints.ndjson'), privateKey: keys().privateKey })
    expect(signed).toBeDefined()
    const report = await ledger.audit({ checkpoints: checkpoints(), drained: true })
    expect(report).toMatchObject({ ok: true, notJudged: ['I3', 'I4', 'I5'], chain: { checkpoints: 1, openBlocks: 0 } })
    await ledger.record(report)
    const recorded = await db.queryNoRole('SELECT rows_checked, break_count FROM ledger_verifications')
    expect(recorded.rows).toHaveLength(1)

    const written = await ledger.writeEvidence({
      folder: file('evidence'),
      privateKey: keys().privateKey,
      checkpoints: checkpoints(),
    })
    const { publicKey } = keys()
    expect(await checkEvidence({ folder: file('evidence'), publicKey })).toMatchObject({ ...written, signed: true })
    await ledger.export({ folder: file('export'), checkpoints: file('checkpoints.ndjson') })
    const exported = await openLedger({ exportFolder: file('export') })
    // No checkpoint file is given, so the checkpoints inside the export are used.
    expect(await exported.verify({ checkpoints: { publicKey } })).toEqual(report.chain)
    expect(await exported.audit({ checkpoints: { publicKey } })).toMatchObject({ ok: true, chain: { checkpoints: 1 } })
  })

  test('opened from an export refuses calls that need the database (INVALID_ARGUMENT)', async () => {
    const exported = await openLedger({ exportFolder: file('export') })
    const report = await exported.audit()
    const calls = [
      exported.audit({ drained: true }),
      exported.record(report),
      exported.export({ folder: file('again') }),
      exported.writeEvidence({ folder: file('again') }),
      exported.checkpoint({ file: file('other.ndjson'), privateKey: keys().privateKey }),
    ]
    for (const call of calls) expect(await failureOf(call)).toMatchObject({ code: 'INVALID_ARGUMENT' })
  })

  test('refuses a public key without a checkpoint file; keygen overwrites no key file', async () => {
    await using ledger = await open()
    expect(await failureOf(ledger.verify({ checkpoints: { publicKey: file('pub.pem') } }))).toMatchObject({
      argument: 'checkpoints.file',
    })
    const before = await readFile(keys().privateKey, 'utf8')
    expect(await failureOf(createCheckpointKeys(keys()))).toMatchObject({ code: 'KEYGEN_FAILED' })
    expect(await readFile(keys().privateKey, 'utf8')).toBe(before)
  })

  test('verifies through a transaction pooler, but refuses to export through one', async () => {
    await using pooled = await openLedger({ url: db.url, schema: db.schema, pooler: 'transaction' })
    expect(await failureOf(pooled.export({ folder: file('pooled') }))).toMatchObject({ argument: 'pooler' })
    expect(await pooled.verify()).toMatchObject({ breakCount: 0 })
  })
})
