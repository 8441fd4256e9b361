import { createPrivateKey, sign, type KeyObject } from 'node:crypto'
import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { seededRandom } from '../../libs/cli/commands/demo/seededRandom.js'
import { checkEvidence, createCheckpointKeys } from '../../libs/ledger/index.js'
import { checkBundle } from '../../libs/ledger/checkEvidence.js'
import { manifestOf } from '../../libs/ledger/evidence.js'
import { closeAfterAll } from '../support/afterAll.js'
import { symphony, type CommandOutput } from '../support/commandLine.js'
import { LedgerFixture } from '../support/ledgerFixture.js'
import { failureOf } from '../support/race.js'

// Functions that count their branches differ from the manifest. An evidence bundle would be refused.
const fixture = closeAfterAll(await LedgerFixture.open({ countBranches: false }))
let words: readonly string[]
beforeAll(async () => {
  await fixture.fill()
  await fixture.sealAll(5)
  const key = fixture.file('key.pem')
  const pub = fixture.file('pub.pem')
  const out = fixture.file('checkpoints.ndjson')
  await createCheckpointKeys({ privateKey: key, publicKey: pub })
  await command('ledger', 'checkpoint', '--key', key, '--out', out)
  words = ['evidence', '--checkpoints', out, '--public-key', pub]
})

function command(...given: readonly string[]): Promise<CommandOutput> {
  return symphony(given, { DATABASE_URL: fixture.db.url, SYMPHONY_SCHEMA: fixture.db.schema })
}

/** Returns the content of each file by its name. */
async function contentsOf(folder: string): Promise<Map<string, string>> {
  const names = (await readdir(folder)).toSorted()
  return new Map(
    await Promise.all(names.map(async (name) => [name, await readFile(join(folder, name), 'utf8')] as const)),
  )
}

describe('an evidence bundle', () => {
  let folder: string
  beforeAll(async () => {
    folder = fixture.file('bundle')
    const { exitCode, stderr } = await command(...words, '--out', folder, '--key', fixture.file('key.pem'))
    if (exitCode !== 0) throw new Error(stderr)
  })

  test('is the same byte for byte when it is written again from the same state', async () => {
    const again = fixture.file('again')
    expect(await command(...words, '--out', again, '--key', fixture.file('key.pem'))).toMatchObject({ exitCode: 0 })
    expect(await contentsOf(again)).toEqual(await contentsOf(folder))
  })

  test('has its files with mode 0600 and a README that names each of them', async () => {
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
    expect(contents.get('grants.json')).toContain(
      'EXECUTE on function seal_ledger_block(integer, integer) to symphony_executor',
    )
    expect(contents.get('conformance.md')).toContain('PRIM-POSTGRES-OUTBOX-001')
    for (const name of FILES) expect([name, (await stat(join(folder, name))).mode & 0o777]).toEqual([name, 0o600])
    expect(Object.keys(JSON.parse(contents.get('settings.json') ?? '{}'))).toEqual(['deployment', 'server'])
  })

  test('passes evidence check without a database, with and without a public key', async () => {
    expect(await symphony(['evidence', 'check', folder])).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('Its author is not verified'),
    })
    const checked = await symphony(['evidence', 'check', folder, '--public-key', fixture.file('pub.pem'), '--json'])
    expect(JSON.parse(checked.stdout)).toMatchObject({
      ok: true,
      signed: true,
      checkpoints: 1,
      files: FILES.length - 1,
    })
  })

  test('is refused after a change of one byte, at sampled positions of every file', async () => {
    const random = seededRandom('evidence')
    const bundle = await bytesOf(folder)
    const accepted: string[] = []
    for (const [name, bytes] of bundle) {
      const places = Array.from({ length: SAMPLES_PER_FILE }, () => Math.floor(random() * bytes.length))
      for (const at of [0, ...places, bytes.length - 1]) {
        if (acceptsBytes(withChangedByte(bundle, name, at))) accepted.push(`${name} at ${at}`)
      }
    }
    expect(accepted).toEqual([])
    expect(acceptsBytes(bundle)).toBe(true)
  })

  test('is refused after a change of one byte, at every position of a shortened bundle', async () => {
    const bundle = shortened(await bytesOf(folder), createPrivateKey(await readFile(fixture.file('key.pem'))))
    expect(acceptsBytes(bundle)).toBe(true)
    const accepted: string[] = []
    let changes = 0
    for (const [name, bytes] of bundle) {
      for (let at = 0; at < bytes.length; at += 1) {
        changes += 1
        if (acceptsBytes(withChangedByte(bundle, name, at))) accepted.push(`${name} at ${at}`)
      }
    }
    expect(accepted).toEqual([])
    expect([...bundle.keys()]).toEqual(FILES)
    expect(changes).toBeGreaterThan(5_000)
  })

  test('is refused with an extra, missing, shortened or lengthened file (EVIDENCE_BROKEN)', async () => {
    const readme = join(folder, 'README.md')
    const text = await readFile(readme, 'utf8')
    for (const corrupt of [text.slice(0, -1), `${text}\n`, '']) {
      await writeFile(readme, corrupt)
      expect(await accepts(folder)).toBe(false)
    }
    await rm(readme)
    expect(await accepts(folder)).toBe(false)
    await writeFile(readme, text)
    await writeFile(join(folder, 'more'), '')
    expect(await failureOf(checkEvidence({ folder }))).toMatchObject({
      code: 'EVIDENCE_BROKEN',
      message: expect.stringContaining('more'),
    })
    await rm(join(folder, 'more'))
    expect(await accepts(folder)).toBe(true)
    expect(await symphony(['evidence', 'check', fixture.file('nowhere')])).toMatchObject({ exitCode: 1 })
  })
})

describe('symphony evidence', () => {
  test('writes no bundle of a ledger with a break, and names the break (EVIDENCE_REFUSED)', async () => {
    await fixture.db.queryNoRole('ALTER TABLE payment_outbox_events DISABLE TRIGGER ALL')
    await fixture.db.queryNoRole(
      `UPDATE payment_outbox_events SET actor = 'eve' WHERE event_no = 1 AND scope IS NOT NULL`,
    )
    await fixture.db.queryNoRole(
      'ALTER TABLE payment_outbox_events ENABLE ALWAYS TRIGGER payment_outbox_events_is_append_only',
    )
    const { exitCode, stdout, stderr } = await command(...words, '--out', fixture.file('broken'))
    expect({ exitCode, stderr }).toEqual({ exitCode: 1, stderr: expect.stringContaining('EVIDENCE_REFUSED') })
    expect(stdout).toContain('differs from what was sealed')
    expect((await readdir(fixture.folder)).filter((name) => name.includes('broken'))).toEqual([])
  })

  test('writes no bundle of a schema with an extra grant', async () => {
    await fixture.db.queryNoRole('GRANT INSERT ON payment_outbox_attempts TO symphony_control')
    const { exitCode, stderr } = await command(...words, '--out', fixture.file('drifted'))
    expect({ exitCode, stderr }).toEqual({ exitCode: 1, stderr: expect.stringContaining('is not what was deployed') })
    expect((await readdir(fixture.folder)).filter((name) => name.includes('drifted'))).toEqual([])
  })

  test('refuses a command line without --out with exit code 2', async () => {
    expect(await command('evidence')).toMatchObject({ exitCode: 2, stderr: expect.stringContaining('--out') })
  })
})

async function accepts(folder: string): Promise<boolean> {
  return checkEvidence({ folder }).then(
    () => true,
    () => false,
  )
}

type Bundle = ReadonlyMap<string, Buffer>

async function bytesOf(folder: string): Promise<Bundle> {
  const names = (await readdir(folder)).toSorted()
  return new Map(await Promise.all(names.map(async (name) => [name, await readFile(join(folder, name))] as const)))
}

/** Flips one bit, chosen by the position, so that results include letters, line ends and invalid UTF-8. */
function withChangedByte(bundle: Bundle, name: string, at: number): Bundle {
  const changed = Buffer.from(bundle.get(name)!)
  changed[at] = changed[at]! ^ (1 << (at % 8))
  return new Map([...bundle, [name, changed]])
}

function acceptsBytes(bundle: Bundle): boolean {
  try {
    checkBundle(bundle)
    return true
  } catch {
    return false
  }
}

/** Returns the bundle with shortened files and a new manifest and signature, so that a test can change every byte. */
function shortened(bundle: Bundle, key: KeyObject): Bundle {
  const { [MANIFEST]: _manifest, [`${MANIFEST}.sig`]: _signature, ...listed } = Object.fromEntries(bundle)
  const files = new Map(
    Object.entries(listed).map(([name, bytes]) => {
      const text = bytes.toString()
      if (name === 'functions.json') return [name, JSON.stringify(firstOf(JSON.parse(text)))]
      return [name, WHOLE.has(name) ? text : text.slice(0, 100)]
    }),
  )
  const manifest = manifestOf(files)
  const signature = `${sign(null, Buffer.from(manifest), key).toString('base64')}\n`
  const all = new Map([[MANIFEST, manifest], [`${MANIFEST}.sig`, signature], ...files])
  return new Map([...all].map(([name, text]) => [name, Buffer.from(text)]))
}

function firstOf(functions: Record<string, unknown>): object {
  return Object.fromEntries(Object.entries(functions).slice(0, 1))
}

const MANIFEST = 'MANIFEST.sha256'
/** Files whose content the check parses. */
const WHOLE = new Set([
  'blocks.ndjson',
  'checkpoint-key.pem',
  'checkpoints.ndjson',
  'signing-key.pem',
  'verification.json',
])
const SAMPLES_PER_FILE = 4

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
