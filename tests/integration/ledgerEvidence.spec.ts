import { createPrivateKey, createPublicKey, generateKeyPairSync, sign, type KeyObject } from 'node:crypto'
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { seededRandom } from '../../libs/cli/commands/demo/seededRandom.js'
import { checkEvidence, createCheckpointKeys } from '../../libs/ledger/index.js'
import { checkBundle } from '../../libs/ledger/checkEvidence.js'
import { manifestOf, stableJson } from '../../libs/ledger/evidence.js'
import { describeRuns, parseRuns, writeRuns, type BundledRuns } from '../../libs/ledger/evidenceRuns.js'
import { NEWEST_FORMAT } from '../../libs/ledger/formats.js'
import { LedgerRow } from '../../libs/ledger/LedgerRow.js'
import { approveOutboxLimit, proposeOutboxLimit } from '../../libs/outbox/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { symphony, type CommandOutput } from '../support/commandLine.js'
import { LedgerFixture } from '../support/ledgerFixture.js'
import { createPerson } from '../support/outboxPeople.js'
import { failureOf } from '../support/race.js'

// Branch counters change function bodies, for which an evidence bundle is refused.
const fixture = closeAfterAll(await LedgerFixture.open({ countBranches: false }))
const [ann, bob] = [await createPerson(fixture.db, 'anna'), await createPerson(fixture.db, 'boris')]
let words: readonly string[]
beforeAll(async () => {
  await fixture.fill()
  const rule = { kind: 'count', limit: '5', railType: 'SEPA', windowSeconds: 60 } as const
  for (const [name, set] of [
    ['first', rule],
    ['first', null],
    ['second', rule],
  ] as const) {
    await approveOutboxLimit(bob.control, await proposeOutboxLimit(ann.control, name, set, 'agreed'))
  }
  await fixture.sealAll(5)
  const key = fixture.file('key.pem')
  const pub = fixture.file('pub.pem')
  const out = fixture.file('checkpoints.ndjson')
  await createCheckpointKeys({ privateKey: key, publicKey: pub })
  await command('ledger', 'checkpoint', '--key', key, '--out', out)
  words = ['evidence', '--checkpoints', out, '--public-key', pub]
})

/** Public key that cannot verify a signature. */
const X25519 = generateKeyPairSync('x25519').publicKey.export({ type: 'spki', format: 'pem' }).toString()

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

  test('is identical byte for byte when it is written twice from the same state', async () => {
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

  test('lists each limit in force, and who proposed and approved each change of a limit', async () => {
    const { limits, events } = JSON.parse((await contentsOf(folder)).get('limits.json') ?? '')
    const rule = { kind: 'count', limit_value: '5', rail_type: 'SEPA', window_seconds: 60 }
    expect(limits).toMatchObject([{ limit_name: 'second', ...rule, set_by: bob.name, set_at: expect.any(Number) }])
    expect(events).toMatchObject([
      { scope: 'limit:first', event_no: 1, event_type: 'LIMIT_PROPOSED', actor: ann.name, detail: { rule } },
      {
        scope: 'limit:first',
        event_no: 2,
        event_type: 'LIMIT_SET',
        actor: bob.name,
        detail: { proposed_by: ann.name },
      },
      { scope: 'limit:first', event_no: 3, event_type: 'LIMIT_PROPOSED', detail: { rule: null } },
      { scope: 'limit:first', event_no: 4, event_type: 'LIMIT_SET', detail: { rule: null } },
      { scope: 'limit:second', event_no: 1, event_type: 'LIMIT_PROPOSED', detail: { rule } },
      { scope: 'limit:second', event_no: 2, event_type: 'LIMIT_SET', detail: { rule } },
    ])
  })

  test('passes "evidence check" without a database, with and without a public key', async () => {
    expect(await symphony(['evidence', 'check', folder])).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('Its author is not verified'),
    })
    const checked = await symphony(['evidence', 'check', folder, '--public-key', fixture.file('pub.pem'), '--json'])
    expect(JSON.parse(checked.stdout)).toMatchObject({
      ok: true,
      signed: true,
      checkpoints: 1,
      reconciliations: 1,
      files: FILES.length - 1,
    })
  })

  test('passes the check with the key that signed it, which may differ from the checkpoint key', async () => {
    const [key, pub] = [fixture.file('auditor.pem'), fixture.file('auditor-public.pem')]
    await createCheckpointKeys({ privateKey: key, publicKey: pub })
    const out = fixture.file('by-auditor')
    expect(await command(...words, '--out', out, '--key', key)).toMatchObject({ exitCode: 0 })
    const checked = await symphony(['evidence', 'check', out, '--public-key', pub, '--json'])
    expect(checked).toMatchObject({ exitCode: 0, stderr: '' })
    expect(JSON.parse(checked.stdout)).toMatchObject({ ok: true, signed: true, checkpoints: 1 })
    const publicKey = createPublicKey(await readFile(pub))
    const forged = unsigned(await contentsOf(out))
    expect(() => checkBundle(bytesIn(forged), publicKey)).toThrow(/is not signed/)
    const signature = await readFile(join(out, `${MANIFEST}.sig`), 'utf8')
    expect(() => checkBundle(bytesIn(new Map([...forged, [`${MANIFEST}.sig`, signature]])), publicKey)).toThrow(
      /signature does not match/,
    )
    expect(() => checkBundle(bytesIn(forged))).not.toThrow()
    expect(await failureOf(checkEvidence({ folder: out, publicKey: fixture.file('pub.pem') }))).toMatchObject({
      code: 'EVIDENCE_BROKEN',
    })
  })

  test('contains each reconciliation with its findings and closings', async () => {
    const [{ run, findings }, ...others] = JSON.parse(await readFile(join(folder, 'reconciliations.json'), 'utf8'))
    expect(others).toEqual([])
    expect(run).toMatchObject({
      actor: expect.stringContaining('ann'),
      block: expect.stringMatching(/^\d+$/),
      detail: { counts: { paid_twice: 1, unknown_entry: 1 }, file_sha256: expect.stringMatching(/^[0-9a-f]{64}$/) },
    })
    expect(findings).toMatchObject([
      {
        kind: 'paid_twice',
        detail: { entries: [{ amount: '10.50' }, { amount: '10.51' }] },
        closing: { detail: { reason: 'the bank returned one' } },
      },
      { kind: 'unknown_entry', closing: null },
    ])
  })

  test.each<[change: string, edit: (runs: BundledRuns) => BundledRuns, problem: RegExp]>([
    ['a changed finding', (runs) => ({ ...runs, findings: runs.findings.map(withForgedKind) }), /^the findings of run/],
    ['a removed finding', (runs) => ({ ...runs, findings: runs.findings.slice(1) }), /^the findings of run/],
    ['a changed event', (runs) => ({ ...runs, events: runs.events.map(withForgedActor) }), /is not in block \d+$/],
    ['an event of another block', (runs) => ({ ...runs, events: runs.events.map(inFirstBlock) }), /is not in block 1$/],
    ['a removed run', (runs) => ({ ...runs, events: runs.events.slice(1) }), /but not its event$/],
    [
      'only the closing of a run',
      ({ events }) => ({ events: events.slice(1), findings: [] }),
      /was closed and is missing$/,
    ],
  ])(
    'is refused after a forged reconciliation (%s), although its manifest matches the files',
    async (_change, edit, problem) => {
      const bundle = unsigned(await contentsOf(folder))
      expect(acceptsBytes(bytesIn(bundle))).toBe(true)
      const runs = edit(parseRuns(bundle.get('reconciliations.ndjson') ?? '')!)
      const forged = unsigned(
        new Map([
          ...bundle,
          ['reconciliations.ndjson', writeRuns(runs)],
          ['reconciliations.json', stableJson(describeRuns(runs))],
        ]),
      )
      expect(() => checkBundle(bytesIn(forged))).toThrow(problem)
    },
  )

  test('is refused if reconciliations.json differs from the rows, although its manifest matches', async () => {
    const bundle = unsigned(await contentsOf(folder))
    const readable = (bundle.get('reconciliations.json') ?? '').replace('paid_twice', 'matched')
    const forged = unsigned(new Map([...bundle, ['reconciliations.json', readable]]))
    expect(() => checkBundle(bytesIn(forged))).toThrow(/does not say what reconciliations.ndjson contains/)
  })

  test.each([
    ['an empty verification.json', 'verification.json', ''],
    ['a shortened functions.json', 'functions.json', '{'],
    ['a damaged signing-key.pem', 'signing-key.pem', 'damaged'],
    ['a signing-key.pem that is no Ed25519 key', 'signing-key.pem', X25519],
    ['a damaged checkpoint-key.pem', 'checkpoint-key.pem', 'damaged'],
  ])('is refused with %s (EVIDENCE_BROKEN)', async (_, name, text) => {
    const { [MANIFEST]: _manifest, ...kept } = Object.fromEntries(unsigned(await contentsOf(folder)))
    const files = new Map(Object.entries({ ...kept, [name]: text }))
    const forged = bytesIn(new Map([...files, [MANIFEST, manifestOf(files)]]))
    expect(await failureOf(Promise.resolve(forged).then((bundle) => checkBundle(bundle)))).toMatchObject({
      code: 'EVIDENCE_BROKEN',
      message: `${name} is not what was written`,
      remedy: expect.stringContaining('Compare it with its copies'),
    })
  })

  test('is refused if only an empty manifest is left, by the command too (EVIDENCE_BROKEN)', async () => {
    const left = fixture.file('left')
    await mkdir(left)
    await writeFile(join(left, MANIFEST), '')
    const { exitCode, stderr } = await symphony(['evidence', 'check', left])
    expect({ exitCode, stderr }).toEqual({ exitCode: 1, stderr: expect.stringContaining('EVIDENCE_BROKEN') })
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
    const asJson = await command(...words, '--out', fixture.file('broken'), '--json')
    expect(JSON.parse(asJson.stdout)).toMatchObject({ ok: false, audit: { ok: false } })
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

/** Returns the bundle without a signature and with a manifest of its files, as a forger would write it. */
function unsigned(files: ReadonlyMap<string, string>): Map<string, string> {
  const kept = [...files].filter(([name]) => !name.startsWith(MANIFEST) && name !== 'signing-key.pem')
  return new Map([...kept, [MANIFEST, manifestOf(new Map(kept))]])
}

function bytesIn(files: ReadonlyMap<string, string>): Bundle {
  return new Map([...files].map(([name, text]) => [name, Buffer.from(text)]))
}

type BundledEvent = BundledRuns['events'][number]
type BundledFinding = BundledRuns['findings'][number]

function withForgedKind({ record, ...finding }: BundledFinding): BundledFinding {
  return { ...finding, record: replaced(record, 'paid_twice', 'paid_thrce') }
}

function withForgedActor({ row, ...event }: BundledEvent): BundledEvent {
  const record = replaced(row.record, 'ann', 'eve')
  return { ...event, row: LedgerRow.of('event', row.xid, record, NEWEST_FORMAT) }
}

function inFirstBlock(event: BundledEvent): BundledEvent {
  return { ...event, block: '1' }
}

function replaced(record: Buffer, from: string, to: string): Buffer {
  return Buffer.from(record.toString('latin1').replace(from, to), 'latin1')
}

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
/** Files that `shortened` keeps whole, because the check parses them. */
const WHOLE = new Set([
  'blocks.ndjson',
  'checkpoint-key.pem',
  'checkpoints.ndjson',
  'reconciliations.json',
  'reconciliations.ndjson',
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
  'limits.json',
  'policies.json',
  'reconciliations.json',
  'reconciliations.ndjson',
  'roles.json',
  'rules.json',
  'settings.json',
  'signing-key.pem',
  'tables.json',
  'triggers.json',
  'verification.json',
  'views.json',
]
