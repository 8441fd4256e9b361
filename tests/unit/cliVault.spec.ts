import { chmod, chown, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { MasterKeyFile } from '../../libs/cli/processes/MasterKeyFile.js'
import { symphony, type CommandOutput } from '../support/commandLine.js'
import { useTestDatabase } from '../support/database.js'
import { failureOf } from '../support/race.js'

const SECRET = 'DE89370400440532013000'
const db = await useTestDatabase()
let env: Record<string, string>
let folder: string
let keys: string
let rails: string
beforeAll(async () => {
  const login = await db.createLogin('vault', {
    roles: ['symphony_control', 'symphony_ingest', 'symphony_executor', 'symphony_readonly'],
  })
  env = { DATABASE_URL: login.url, SYMPHONY_SCHEMA: db.schema }
  folder = await mkdtemp(join(tmpdir(), 'symphony-vault-'))
  keys = join(folder, 'vault.json')
  rails = join(folder, 'rails.mjs')
  await writeFile(
    rails,
    `export default [{ type: 'sealed', onUnknown: 'hold', money: false, dispatch: () => ({ outcome: 'success', reference: 'r' }),
       fields: { '/iban': 'encrypted', '/memo': 'forbidden' },
       close: () => { globalThis.closedRails = (globalThis.closedRails ?? 0) + 1 } }]`,
  )
})
afterAll(async () => {
  await rm(folder, { recursive: true })
})

const vault = (...words: readonly string[]): Promise<CommandOutput> => symphony(['vault', ...words], env)

function enqueue(id: string, payload: object, ...words: readonly string[]): Promise<CommandOutput> {
  const given = ['--instruction', id, '--participant', 'acme', '--rail', 'sealed', '--payload', JSON.stringify(payload)]
  return symphony(['enqueue', ...given, ...words], env)
}

/** Returns one line of a file of instructions. */
function line(id: string, payload: object): string {
  return JSON.stringify({ instructionId: id, participantId: 'acme', railType: 'sealed', payload })
}

function worker(...words: readonly string[]): Promise<CommandOutput> {
  const given = ['worker', '--rails', rails, '--no-http', '--log-level', 'silent', ...words]
  return symphony(given, env, AbortSignal.timeout(60_000))
}

test('vault keygen creates a file that only its owner can read, and adds keys to it', async () => {
  const made = await vault('keygen', keys, '--id', 'one', '--json')
  expect(JSON.parse(made.stdout)).toEqual({ id: 'one', current: 'one' })
  expect((await stat(keys)).mode & 0o777).toBe(0o600)
  expect(made.stdout).not.toContain(JSON.parse(await readFile(keys, 'utf8')).keys.one)
  expect((await vault('keygen', keys, '--id', 'one')).stderr).toContain('already')
  expect(JSON.parse((await vault('keygen', keys, '--id', 'two', '--not-current', '--json')).stdout)).toEqual({
    id: 'two',
    current: 'one',
  })
})

test('vault keygen keeps mode, owner and group of an existing file, or changes nothing', async () => {
  const shared = join(folder, 'shared.json')
  await vault('keygen', shared)
  await chmod(shared, 0o640)
  // Only root can give a file to another owner.
  const isRoot = process.getuid?.() === 0
  if (isRoot) await chown(shared, 12_345, 12_346)
  const { mode, uid, gid } = await stat(shared)
  const umask = process.umask(0o077)
  try {
    expect(await vault('keygen', shared)).toMatchObject({ exitCode: 0 })
  } finally {
    process.umask(umask)
  }
  expect(await stat(shared)).toMatchObject({ mode, uid, gid })
  if (!isRoot) return
  const before = await readFile(shared)
  await chown(folder, 12_347, 12_346)
  process.setegid!(12_346)
  process.seteuid!(12_347)
  try {
    const { exitCode, stderr } = await vault('keygen', shared)
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining('belongs to another user')])
  } finally {
    process.seteuid!(0)
    process.setegid!(0)
  }
  expect(await readFile(shared)).toEqual(before)
  expect((await readdir(folder)).filter((name) => name.startsWith('shared'))).toEqual(['shared.json'])
})

test('a key file that is invalid or readable by others is refused; its content is not shown', async () => {
  const open = join(folder, 'open.json')
  await writeFile(open, await readFile(keys))
  await chmod(open, 0o644)
  expect(await failureOf(MasterKeyFile.open(open))).toMatchObject({ code: 'MASTER_KEYS_UNREADABLE' })
  await writeFile(open, `{"keys": "${SECRET}"`)
  await chmod(open, 0o600)
  const { exitCode, stderr } = await enqueue('never', {}, '--vault-keys', open)
  expect([exitCode, stderr.includes(SECRET)]).toEqual([2, false])
  expect((await enqueue('never', {}, '--vault-keys', join(folder, 'none'))).exitCode).toBe(2)
})

test('an open MasterKeyFile finds a key that is added to its file later', async () => {
  const file = await MasterKeyFile.open(keys)
  expect(await file.find('three')).toBeUndefined()
  await vault('keygen', keys, '--id', 'three', '--not-current')
  expect((await file.find('three'))?.id).toBe('three')
  expect((await file.current()).id).toBe('one')
})

describe('for a rail with encrypted fields,', () => {
  test('enqueue encrypts them, and fails without keys or for a card number in a forbidden field', async () => {
    const closedBefore = Number(Reflect.get(globalThis, 'closedRails') ?? 0)
    const refused = await enqueue('p-1', { iban: SECRET }, '--rails', rails)
    expect(refused.stderr).toContain('FIELD_KEY_MISSING')
    const words = ['--rails', rails, '--vault-keys', keys]
    expect((await enqueue('p-1', { iban: SECRET }, ...words)).stdout).toContain('was enqueued')
    expect((await enqueue('p-1', { iban: SECRET }, ...words)).stdout).toContain('already existed')
    const file = join(folder, 'payments.ndjson')
    await writeFile(file, [line('p-1', { iban: SECRET }), line('p-2', { iban: SECRET })].join('\n'))
    expect((await symphony(['enqueue', '--file', file, ...words], env)).stdout).toContain(
      '1 enqueued, 1 already existed',
    )
    const { rows } = await db.queryNoRole<{ text: string }>('SELECT p::text AS text FROM payment_outbox_pending p')
    expect(rows).toHaveLength(2)
    for (const { text } of rows) expect(text).not.toContain(SECRET)
    // The command closes its rails. Resources that a rail keeps open would keep the process running.
    expect(Reflect.get(globalThis, 'closedRails')).toBe(closedBefore + 4)
    const card = await enqueue('p-3', { memo: '4111 1111 1111 1111' }, ...words)
    expect([card.exitCode, card.stderr]).toEqual([1, expect.stringContaining('CARD_NUMBER_REFUSED')])
    expect(card.stderr).not.toContain('4111')
  })

  test('a worker does not start if a key in use is missing (VAULT_KEYS_MISSING)', async () => {
    const closedBefore = Number(Reflect.get(globalThis, 'closedRails') ?? 0)
    const other = join(folder, 'other.json')
    await vault('keygen', other, '--id', 'other')
    for (const words of [[], ['--vault-keys', other]]) {
      const { exitCode, stderr } = await worker(...words)
      expect([exitCode, stderr]).toEqual([2, expect.stringContaining('VAULT_KEYS_MISSING')])
    }
    expect(Reflect.get(globalThis, 'closedRails')).toBe(closedBefore + 2)
  })

  test('a worker closes the rail if the database is unreachable', async () => {
    const closedBefore = Number(Reflect.get(globalThis, 'closedRails') ?? 0)
    const nowhere = await worker('--database-url', 'postgres://unknown-user@127.0.0.1:1/none')
    expect(nowhere.exitCode).toBe(3)
    expect(Reflect.get(globalThis, 'closedRails')).toBe(closedBefore + 1)
    expect((await worker('--vault-keys', join(folder, 'none'))).exitCode).toBe(2)
    expect(Reflect.get(globalThis, 'closedRails')).toBe(closedBefore + 1)
  })
})

test('vault status counts keys, rotate rewraps keys, and shred needs --yes to destroy one', async () => {
  await vault('keygen', keys, '--id', 'four')
  expect(JSON.parse((await vault('rotate', '--vault-keys', keys, '--json')).stdout)).toEqual({
    masterKeyId: 'four',
    rewrapped: 1,
  })
  expect(JSON.parse((await vault('status', '--json')).stdout)).toEqual({
    live: 1,
    destroyed: 0,
    masterKeys: [{ masterKeyId: 'four', keys: 1 }],
  })
  expect((await vault('rotate')).exitCode).toBe(2)
  expect((await vault('shred', 'acme', '--yes')).exitCode).toBe(2)
  expect((await vault('shred', 'acme', '--reason', 'asked to')).stderr).toContain('--yes')
  expect((await vault('status')).stdout).toContain('1 subjects have a key; 0 were destroyed')
  expect((await vault('shred', 'acme', '--reason', 'asked to', '--yes')).stdout).toContain('is destroyed')
  expect((await vault('shred', 'acme', '--reason', 'asked to', '--yes')).stdout).toContain('already')
  expect((await vault('shred', 'acne', '--reason', 'asked to', '--yes')).stderr).toContain('SUBJECT_UNKNOWN')
  const words = ['--rails', rails, '--vault-keys', keys]
  expect((await enqueue('p-9', { iban: SECRET }, ...words)).stderr).toContain('SUBJECT_ERASED')
})
