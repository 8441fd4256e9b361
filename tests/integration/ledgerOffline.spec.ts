import { createHash, generateKeyPairSync } from 'node:crypto'
import { appendFile, cp, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { seededRandom } from '../../libs/cli/commands/demo/seededRandom.js'
import {
  databaseSource,
  exportLedger,
  openExport,
  openLedger,
  readCheckpoints,
  verifyLedger,
  type ExportManifest,
} from '../../libs/ledger/index.js'
import { intoNewFolder, writeManifest } from '../../libs/ledger/exportLedger.js'
import { readRow } from '../../libs/ledger/exportLines.js'
import { NEWEST_FORMAT } from '../../libs/ledger/formats.js'
import { closeAfterAll } from '../support/afterAll.js'
import { symphony, type CommandOutput } from '../support/commandLine.js'
import { LedgerFixture } from '../support/ledgerFixture.js'
import { BLOCK_ROWS, disableGuards, tamper, type TamperKind } from '../support/ledgerTampers.js'
import { enqueue } from '../support/outboxItems.js'
import { failureOf, openConnection } from '../support/race.js'

const fixture = closeAfterAll(await LedgerFixture.open())
beforeAll(async () => {
  await fixture.fill()
  await fixture.sealAll(BLOCK_ROWS)
})

function command(words: readonly string[]): Promise<CommandOutput> {
  return symphony(words, { DATABASE_URL: fixture.db.url, SYMPHONY_SCHEMA: fixture.db.schema })
}

/** Tampers as a superuser in a transaction, calls `read` in that transaction and rolls back. */
async function afterTamper<T>(
  kind: TamperKind,
  read: (superuser: Parameters<typeof disableGuards>[0]) => Promise<T>,
): Promise<T> {
  const superuser = await openConnection(fixture.db)
  await superuser.query('BEGIN')
  try {
    await disableGuards(superuser)
    await tamper(superuser, kind, seededRandom(kind))
    return await read(superuser)
  } finally {
    await superuser.query('ROLLBACK')
    await superuser.close()
  }
}

test('an export that fails keeps the files that others put into its folder meanwhile', async () => {
  const folder = fixture.file('shared-export')
  const exporting = intoNewFolder(folder, () => writeFile(join(folder, 'foreign.txt'), 'not an export'))
  await expect(exporting).rejects.toMatchObject({ code: 'ENOTEMPTY' })
  expect(await readdir(folder)).toEqual(['foreign.txt'])
})

describe('checkpoints', () => {
  test('sign the newest block; without a new block nothing is signed', async () => {
    const file = fixture.file('each.ndjson')
    const first = await fixture.checkpoint(file)
    expect(first).toMatchObject({ checkpoints: 1, openRows: 0, signed: { block: String(first.blocksVerified) } })
    expect(await fixture.checkpoint(file)).toMatchObject({ checkpoints: 1, blocksVerified: 0, signed: undefined })
    await enqueue(fixture.db)
    await fixture.sealAll()
    expect(await fixture.checkpoint(file)).toMatchObject({ checkpoints: 2, blocksVerified: 1 })
    expect(await fixture.verify(await fixture.checkpoints(file))).toMatchObject({
      breakCount: 0,
      checkpoints: 2,
      openBlocks: 0,
    })
  })

  test('do not cover later blocks and rows; verification counts these as open', async () => {
    const file = fixture.file('window.ndjson')
    await fixture.checkpoint(file)
    await enqueue(fixture.db)
    await fixture.sealAll()
    await enqueue(fixture.db)
    expect(await fixture.verify(await fixture.checkpoints(file))).toMatchObject({ openBlocks: 1, openRows: 1 })
    await fixture.sealAll()
  })

  test.each<[TamperKind, RegExp]>([
    ['restore', /was signed and is missing: the ledger was restored/],
    ['fork', /is not the one that was signed: history was rewritten since, or forked/],
    ['rewrite a payment and all blocks', /is not the one that was signed|was signed and is missing/],
  ])('are refused for a ledger that was changed (CHECKPOINT_REFUSED): %s', async (kind, message) => {
    const file = fixture.file(`${kind}.ndjson`)
    await fixture.checkpoint(file)
    const before = await readFile(file, 'utf8')
    const refusal = await afterTamper(kind, (superuser) => failureOf(fixture.checkpoint(file, superuser)))
    expect(refusal).toMatchObject({ code: 'CHECKPOINT_REFUSED', message: expect.stringMatching(message) })
    expect(await readFile(file, 'utf8')).toBe(before)
  })

  test('are refused for a new block with a break (CHECKPOINT_REFUSED)', async () => {
    const file = fixture.file('unsound.ndjson')
    const refusal = await afterTamper('delete', (superuser) => failureOf(fixture.checkpoint(file, superuser)))
    expect(refusal).toMatchObject({
      code: 'CHECKPOINT_REFUSED',
      message: expect.stringContaining('sealed, and missing'),
    })
    expect(await failureOf(stat(file))).toMatchObject({ code: 'ENOENT' })
  })

  test('are refused with a changed byte, a missing line, another key or a partial last line', async () => {
    const file = fixture.file('bytes.ndjson')
    await fixture.checkpoint(file)
    await enqueue(fixture.db)
    await fixture.sealAll()
    await fixture.checkpoint(file)
    const text = await readFile(file, 'utf8')
    const lines = text.split('\n').slice(0, -1)
    const { publicKey } = fixture.keys
    expect(readCheckpoints(lines, publicKey)).toHaveLength(2)
    const accepted: number[] = []
    for (let at = 0; at < text.length - 1; at += 1) {
      const changed = `${text.slice(0, at)}${text[at] === '0' ? '1' : '0'}${text.slice(at + 1)}`
      try {
        readCheckpoints(changed.split('\n').slice(0, -1), publicKey)
        accepted.push(at)
      } catch {
        // Expected: the changed file is refused.
      }
    }
    expect(accepted).toEqual([])
    expect(() => readCheckpoints(lines.slice(1), publicKey)).toThrow(/line 1 .* lacks the hash of the previous line/)
    expect(() => readCheckpoints(lines.toReversed(), publicKey)).toThrow(/line 1/)
    expect(() => readCheckpoints(lines, generateKeyPairSync('ed25519').publicKey)).toThrow(/signed with another key/)
    await appendFile(file, lines[0]!.slice(0, 20))
    expect(await failureOf(fixture.checkpoint(file))).toMatchObject({ code: 'CHECKPOINTS_BROKEN' })
  })

  test('are refused while the lock file of another run exists (CHECKPOINT_BUSY)', async () => {
    const file = fixture.file('busy.ndjson')
    await writeFile(`${file}.lock`, '')
    expect(await failureOf(fixture.checkpoint(file))).toMatchObject({ code: 'CHECKPOINT_BUSY' })
  })

  test('symphony ledger rebuild exits with 2 without --yes; the ledger verifies after a rebuild', async () => {
    expect(await command(['ledger', 'rebuild'])).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('--yes'),
    })
    const rebuilt = await command(['ledger', 'rebuild', '--yes'])
    expect(rebuilt).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('Workers fill them again from') })
    expect(await fixture.verify()).toMatchObject({ breakCount: 0 })
  })

  test('are written and checked by `symphony ledger`, which refuses wrong keys and missing options', async () => {
    const key = fixture.file('key.pem')
    const pub = fixture.file('pub.pem')
    const out = fixture.file('by-command.ndjson')
    const keygen = ['ledger', 'keygen', '--key', key, '--public-key', pub]
    expect(await command(keygen)).toMatchObject({ exitCode: 0 })
    expect((await stat(key)).mode & 0o777).toBe(0o600)
    expect(await command(keygen)).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('KEYGEN_FAILED') })
    expect(await command(['ledger', 'checkpoint', '--key', key, '--out', out])).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/Block \d+ is signed, after the verification of \d+ blocks?: checkpoint 1 /),
    })
    const verify = ['ledger', 'verify', '--checkpoints', out, '--public-key', pub]
    expect(await command(verify)).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('0 of ') })
    expect(await command(['ledger', 'checkpoint', '--key', pub, '--out', out])).toMatchObject({
      exitCode: 1,
      stderr: expect.stringMatching(/KEY_UNUSABLE.*others can read it/),
    })
    expect(await command(['ledger', 'verify', '--checkpoints', out])).toMatchObject({ exitCode: 2 })
    expect(await command(['ledger', 'verify', '--public-key', pub])).toMatchObject({ exitCode: 2 })
    expect(await command(['ledger', 'verify', '--checkpoints', `${out}x`, '--public-key', pub])).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('CHECKPOINTS_MISSING'),
    })
    expect(await command(['ledger', 'verify', '--checkpoints', out, '--public-key', key])).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('it is a private key'),
    })
  })
})

describe('a ledger export', () => {
  let folder: string
  beforeAll(async () => {
    await enqueue(fixture.db)
    folder = fixture.file('export')
    await fixture.checkpoint(fixture.file('export.ndjson'))
    const checkpoints = await readFile(fixture.file('export.ndjson'), 'utf8')
    await exportLedger(databaseSource(fixture.auditor), folder, { checkpoints })
  })

  test('verifies offline with the same report as the database', async () => {
    const { source } = await openExport(folder)
    const checkpoints = await fixture.checkpoints(fixture.file('export.ndjson'))
    const offline = await verifyLedger(source, { checkpoints })
    expect(offline).toEqual(await fixture.verify(checkpoints))
    expect(offline).toMatchObject({ breakCount: 0, openRows: 1, checkpoints: 1 })
    const report = await (await openLedger({ exportFolder: folder })).audit()
    expect(report.invariants.map(({ id, ok }) => `${id} ${ok}`)).toEqual([
      'I2 true',
      'I6 true',
      'I7 true',
      'I9 true',
      'I11 true',
    ])
    expect(report.notJudged).toEqual(['I1', 'I3', 'I4', 'I5', 'I8', 'I10'])
  })

  test('fails the audit after a removed attempt (I6) or a second terminal outcome (I2)', async () => {
    const without = await createCopy('without')
    await rewriteFile(without, 'rows.ndjson', (lines) => lines.filter((line) => line !== attempts(lines)[0]))
    const gap = await (await openLedger({ exportFolder: without })).audit()
    expect(gap.invariants.find(({ id }) => id === 'I6')).toMatchObject({ ok: false, found: [expect.any(String)] })
    expect(gap.invariants.find(({ id }) => id === 'I2')).toMatchObject({ ok: true })
    const twice = await createCopy('twice')
    await rewriteFile(twice, 'rows.ndjson', (lines) => [...lines, secondTerminal(attempts(lines))])
    const double = await (await openLedger({ exportFolder: twice })).audit()
    expect(double.invariants.find(({ id }) => id === 'I2')).toMatchObject({ ok: false, found: [expect.any(String)] })
    expect(double.invariants.find(({ id }) => id === 'I6')).toMatchObject({ ok: true })
  })

  test('fails the audit after a second terminal outcome with attempt number 1 (I2)', async () => {
    const twice = await createCopy('twice first')
    await rewriteFile(twice, 'rows.ndjson', (lines) => [...lines, secondTerminal(attempts(lines), 1)])
    const { invariants } = await (await openLedger({ exportFolder: twice })).audit()
    expect(invariants.find(({ id }) => id === 'I2')).toMatchObject({ ok: false, found: [expect.any(String)] })
  })

  test('fails the audit after a removed event of an item or of a scope (I6)', async () => {
    const lines = (await readFile(join(folder, 'rows.ndjson'), 'utf8')).split('\n').slice(0, -1)
    const first = lines.filter((line) => isFollowedEvent(line, lines))
    expect(first.map((line) => readRow(line, NEWEST_FORMAT)!.field('scope') === null)).toEqual(
      expect.arrayContaining([true, false]),
    )
    for (const [index, removed] of first.entries()) {
      const without = await createCopy(`without event ${index}`)
      await rewriteFile(without, 'rows.ndjson', (all) => all.filter((line) => line !== removed))
      const { invariants } = await (await openLedger({ exportFolder: without })).audit()
      const { subject } = readRow(removed, NEWEST_FORMAT)!
      expect(invariants.find(({ id }) => id === 'I6')).toMatchObject({ ok: false, found: [subject] })
    }
  })

  test('is refused with a changed byte or an extra file (EXPORT_BROKEN)', async () => {
    const copy = await createCopy('bytes')
    const random = seededRandom('bytes')
    for (const name of await readdir(copy)) {
      const path = join(copy, name)
      const bytes = await readFile(path)
      for (let sample = 0; sample < 12; sample += 1) {
        const at = Math.floor(random() * bytes.length)
        const changed = Buffer.from(bytes)
        changed[at] = changed[at]! ^ (1 << Math.floor(random() * 7))
        await writeFile(path, changed)
        expect(await failureOf(openExport(copy)), `${name} at ${at}`).toMatchObject({ code: 'EXPORT_BROKEN' })
      }
      await writeFile(path, bytes)
    }
    expect((await openExport(copy)).manifest.blocks).toBeGreaterThan(0)
    await writeFile(join(copy, 'more'), '')
    expect(await failureOf(openExport(copy))).toMatchObject({ message: expect.stringContaining('more') })
  })

  test.each<[string, (lines: string[]) => string[], RegExp]>([
    ['a row left out', (lines) => lines.toSpliced(4, 1), /sealed, and missing/],
    ['a row changed', (lines) => lines.with(0, withBitFlipped(lines[0]!)), /differs from what was sealed/],
    ['a row twice', (lines) => lines.toSpliced(3, 0, lines[3]!), /in another order than its entries, or duplicated/],
    [
      'two rows swapped',
      (lines) => lines.with(0, lines[1]!).with(1, lines[0]!),
      /in another order|missing|was not there/,
    ],
    ['the end cut off', (lines) => lines.slice(0, -5), /sealed, and missing/],
  ])('fails verification if rows and manifest were rewritten: %s', async (title, change, why) => {
    const copy = await createCopy(title)
    await rewriteFile(copy, 'rows.ndjson', change)
    const { breaks } = await verifyLedger((await openExport(copy)).source)
    expect(breaks.map((one) => one.why).join()).toMatch(why)
    expect(breaks[0]).toMatchObject({ block: expect.stringMatching(/^\d+$/) })
  })

  test('is written by symphony ledger export into a new folder, and verifies with its checkpoints', async () => {
    const out = fixture.file('by-command')
    const checkpoints = fixture.file('by-command.ndjson')
    const pub = fixture.file('pub.pem')
    const words = ['ledger', 'export', '--out', out, '--checkpoints', checkpoints]
    expect(await command(words)).toMatchObject({ exitCode: 0 })
    expect(await command(words)).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('FOLDER_EXISTS') })
    // The files contain payloads, so only their owner may read them.
    for (const name of await readdir(out))
      expect([name, (await stat(join(out, name))).mode & 0o777]).toEqual([name, 0o600])
    const offline = await symphony(['ledger', 'verify', '--export', out, '--public-key', pub, '--json'])
    expect(offline).toMatchObject({ exitCode: 0, stderr: '' })
    expect(JSON.parse(offline.stdout)).toMatchObject({ ok: true, chain: { checkpoints: 1, openBlocks: 0 } })
    await writeFile(join(out, 'rows.ndjson'), '')
    expect(await symphony(['ledger', 'verify', '--export', out])).toMatchObject({ exitCode: 1 })
    expect(await symphony(['ledger', 'verify', '--export', out, '--drained'])).toMatchObject({ exitCode: 2 })
  })

  test('leaves no folder behind if writing it fails', async () => {
    const source = databaseSource({ query: () => Promise.reject(new Error('cut off')) })
    await failureOf(exportLedger(source, fixture.file('nothing')))
    expect((await readdir(fixture.folder)).filter((name) => name.includes('nothing'))).toEqual([])
  })

  async function createCopy(name: string): Promise<string> {
    const copy = fixture.file(`copy ${name}`)
    await cp(folder, copy, { recursive: true })
    return copy
  }
})

function attempts(lines: readonly string[]): string[] {
  return lines.filter((line) => line.includes('"attempt"'))
}

/** Returns whether a line is an event with number 1 of an item or scope that has later events. */
function isFollowedEvent(line: string, lines: readonly string[]): boolean {
  const row = readRow(line, NEWEST_FORMAT)
  if (row?.kind !== 'event' || row.number !== 1n) return false
  return lines.some((other) => {
    const next = readRow(other, NEWEST_FORMAT)
    return next?.kind === 'event' && next.subject === row.subject && next.number === 2n
  })
}

/** Flips the last bit of the record of a row. */
function withBitFlipped(line: string): string {
  const row: { record: string } = JSON.parse(line)
  const record = Buffer.from(row.record, 'base64')
  record[record.length - 1]! ^= 1
  return JSON.stringify({ ...row, record: record.toString('base64') })
}

/** Copies the terminal attempt of an item with one attempt. The copy has the given attempt number. */
function secondTerminal(lines: readonly string[], number = 2): string {
  for (const line of lines) {
    const row: { record: string } = JSON.parse(line)
    const record = Buffer.from(row.record, 'base64')
    let at = 4
    for (let column = 0; column < 8; column += 1) at += 8 + Math.max(0, record.readInt32BE(at + 4))
    const isTerminal = record.includes('DISPATCHED') || record.includes('FAILED')
    if (!isTerminal || record.readInt32BE(at + 8) !== 1) continue
    record.writeInt32BE(number, at + 8)
    return JSON.stringify({ ...row, record: record.toString('base64') })
  }
  throw new Error('no item ended with its first attempt')
}

/** Rewrites a file and its sum in the manifest, as an attacker with write access would. */
async function rewriteFile(copy: string, name: string, change: (lines: string[]) => string[]): Promise<void> {
  const lines = (await readFile(join(copy, name), 'utf8')).split('\n').slice(0, -1)
  const text = `${change(lines).join('\n')}\n`
  await writeFile(join(copy, name), text)
  const path = join(copy, 'manifest.json')
  const { digest: _digest, ...manifest }: ExportManifest & { digest: string } = JSON.parse(await readFile(path, 'utf8'))
  const files = { ...manifest.files, [name]: createHash('sha256').update(text).digest('hex') }
  await writeFile(path, writeManifest({ ...manifest, files }))
}
