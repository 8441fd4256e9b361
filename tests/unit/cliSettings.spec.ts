import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { Command } from 'commander'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addSettings, resolveSettings } from '../../libs/cli/settings/resolveSettings.js'
import { SETTINGS, type SettingName, type Settings } from '../../libs/cli/settings/settings.js'
import { Terminal } from '../../libs/cli/terminal/Terminal.js'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'symphony-settings-'))
})
afterAll(() => rm(folder, { recursive: true }))

const NAMES = Object.keys(SETTINGS).filter((name): name is SettingName => name in SETTINGS)

interface Given {
  readonly words?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly file?: unknown
  readonly defaults?: Partial<Settings>
}

/** Resolves the settings as a command does. */
async function resolve({ words = [], env = {}, file, defaults }: Given): Promise<Settings> {
  const path = join(folder, 'symphony.json')
  if (file !== undefined) await writeFile(path, typeof file === 'string' ? file : JSON.stringify(file))
  const command = addSettings(new Command('test').exitOverride(), NAMES)
  command.parse(file === undefined ? words : [...words, '--config', path], { from: 'user' })
  const sink = new Writable({ write: (_chunk, _encoding, done) => done() })
  const terminal = new Terminal({ stdout: sink, stderr: sink, env })
  return resolveSettings(NAMES, command.opts(), { env, terminal, signal: new AbortController().signal }, defaults)
}

describe('with settings from several sources,', () => {
  test('a flag overrides the environment, which overrides the file, which overrides the default', async () => {
    const words = ['--lease-seconds', '1', '--no-listen']
    const env = { LEASE_SECONDS: '2', OUTBOX_BATCH_SIZE: '3', SYMPHONY_LISTEN: 'true' }
    const file = { leaseSeconds: 4, batchSize: 5, concurrency: 6, listen: true }
    expect(await resolve({ words, env, file })).toMatchObject({
      leaseSeconds: 1,
      batchSize: 3,
      concurrency: 6,
      pollMs: 500,
      listen: false,
    })
  })

  test.each([
    [['--listen'], { SYMPHONY_LISTEN: 'false' }, true],
    [['--no-listen'], { SYMPHONY_LISTEN: 'true' }, false],
    [[], { SYMPHONY_LISTEN: '0' }, false],
    [[], { SYMPHONY_LISTEN: '' }, true],
  ])('the flags %j and the environment %j give the setting listen the value %s', async (words, env, listen) => {
    expect(await resolve({ words, env })).toMatchObject({ listen })
  })

  test('an empty variable counts as unset', async () => {
    expect(await resolve({ env: { LEASE_SECONDS: '', DATABASE_URL: '' } })).toMatchObject({
      leaseSeconds: 60,
      databaseUrl: undefined,
    })
  })

  test('a setting in a file overrides the default of a command', async () => {
    const defaults = { shutdownMs: 1_500 }
    expect(await resolve({ defaults })).toMatchObject({ shutdownMs: 1_500 })
    expect(await resolve({ defaults, file: { shutdownMs: 9 } })).toMatchObject({ shutdownMs: 9 })
  })

  test('a path in a file is relative to the file, a path in a flag to the current folder', async () => {
    expect(await resolve({ file: { rails: 'rails.mjs' } })).toMatchObject({ rails: join(folder, 'rails.mjs') })
    expect(await resolve({ words: ['--rails', 'rails.mjs'] })).toMatchObject({ rails: 'rails.mjs' })
  })
})

describe('the environment variables of the specification', () => {
  test.each([
    ['DATABASE_URL', 'postgres://a@b/c', 'databaseUrl', 'postgres://a@b/c'],
    ['SYMPHONY_SCHEMA', 'Pay Out', 'schema', 'Pay Out'],
    ['LEASE_SECONDS', '3600', 'leaseSeconds', 3_600],
    ['LEASE_REPAIR_BATCH_SIZE', '7', 'repairBatchSize', 7],
    ['LEASE_REPAIR_INTERVAL_MS', '100', 'repairIntervalMs', 100],
    ['OUTBOX_WORKER_ID', 'w-1', 'workerId', 'w-1'],
    ['OUTBOX_BATCH_SIZE', '1000', 'batchSize', 1_000],
    ['OUTBOX_CONCURRENCY', '1', 'concurrency', 1],
    ['OUTBOX_POLL_MS', '10', 'pollMs', 10],
    ['RAIL_TIMEOUT_MS', '3597000', 'railTimeoutMs', 3_597_000],
  ] as const)('include %s=%s, which sets %s', async (variable, text, name, value) => {
    expect((await resolve({ env: { [variable]: text } }))[name]).toBe(value)
  })

  test('have the defaults of the specification', async () => {
    expect(await resolve({})).toMatchObject({
      schema: 'symphony',
      leaseSeconds: 60,
      railTimeoutMs: 30_000,
      batchSize: 50,
      concurrency: 10,
      pollMs: 500,
      repairIntervalMs: 60_000,
      repairBatchSize: 100,
    })
  })
})

describe('an invalid setting', () => {
  test.each([
    [{ words: ['--lease-seconds', '0'] }, '--lease-seconds: expected a whole number from 1 to 3600, got 0'],
    [{ words: ['--lease-seconds', '3601'] }, '--lease-seconds: expected a whole number from 1 to 3600, got 3601'],
    [{ words: ['--lease-seconds', '1.5'] }, '--lease-seconds: expected a whole number from 1 to 3600, got "1.5"'],
    [{ env: { LEASE_SECONDS: 'sixty' } }, 'LEASE_SECONDS: expected a whole number from 1 to 3600, got "sixty"'],
    [{ env: { LEASE_SECONDS: '1e3' } }, 'LEASE_SECONDS: expected a whole number from 1 to 3600, got "1e3"'],
    [
      { file: { leaseSeconds: '60' } },
      'leaseSeconds in symphony.json: expected a whole number from 1 to 3600, got string',
    ],
    [{ file: { leaseSeconds: 0 } }, 'leaseSeconds in symphony.json: expected a whole number from 1 to 3600, got 0'],
    [{ file: { listen: 'yes' } }, 'listen in symphony.json: expected true or false'],
    [{ env: { SYMPHONY_LISTEN: 'yes' } }, 'SYMPHONY_LISTEN: expected true, false, 1 or 0, got "yes"'],
    [{ words: ['--pooler', 'session'] }, '--pooler: expected none, transaction, got "session"'],
    [{ env: { SYMPHONY_SCHEMA: '  ' } }, 'SYMPHONY_SCHEMA: expected text that is not blank'],
    [{ file: { leaseSecond: 60 } }, 'leaseSecond in symphony.json: expected a setting; did you mean leaseSeconds?'],
    [{ file: { colour: 'red' } }, 'colour in symphony.json: expected one of the settings databaseUrl, '],
    [{ file: '{"leaseSeconds": 1, "leaseSeconds": 2}' }, 'symphony.json'],
    [{ file: '{"leaseSeconds": 1' }, 'symphony.json: not JSON'],
    [{ file: [] }, 'symphony.json: expected an object of settings'],
    [
      { words: ['--config', '/nowhere/at/all.json'] },
      'The file that --config names cannot be read: /nowhere/at/all.json',
    ],
  ] satisfies [Given, string][])(
    'is refused with an error that names its flag, variable, key or file: %j',
    async (given: Given, message) => {
      await expect(resolve(given)).rejects.toThrow(message)
    },
  )
})

test('the access token has no flag, because the process list would show it', () => {
  expect('flag' in SETTINGS.accessToken).toBe(false)
})
