import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { seededRandom } from '../../libs/cli/demo/seededRandom.js'
import { checkEvidence, createCheckpointKeys } from '../../libs/ledger/index.js'
import { symphony, type Said } from '../support/commandLine.js'
import { LedgerStage } from '../support/ledgerStage.js'
import { failureOf } from '../support/race.js'

/** Evidence: the same state gives the same bytes, any other byte is refused, and what does not hold leaves no bundle. */

let stage: LedgerStage
let words: readonly string[]
beforeAll(async () => {
  // The catalog is compared with the manifest: functions that count their branches would be drift.
  stage = await LedgerStage.open({ countBranches: false })
  await stage.play()
  await stage.sealAll(5)
  const key = stage.file('key.pem')
  const pub = stage.file('pub.pem')
  const out = stage.file('checkpoints.ndjson')
  await createCheckpointKeys(key, pub)
  await command('ledger', 'checkpoint', '--key', key, '--out', out)
  words = ['evidence', '--checkpoints', out, '--public-key', pub]
})
afterAll(() => stage.close())

function command(...given: readonly string[]): Promise<Said> {
  return symphony(given, { DATABASE_URL: stage.db.url, SYMPHONY_SCHEMA: stage.db.schema })
}

/** Every file with its bytes. */
async function contentsOf(folder: string): Promise<Map<string, string>> {
  const names = (await readdir(folder)).toSorted()
  return new Map(
    await Promise.all(names.map(async (name) => [name, await readFile(join(folder, name), 'utf8')] as const)),
  )
}

describe('a bundle', () => {
  let folder: string
  beforeAll(async () => {
    folder = stage.file('bundle')
    const { exitCode, stderr } = await command(...words, '--out', folder, '--key', stage.file('key.pem'))
    if (exitCode !== 0) throw new Error(stderr)
  })

  test('is the same, byte for byte, when it is written again on the same state', async () => {
    const again = stage.file('again')
    expect(await command(...words, '--out', again, '--key', stage.file('key.pem'))).toMatchObject({ exitCode: 0 })
    expect(await contentsOf(again)).toEqual(await contentsOf(folder))
  })

  test('has a file for each thing that it proves, and a README that says so of each', async () => {
    const contents = await contentsOf(folder)
    expect([...contents.keys()]).toEqual(FILES)
    const readme = contents.get('README.md') ?? ''
    for (const name of FILES) expect(readme).toContain(name)
    expect(readme).toContain('P0001')
    expect(JSON.parse(contents.get('verification.json') ?? '')).toMatchObject({
      ok: true,
      chain: { breakCount: 0, openRows: 0 },
    })
    expect(JSON.parse(contents.get('counts.json') ?? '')).toMatchObject({ openBlocks: 0, checkpoints: 1 })
    expect(contents.get('grants.json')).toContain('EXECUTE on function seal_ledger_block(integer) to symphony_executor')
    expect(contents.get('conformance.md')).toContain('PRIM-POSTGRES-OUTBOX-001')
    expect(Object.keys(JSON.parse(contents.get('settings.json') ?? '{}'))).toEqual(['deployment', 'server'])
  })

  test('is accepted without a database, and with a key that somebody brings', async () => {
    expect(await symphony(['evidence', 'check', folder])).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('Who wrote it is not proven'),
    })
    const checked = await symphony(['evidence', 'check', folder, '--public-key', stage.file('pub.pem'), '--json'])
    expect(JSON.parse(checked.stdout)).toMatchObject({
      ok: true,
      signed: true,
      checkpoints: 1,
      files: FILES.length - 1,
    })
  })

  test('is refused with any single changed byte', async () => {
    const random = seededRandom('evidence')
    const accepted: string[] = []
    for (const name of await readdir(folder)) {
      const path = join(folder, name)
      const bytes = await readFile(path)
      for (let sample = 0; sample < SAMPLES_PER_FILE; sample += 1) {
        const changed = Buffer.from(bytes)
        const at = Math.floor(random() * bytes.length)
        changed[at] = changed[at]! ^ (1 << Math.floor(random() * 7))
        await writeFile(path, changed)
        if (await accepts(folder)) accepted.push(`${name} at ${at}`)
      }
      await writeFile(path, bytes)
    }
    expect(accepted).toEqual([])
    expect(await accepts(folder)).toBe(true)
  })

  test('is refused with a file or folder too many, a file too few, one cut short or made longer', async () => {
    const readme = join(folder, 'README.md')
    const text = await readFile(readme, 'utf8')
    for (const spoil of [text.slice(0, -1), `${text}\n`, '']) {
      await writeFile(readme, spoil)
      expect(await accepts(folder)).toBe(false)
    }
    await rm(readme)
    expect(await accepts(folder)).toBe(false)
    await writeFile(readme, text)
    await writeFile(join(folder, 'more'), '')
    expect(await failureOf(checkEvidence(folder))).toMatchObject({
      code: 'EVIDENCE_BROKEN',
      message: expect.stringContaining('more'),
    })
    await rm(join(folder, 'more'))
    expect(await accepts(folder)).toBe(true)
    expect(await symphony(['evidence', 'check', stage.file('nowhere')])).toMatchObject({ exitCode: 1 })
  })
})

describe('without a bundle', () => {
  test('a ledger that does not hold leaves none, and says what was found', async () => {
    await stage.db.queryNoRole('ALTER TABLE payment_outbox_events DISABLE TRIGGER ALL')
    await stage.db.queryNoRole(
      `UPDATE payment_outbox_events SET actor = 'eve' WHERE event_no = 1 AND scope IS NOT NULL`,
    )
    await stage.db.queryNoRole(
      'ALTER TABLE payment_outbox_events ENABLE ALWAYS TRIGGER payment_outbox_events_is_append_only',
    )
    const { exitCode, stdout, stderr } = await command(...words, '--out', stage.file('broken'))
    expect({ exitCode, stderr }).toEqual({ exitCode: 1, stderr: expect.stringContaining('EVIDENCE_REFUSED') })
    expect(stdout).toContain('content differs from its hash')
    expect((await readdir(stage.folder)).filter((name) => name.includes('broken'))).toEqual([])
  })

  test('nor does a schema that is not what was deployed', async () => {
    await stage.db.queryNoRole('GRANT INSERT ON payment_outbox_attempts TO symphony_control')
    const { exitCode, stderr } = await command(...words, '--out', stage.file('drifted'))
    expect({ exitCode, stderr }).toEqual({ exitCode: 1, stderr: expect.stringContaining('is not what was deployed') })
    expect((await readdir(stage.folder)).filter((name) => name.includes('drifted'))).toEqual([])
  })

  test('a command line that names no folder is refused before anything is read', async () => {
    expect(await command('evidence')).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('--out') })
  })
})

async function accepts(folder: string): Promise<boolean> {
  return checkEvidence(folder).then(
    () => true,
    () => false,
  )
}

const SAMPLES_PER_FILE = 8

const FILES = [
  'MANIFEST.sha256',
  'MANIFEST.sha256.sig',
  'README.md',
  'blocks.ndjson',
  'checkpoint-key.pem',
  'checkpoints.ndjson',
  'columns.json',
  'conformance.md',
  'constraints.json',
  'counts.json',
  'default-privileges.json',
  'deployments.json',
  'doctor.json',
  'functions.json',
  'grants.json',
  'indexes.json',
  'policies.json',
  'roles.json',
  'rules.json',
  'settings.json',
  'signing-key.pem',
  'tables.json',
  'triggers.json',
  'verification.json',
  'views.json',
]
