import { randomUUID } from 'node:crypto'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { generateStatement } from '../../libs/cli/commands/statements/generateStatement.js'
import { symphony, type CommandOutput } from '../support/commandLine.js'
import { useTestDatabase } from '../support/database.js'
import { buildInstruction } from '../support/outboxItems.js'
import { createPerson, enqueueFailed, enqueueHeld, enqueuePaid, type Person } from '../support/outboxPeople.js'
import { buildMasterKey, ProtectionFixture } from '../support/protectionFixture.js'
import { makeTestFolder, removeTestFolder } from '../support/server.js'

const db = await useTestDatabase()
let alice: string
let rita: Person
beforeAll(async () => {
  alice = (await db.createLogin('alice', { roles: ['symphony_control'] })).url
  rita = await createPerson(db, 'rita')
})

function command(words: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<CommandOutput> {
  return symphony(words, { DATABASE_URL: alice, SYMPHONY_SCHEMA: db.schema, ...env })
}

async function fileOf(text: string, name = 'statement'): Promise<string> {
  const folder = await makeTestFolder()
  onTestFinished(() => removeTestFolder(folder))
  const file = join(folder, name)
  await writeFile(file, text)
  return file
}

const TODAY = new Date().toISOString().slice(0, 10)
const NOTHING = {
  matched: 0,
  paidTwice: 0,
  paidNotRecorded: 0,
  recordedNotPaid: 0,
  amountDiffers: 0,
  reversed: 0,
  unknownEntry: 0,
}

function line(reference: string, given: object = {}): string {
  const entry = { reference, bankReference: `B-${randomUUID()}`, amount: '10.50', currency: 'EUR', bookedOn: TODAY }
  return `${JSON.stringify({ ...entry, ...given })}\n`
}

describe('symphony reconcile', () => {
  test('prints the run id and counts of a camt.053 file as JSON; a repeat prints the same run id', async () => {
    const rail = `bank-${randomUUID()}`
    const payments = []
    for (let left = 3; left > 0; left -= 1) {
      const { outboxId } = await enqueuePaid(db, { railType: rail })
      const money = { amount: '10.50', currency: 'EUR' }
      payments.push({ outboxId, ...money, state: 'DISPATCHED', completedAt: new Date() })
    }
    const { text } = generateStatement({ payments, errors: { unknownEntry: 2 }, format: 'camt053', seed: rail })
    const file = await fileOf([...text()].join(''), 'statement.xml')
    const words = ['reconcile', '--rail', rail, '--statement', file, '--format', 'camt053', '--json']
    const dry = await command([...words, '--dry-run'])
    expect(JSON.parse(dry.stdout)).toMatchObject({ runId: null, dryRun: true })
    const first = await command(words)
    expect(first).toMatchObject({ exitCode: 0, stderr: '' })
    const result = JSON.parse(first.stdout)
    expect(result).toMatchObject({ runId: expect.stringMatching(/^0/), repeated: false, railType: rail })
    expect(result.counts).toEqual({ ...NOTHING, matched: 3, unknownEntry: 2 })
    expect(JSON.parse(dry.stdout).counts).toEqual(result.counts)
    const again = JSON.parse((await command(words)).stdout)
    expect(again).toEqual({ ...result, repeated: true })
    const byExtension = await command(['reconcile', '--rail', rail, '--statement', file, '--json'])
    expect(JSON.parse(byExtension.stdout)).toEqual(again)
  })

  test('exits with 1 and prints both sides if statement and ledger differ; --json exits with 0', async () => {
    const rail = `bank-${randomUUID()}`
    const paid = await enqueuePaid(db, { railType: rail })
    const held = await enqueueHeld(db, rita, { railType: rail, payload: PAYLOAD })
    const failed = await enqueueFailed(db, { railType: rail })
    const file = await fileOf(
      line(paid.outboxId, { bankReference: 'B-1' }) +
        line(paid.outboxId, { bankReference: 'B-2' }) +
        line(held.outboxId) +
        line(failed.outboxId) +
        line('a salary'),
    )
    const words = ['reconcile', '--rail', rail, '--statement', file, '--format', 'ndjson']
    const { exitCode, stdout, stderr } = await command(words)
    expect(exitCode).toBe(1)
    expect(stderr).toContain('STATEMENT_DIFFERS Statement and ledger differ: 1 paid twice; 2 paid, not recorded.')
    expect(stdout).toMatch(/ paid twice +1 /)
    expect(stdout).toMatch(/ unknown entries +1 .*10\.5 EUR/)
    expect(stdout).toContain(`critical paid twice ${paid.instructionId}, payment ${paid.outboxId}`)
    expect(stdout).toContain('ledger DISPATCHED 10.50 EUR')
    expect(stdout).toContain(`debit of 10.50 EUR on ${TODAY}, bank reference B-2`)
    expect(stdout).toContain('two people approve: symphony approve')
    expect(stdout).toMatch(/symphony findings list --run [0-9a-f-]{36}/)
    const json = await command([...words, '--json'])
    expect(json).toMatchObject({ exitCode: 0, stderr: '' })
    expect(JSON.parse(json.stdout).counts).toEqual({ ...NOTHING, paidTwice: 1, paidNotRecorded: 2, unknownEntry: 1 })
  })

  test('reads CSV by --columns, --decimal-comma, --date-format and --reference-pattern', async () => {
    const rail = `bank-${randomUUID()}`
    const { outboxId } = await enqueuePaid(db, { railType: rail, payload: { ...PAYLOAD, amount: '1010.50' } })
    const day = TODAY.split('-').toReversed().join('.')
    const compact = outboxId.replaceAll('-', '')
    const file = await fileOf(`Zweck;Betrag;Währung;Tag\nAuszahlung REF${compact}X;1010,50;EUR;${day}\n`)
    const words = ['reconcile', '--rail', rail, '--statement', file, '--format', 'csv', '--decimal-comma', '--json']
    words.push('--columns', 'reference=Zweck,amount=Betrag,currency=Währung,date=Tag', '--date-format', 'DD.MM.YYYY')
    words.push('--reference-pattern', 'REF([0-9a-f]{32})X', '--settlement-days', '0', '--account', 'DE02')
    const { exitCode, stdout } = await command(words)
    expect({ exitCode, ...JSON.parse(stdout) }).toMatchObject({
      exitCode: 0,
      accounts: ['DE02'],
      settlementDays: 0,
      counts: { ...NOTHING, matched: 1 },
    })
  })

  test('compares the ledger with the payments that listPayments of the rail returns for a period', async () => {
    const rail = `bank-${randomUUID()}`
    const { outboxId } = await enqueuePaid(db, { railType: rail })
    const payment = { reference: outboxId, bankReference: 'P-1', amount: '10.50', currency: 'EUR', bookedOn: TODAY }
    const file = await fileOf(
      `export default [{ type: '${rail}', onUnknown: 'hold', settlementDays: 0,
        dispatch: () => ({ outcome: 'unknown', code: 'X' }),
        async *listPayments({ from, to }) {
          const covers = from.toISOString() === '${TODAY}T00:00:00.000Z' && to.getTime() - from.getTime() === 86400000
          if (covers) yield ${JSON.stringify(payment)}
        } }]`,
      'rails.mjs',
    )
    const words = ['reconcile', '--rail', rail, '--rails', file, '--from', TODAY, '--to', TODAY, '--json']
    const { exitCode, stdout } = await command(words)
    expect({ exitCode, ...JSON.parse(stdout) }).toMatchObject({
      exitCode: 0,
      format: 'rail',
      settlementDays: 0,
      counts: { ...NOTHING, matched: 1 },
    })
  })

  test('reads encrypted amounts with --vault-keys, and refuses them without (VAULT_KEYS_MISSING)', async () => {
    const type = `vault-${randomUUID()}`
    const key = buildMasterKey('k1')
    const fixture = new ProtectionFixture(db, [key], { type, fields: { '/amount': 'encrypted' } })
    const { outboxId } = await fixture.enqueue(buildInstruction({ railType: type, payload: PAYLOAD }))
    await fixture.relay()
    const file = await fileOf(line(outboxId))
    const keys = await fileOf(
      JSON.stringify({ current: 'k1', keys: { k1: key.secret.toString('base64') } }),
      'keys.json',
    )
    await chmod(keys, 0o600)
    const words = ['reconcile', '--rail', type, '--statement', file, '--format', 'ndjson', '--json']
    const refused = await command(words)
    expect(refused).toMatchObject({ exitCode: 2, stdout: '', stderr: expect.stringContaining('VAULT_KEYS_MISSING') })
    const { exitCode, stdout } = await command([...words, '--vault-keys', keys])
    expect({ exitCode, ...JSON.parse(stdout) }).toMatchObject({ exitCode: 0, counts: { ...NOTHING, matched: 1 } })
  })

  test.for<[string, readonly string[], number, string]>([
    ['no rail', [], 2, '--rail: expected the name of a rail'],
    ['no format', ['--rail', 'x', '--statement', '/dev/null'], 2, 'format: expected camt053'],
    ['a missing file', ['--rail', 'x', '--format', 'csv', '--statement', '/no/file'], 2, '/no/file cannot be read'],
    ['a wrong day', ['--rail', 'x', '--from', '2026-02-30'], 2, '--from: expected a day such as 2026-01-31'],
    ['wrong columns', ['--rail', 'x', '--columns', 'Betrag'], 2, '--columns: expected a list such as reference='],
    ['a wrong pattern', ['--rail', 'x', '--reference-pattern', '('], 2, '--reference-pattern: expected a regular'],
    ['no list', ['--rail', 'x', '--from', '2026-01-01', '--to', '2026-01-01'], 2, 'statement: expected a statement'],
  ])('fails and names the option to correct: %s', async ([, words, exitCode, message]) => {
    const columns = words.includes('csv') ? ['--columns', 'reference=a,amount=b,currency=c,date=d'] : []
    const output = await command(['reconcile', ...words, ...columns])
    expect(output).toMatchObject({ exitCode, stderr: expect.stringContaining(message) })
  })

  test('refuses a folder as statement with a usage error (FILE_UNREADABLE)', async () => {
    const words = ['reconcile', '--rail', 'bank', '--statement', '/', '--format', 'ndjson']
    const { exitCode, stderr } = await command(words)
    expect(exitCode).toBe(2)
    expect(stderr).toMatch(/FILE_UNREADABLE .*expected a file, got a folder/s)
  })

  test('names the line of an invalid statement and records nothing (STATEMENT_INVALID)', async () => {
    const rail = `bank-${randomUUID()}`
    const file = await fileOf(`${line('x')}{"amount":1}\n`)
    const { exitCode, stderr } = await command(['reconcile', '--rail', rail, '--statement', file, '--format', 'ndjson'])
    expect({ exitCode, stderr }).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(/STATEMENT_INVALID.*line 2/),
    })
    expect((await command(['findings', 'runs', '--rail', rail])).stdout).toContain('No statement was reconciled.')
  })
})

const PAYLOAD = { amount: '10.50', currency: 'EUR', destination: 'account-1' }

describe('symphony findings', () => {
  test('lists findings of a run, closes one with a reason, and lists runs', async () => {
    const rail = `bank-${randomUUID()}`
    const { outboxId } = await enqueuePaid(db, { railType: rail })
    const file = await fileOf(line(outboxId, { amount: '10.51' }))
    const reconciled = await command(['reconcile', '--rail', rail, '--statement', file, '--format', 'ndjson', '--json'])
    const { runId } = JSON.parse(reconciled.stdout)
    const list = ['findings', 'list', '--run', runId, '--json']
    const { items, next } = JSON.parse((await command(list)).stdout)
    expect({ items, next }).toMatchObject({
      items: [{ kind: 'amount_differs', severity: 'critical', outboxId, payment: { amount: '10.50' } }],
      next: null,
    })
    const [{ findingId }] = items
    expect((await command(['findings', 'close', findingId])).stderr).toContain('--reason: expected a reason')
    const closed = await command(['findings', 'close', findingId, '--reason', 'corrected by the bank'])
    expect(closed).toMatchObject({ exitCode: 0, stdout: expect.stringContaining(`${findingId} is closed`) })
    expect((await command(['findings', 'list', '--run', runId])).stdout).toContain('No finding matches.')
    const all = await command(['findings', 'list', '--run', runId, '--state', 'all'])
    expect(all.stdout).toContain('corrected by the bank')
    expect((await command(['findings', 'close', findingId, '--reason', 'again'])).exitCode).toBe(1)
    const runs = await command(['findings', 'runs', '--rail', rail])
    expect(runs.stdout).toContain(`${runId} ${rail}, ndjson, 1 entries`)
  })
})
