import { appendFile, chown, mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { checkStart, deploy } from '../../libs/deployment/index.js'
import { checkServer } from '../../libs/deployment/checkStart.js'
import { startEmbedded } from '../../embedded/index.js'
import { symphony, type CommandOutput } from '../support/commandLine.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { writeRailsFile } from '../support/railsFile.js'
import { makeTestFolder, removeTestFolder, startPrivateServer } from '../support/server.js'
import { TcpProxy } from '../support/tcpProxy.js'

let db: TestDatabase
let folder: string
let rails: string
beforeAll(async () => {
  // Branch counters change function bodies, which the start check would report.
  db = await createTestDatabase({ countBranches: false })
  folder = await mkdtemp(join(tmpdir(), 'symphony-checks-'))
  rails = await writeRailsFile(
    folder,
    `type: 'sepa', onUnknown: 'resend', dispatch: () => ({ outcome: 'unknown', code: 'X' })`,
  )
})
afterAll(async () => {
  await db.drop()
  await rm(folder, { recursive: true })
})

/** Runs a worker whose signal is already aborted, so that its output is only about the start. */
function worker(url: string, ...words: readonly string[]): Promise<CommandOutput> {
  const env = { DATABASE_URL: url, SYMPHONY_SCHEMA: db.schema }
  return symphony(
    ['worker', '--rails', rails, '--no-http', '--log-level', 'silent', ...words],
    env,
    AbortSignal.abort(new Error('enough')),
  )
}

async function processLogin(): Promise<string> {
  const { url } = await db.createLogin(`worker${loginCount++}`, { roles: ['symphony_executor', 'symphony_readonly'] })
  return url
}
let loginCount = 0

describe('symphony worker on a deployed database', () => {
  test('prints no warning with a process login and the deployed schema', async () => {
    const { exitCode, stdout, stderr } = await worker(await processLogin())
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    expect(stdout).toContain('serves sepa')
  })

  test('warns of a superuser login (LOGIN_IS_SUPERUSER), and refuses it with --strict', async () => {
    const lenient = await worker(db.url)
    expect(lenient.exitCode).toBe(0)
    expect(lenient.stderr).toContain('warning LOGIN_IS_SUPERUSER')
    expect(lenient.stderr).toContain('--create-login')
    const strict = await worker(db.url, '--strict')
    expect(strict.exitCode).toBe(1)
    expect(strict.stderr).toContain('error LOGIN_IS_SUPERUSER Refusing to start.')
  })
})

describe('symphony worker that cannot start', () => {
  test('refuses an undeployed schema (NOT_DEPLOYED) and names symphony deploy', async () => {
    const { exitCode, stderr } = await worker(await processLogin(), '--schema', 'nowhere')
    expect(exitCode).toBe(1)
    expect(stderr).toContain('NOT_DEPLOYED')
    expect(stderr).toContain('what to do symphony deploy')
  })

  test('refuses a schema without one of its indexes (INDEX_MISSING)', async () => {
    const drifted = await createTestDatabase({ countBranches: false })
    onTestFinished(() => drifted.drop())
    await drifted.queryNoRole('DROP INDEX ix_pending_claimable')
    const { url } = await drifted.createLogin('drifted', { roles: ['symphony_executor'] })
    const { exitCode, stderr } = await worker(url)
    expect(exitCode).toBe(1)
    expect(stderr).toMatch(/INDEX_MISSING Refusing to start\..*ix_pending_claimable/)
  })

  test('refuses an undeclared pooler even with --no-listen (TRANSACTION_POOLER)', async () => {
    const { url } = await db.createLogin('pooled', { roles: ['symphony_executor'] })
    const pooler = await TcpProxy.before(url, { alterAnswer: withAnotherProcessId })
    onTestFinished(() => pooler.close())
    const pooled = new URL(url)
    pooled.port = String(pooler.port)
    const words = ['worker', '--rails', rails, '--no-http', '--no-listen', '--log-level', 'silent']
    const { exitCode, stderr } = await symphony(words, { DATABASE_URL: pooled.href, SYMPHONY_SCHEMA: db.schema })
    expect({ exitCode, stderr }).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('TRANSACTION_POOLER') })
  })

  test('refuses a server with fsync off (SERVER_NOT_DURABLE)', async () => {
    const server = await startPrivateServer({ settings: { fsync: 'off' } })
    onTestFinished(() => server.remove())
    await deploy({ url: server.url, schema: db.schema })
    const { exitCode, stderr } = await worker(server.url)
    expect(exitCode).toBe(1)
    expect(stderr).toContain('SERVER_NOT_DURABLE')
    expect(stderr).toContain('found fsync off')
    // checkStart refuses this server even if it checks only the part `server`.
    const { refusals } = await checkStart({ url: server.url, part: 'server' })
    expect(refusals.map(({ code }) => code)).toEqual(['SERVER_NOT_DURABLE'])
  })

  test('refuses a server that is starting up (57P03) and exits with 3', async () => {
    const home = await makeTestFolder()
    onTestFinished(() => removeTestFolder(home))
    const dataDir = join(home, 'symphony')
    const server = await startEmbedded({ dataDir })
    await server.stop()
    // A standby without hot_standby is in recovery for ever, and takes no connection.
    const signal = join(dataDir, 'postgres/data/standby.signal')
    await appendFile(signal, '')
    const { uid, gid } = await stat(join(dataDir, 'postgres/data'))
    await chown(signal, uid, gid)
    const starting = new AbortController()
    const started = startEmbedded({
      dataDir,
      port: Number(new URL(server.url).port),
      settings: { hot_standby: 'off' },
      signal: starting.signal,
    })
    started.catch(() => {})
    onTestFinished(() => starting.abort())
    const connect = async () => new Client({ connectionString: server.url }).connect().catch((error) => error.code)
    await expect.poll(connect, POLL_OPTIONS).toBe('57P03')
    const { exitCode, stderr } = await worker(server.url)
    expect(stderr).toContain('error CANNOT_CONNECT_NOW')
    expect(exitCode).toBe(3)
  })

  test('refuses sslmode=no-verify for a remote host (TLS_REFUSED) and prints no password', async () => {
    const { exitCode, stderr } = await worker('postgres://x:y@db.example.com/z?sslmode=no-verify')
    expect(exitCode).toBe(1)
    expect(stderr).toContain('TLS_REFUSED')
    expect(stderr).toContain('verify-full')
    expect(stderr).not.toContain(':y@')
  })

  test('refuses an undeclared pooler, detected by a wrong backend process id (TRANSACTION_POOLER)', async () => {
    const url = new URL(await processLogin())
    const pooler = await TcpProxy.before(url.href, { alterAnswer: withAnotherProcessId })
    onTestFinished(() => pooler.close())
    url.port = String(pooler.port)
    const { exitCode, stderr } = await worker(url.href)
    expect(exitCode).toBe(1)
    expect(stderr).toContain('TRANSACTION_POOLER')
  })

  test('refuses LISTEN through a transaction pooler, unless --no-listen or --listen-url is given', async () => {
    const url = await processLogin()
    const listening = await worker(url, '--pooler', 'transaction')
    expect(listening.exitCode).toBe(1)
    expect(listening.stderr).toContain('TRANSACTION_POOLER')
    expect((await worker(url, '--pooler', 'transaction', '--no-listen')).exitCode).toBe(0)
    expect((await worker(url, '--pooler', 'transaction', '--listen-url', url)).exitCode).toBe(0)
  })

  test('refuses a lease of 32 s for rail calls of 30 s with --no-renew-leases; 33 s are accepted', async () => {
    const words = ['--no-renew-leases', '--rail-timeout-ms', '30000', '--lease-seconds']
    const short = await worker(await processLogin(), ...words, '32')
    expect(short.exitCode).toBe(2)
    expect(short.stderr).toContain('rail sepa: a lease of 32 s does not outlive a call of up to 30000 ms')
    expect((await worker(await processLogin(), ...words, '33')).exitCode).toBe(0)
  })

  test.each([
    [[], '--rails: expected a file'],
    [['--rails', '/nowhere/rails.mjs'], 'The rails in /nowhere/rails.mjs cannot be loaded'],
  ])('refuses a missing rails file: options %j', async (words, message) => {
    const { exitCode, stderr } = await symphony(['worker', ...words], { DATABASE_URL: db.url })
    expect(exitCode).toBe(2)
    expect(stderr).toContain(message)
  })

  test.each([
    ['no default export', 'export const rails = []', 'has no default export'],
    [
      'an inquiry that is missing',
      `export default [{ type: 'x', onUnknown: 'inquire', dispatch() {} }]`,
      'queryStatus',
    ],
    ['a module that throws', `throw new Error('no key')`, 'because no key'],
  ])('refuses a rails file with %s', async (_, text, message) => {
    const { writeFile } = await import('node:fs/promises')
    const file = join(folder, `${loginCount++}.mjs`)
    await writeFile(file, text)
    const { exitCode, stderr } = await symphony(['worker', '--rails', file], { DATABASE_URL: db.url })
    expect(exitCode).toBe(2)
    expect(stderr).toContain(message)
  })
})

describe('checkServer', () => {
  const sound = {
    version: 18,
    login: 'worker',
    loginIsSuperuser: false,
    mayActAsAuditor: false,
    isDeployed: true,
    restoredAs: null,
    auditorMayUseSchema: true,
    encoding: 'UTF8',
    fsync: 'on',
    fullPageWrites: 'on',
    isStandby: false,
    publicPrivileges: ['TEMPORARY'],
    ownerGranters: [],
    dataWriters: [],
  }

  test.each([
    ['a sound server', {}, [], []],
    ['PostgreSQL 15', { version: 15 }, [], []],
    ['PostgreSQL 14', { version: 14 }, ['SERVER_TOO_OLD'], []],
    ['PostgreSQL 19', { version: 19 }, [], ['SERVER_VERSION_UNTESTED']],
    ['a standby', { isStandby: true }, ['SERVER_IS_STANDBY'], []],
    ['fsync off', { fsync: 'off' }, ['SERVER_NOT_DURABLE'], []],
    ['full_page_writes off', { fullPageWrites: 'off' }, ['SERVER_NOT_DURABLE'], []],
    ['a superuser', { loginIsSuperuser: true }, [], ['LOGIN_IS_SUPERUSER']],
  ])('checks %s with facts %j: returns refusals %j and warnings %j', (_, facts, refused, warned) => {
    const { refusals, warnings } = checkServer({ ...sound, ...facts })
    expect(refusals.map(({ code }) => code)).toEqual(refused)
    expect(warnings.map(({ code }) => code)).toEqual(warned)
  })
})

describe('a process without EXECUTE on a function that it needs', () => {
  const PROCESSES = [
    ['worker', 'claim_outbox_packed', 'symphony_executor'],
    ['worker', 'seal_ledger_block', 'symphony_executor'],
    ['scheduler', 'enqueue_due_timers', 'symphony_executor'],
    ['scheduler', 'purge_idle_leases', 'symphony_executor'],
  ] as const

  test.each([...PROCESSES, ['api', 'enqueue_payment_outbox', 'symphony_ingest']] as const)(
    'exits with 1 at the start: symphony %s without %s',
    async (command, name, role) => {
      const { url, revoke } = await processWithout(name, role)
      await revoke()
      const { exitCode, stderr } = await start(command, url).ended
      expect({ exitCode, stderr }).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('GRANT_MISSING') })
      expect(stderr).toMatch(new RegExp(`EXECUTE on function ${name}\\(.* to ${role}.*what to do symphony deploy`, 's'))
    },
  )

  test.each(PROCESSES)(
    'exits with 1 if the privilege is revoked while it runs: symphony %s without %s',
    async (command, name, role) => {
      const { url, revoke } = await processWithout(name, role)
      const { ended, written } = start(command, url)
      await expect.poll(() => written.stdout, POLL_OPTIONS).toMatch(/serves|turns due timers/)
      await revoke()
      expect(await ended).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('FUNCTION_NOT_EXECUTABLE') })
      expect(written.stderr).toContain(`permission denied for function ${name}`)
      expect(written.stderr).toContain('what to do Run symphony deploy')
    },
  )
})

/** Creates a database and a process login. `revoke` takes EXECUTE on the function `name` from `role`. */
async function processWithout(name: string, role: string) {
  const own = await createTestDatabase({ countBranches: false })
  onTestFinished(() => own.drop())
  const roles = ['executor', 'readonly', 'ingest', 'control', 'auditor', 'auth'].map((one) => `symphony_${one}`)
  const { url } = await own.createLogin('refused', { roles })
  const revoke = () =>
    own.queryNoRole(`DO $$ BEGIN EXECUTE (
      SELECT string_agg(format('REVOKE EXECUTE ON FUNCTION %s FROM ${role}', p.oid::regprocedure), ';') FROM pg_proc p
      WHERE p.pronamespace = current_schema()::regnamespace AND p.proname = '${name}'); END $$`)
  return { url, revoke }
}

function start(command: string, url: string) {
  const words = { worker: ['--rails', rails, '--no-http'], scheduler: ['--no-http'], api: ['--port', '0'] }[command]!
  const env = {
    DATABASE_URL: url,
    SYMPHONY_SCHEMA: db.schema,
    LEDGER_SEAL_INTERVAL_MS: '100',
    SCHEDULER_POLL_MS: '100',
    CLEANUP_INTERVAL_MS: '1000',
  }
  const written = { stdout: '', stderr: '' }
  const running = new AbortController()
  onTestFinished(() => running.abort())
  return { written, ended: symphony([command, ...words, '--log-level', 'silent'], env, running.signal, written) }
}

/** Replaces the process id in BackendKeyData, as a pooler does. */
function withAnotherProcessId(chunk: Buffer): Buffer {
  const key = chunk.indexOf(Buffer.from([0x4b, 0, 0, 0, 12]))
  if (key !== -1) chunk.writeInt32BE(1, key + 5)
  return chunk
}
