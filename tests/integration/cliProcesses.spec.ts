import { spawnSync } from 'node:child_process'
import { createServer } from 'node:net'
import { once } from 'node:events'
import { readFile, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { readTimer } from '../../libs/scheduler/index.js'
import { spawnSymphony, symphony, type Running } from '../support/commandLine.js'
import { createTestDatabase, type TestDatabase, useTestDatabase } from '../support/database.js'
import { enqueue } from '../support/outboxItems.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { portOf } from '../support/portOf.js'
import { writeRailsFile } from '../support/railsFile.js'
import { createEndedTimer, createTimer } from '../support/scheduled.js'
import { makeTestFolder, removeTestFolder } from '../support/server.js'

const db = await useTestDatabase({ countBranches: false })

/** Allows for a busy machine on which the process starts a server, deploys and runs its start checks. */
const SLOWLY = { timeout: 60_000, interval: 100 }

async function testFolder(): Promise<string> {
  const folder = await makeTestFolder()
  onTestFinished(() => removeTestFolder(folder))
  return folder
}

/** Request that a printed curl line makes. */
interface PrintedRequest {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
}

/** Parses a curl line with a shell, which expands it as if it were pasted. */
function requestOf(line: string): PrintedRequest {
  const { stdout } = spawnSync('sh', ['-c', `set -- ${line}; printf '%s\\0' "$@"`], { encoding: 'utf8' })
  const words = stdout.split('\0')
  const valuesOf = (flag: string) => words.flatMap((word, index) => (words[index - 1] === flag ? [word] : []))
  const headers = valuesOf('-H').map((header) => header.split(/: (.*)/, 2))
  return { url: words[2] ?? '', headers: Object.fromEntries(headers), body: valuesOf('-d')[0] }
}

function send({ url, headers, body }: PrintedRequest): Promise<Response> {
  return fetch(url, { headers, ...(body === undefined ? {} : { method: 'POST', body }) })
}

async function stateBehind(line: string): Promise<unknown> {
  const { items }: { items: { state: string; lastRailReference: string | null }[] } = JSON.parse(
    await (await send(requestOf(line))).text(),
  )
  return items.map(({ state, lastRailReference }) => ({ state, lastRailReference }))
}

describe('symphony start', () => {
  /** Folder of the first two tests. The second test finds the server that the first one started. */
  let dataDir: string
  beforeAll(async () => {
    const folder = await makeTestFolder()
    dataDir = join(folder, 'symphony')
    return () => removeTestFolder(folder)
  })

  test(
    'prints no curl command if --rails is given, because the command would make a payment',
    { timeout: 180_000 },
    async () => {
      const rails = await writeRailsFile(
        await testFolder(),
        `type: 'unused', onUnknown: 'hold', money: true, dispatch() {}`,
      )
      const running = spawnSymphony(['start', '--data-dir', dataDir, '--rails', rails])
      await expect.poll(running.stdout, SLOWLY).toContain('/v1/instructions')
      expect(running.stdout()).not.toMatch(/curl|DE89370400440532013000|first-payment/)
      expect(running.stdout()).toMatch(
        /Enqueue payments with POST http:\S+\/v1\/instructions, described at http:\S+\/docs\./,
      )
      running.child.kill('SIGINT')
      expect((await running.ended).exitCode).toBe(0)
    },
  )

  test(
    'prints working curl commands; the next start resolves a call that SIGINT aborted',
    { timeout: 180_000 },
    async () => {
      const first = spawnSymphony(['start', '--data-dir', dataDir])
      await expect.poll(first.stdout, SLOWLY).toContain('symphony show')
      expect(first.stdout()).toContain('PostgreSQL 18 is running')
      expect(first.stdout()).toContain('found it sound')
      expect((await symphony(['doctor', '--data-dir', dataDir])).exitCode).toBe(0)
      const [post = '', get = ''] = first
        .stdout()
        .split('\n')
        .filter((line) => line.startsWith('curl'))
      const accepted = requestOf(post)
      expect((await send(accepted)).status).toBe(201)
      expect((await send(accepted)).status).toBe(200)
      const paid = [{ state: 'DISPATCHED', lastRailReference: expect.stringMatching(/^sim-/) }]
      await expect.poll(() => stateBehind(get), POLL_OPTIONS).toEqual(paid)
      const instructionId = /symphony show (\S+)/.exec(first.stdout())?.[1] ?? ''
      const shown = await symphony(['show', instructionId, '--data-dir', dataDir])
      expect(shown.stdout).toContain(`${instructionId} DISPATCHED`)
      expect(
        (
          await symphony([
            'ledger',
            'verify',
            '--drained',
            '--data-dir',
            dataDir,
            '--book',
            join(dataDir, 'rail-book.ndjson'),
          ])
        ).exitCode,
      ).toBe(0)

      // The rail pays this payment and never answers, so that the stop has a call to abort.
      const stuck = {
        ...accepted,
        headers: { ...accepted.headers, 'Idempotency-Key': 'stuck' },
        body: accepted.body
          ?.replace(instructionId, 'stuck')
          .replace('"12.50"', '"12.50","simulate":["timeoutAfterPaying","success"]'),
      }
      expect((await send(stuck)).status).toBe(201)
      const { stdout: url } = await symphony(['db', 'url', '--data-dir', dataDir])
      const leased = async () =>
        JSON.parse((await symphony(['status', '--json', '--data-dir', dataDir])).stdout).leasedCount
      await expect.poll(leased, POLL_OPTIONS).toBe('1')
      first.child.kill('SIGINT')
      expect((await first.ended).exitCode).toBe(0)
      await expect(new Client(url.trim()).connect()).rejects.toThrow(/ECONNREFUSED/)
      // Another process may listen on the port by now. It does not know this token and answers 401.
      const answer = await send(accepted).then(({ status }) => status, String)
      expect(answer).toSatisfy((status) => status === 401 || String(status).includes('fetch failed'))
      for (const secret of ['access-token', 'process-login']) {
        expect((await stat(join(dataDir, secret))).mode & 0o777).toBe(0o600)
      }
      expect((await readdir(dataDir)).filter((name) => name.startsWith('access-token'))).toEqual(['access-token'])

      const second = spawnSymphony(['start', '--data-dir', dataDir])
      await expect.poll(second.stdout, SLOWLY).toContain('symphony show')
      const again =
        second
          .stdout()
          .split('\n')
          .filter((line) => line.startsWith('curl'))[1] ?? ''
      const token = (await readFile(join(dataDir, 'access-token'), 'utf8')).trim()
      expect(requestOf(again).headers).toMatchObject({ Authorization: `Bearer ${token}` })
      // stdout is no terminal, so the process prints the path of the token file, not the token.
      expect(second.stdout()).toContain(`Its access token is in the file ${join(dataDir, 'access-token')}.`)
      expect(second.stdout()).not.toContain(token)
      const unknown = again.replace(/first-payment-\w+/, 'stuck')
      await expect.poll(() => stateBehind(unknown), SLOWLY).toEqual(paid)
      const { stdout } = await symphony(['show', 'stuck', '--data-dir', dataDir])
      // The stop aborted the call. An inquiry found the payment, so it was not sent a second time.
      expect(stdout).toMatch(/attempt 1 RETRYABLE \(sent, OUTCOME UNKNOWN[^)]*\): RAIL_ABORTED[^]*attempt 2 DISPATCHED/)
      second.child.kill('SIGTERM')
      expect((await second.ended).exitCode).toBe(0)
      const book = await readFile(join(dataDir, 'rail-book.ndjson'), 'utf8')
      expect(book.split('\n').filter(Boolean)).toHaveLength(2)
    },
  )

  test.for(['--rails', '--notify', '--oidc', '--webhooks', '--vault-keys'])(
    'deploys nothing if the file of %s cannot be read (exit code 2)',
    async (flag) => {
      await using empty = await createTestDatabase({ content: 'empty' })
      const words = ['start', '--database-url', empty.url, '--schema', empty.schema, '--data-dir', await testFolder()]
      const { exitCode, stderr } = await symphony([...words, flag, '/nowhere'])
      expect(exitCode).toBe(2)
      expect(stderr).toContain('/nowhere')
      const { rows } = await empty.queryNoRole('SELECT 1 FROM pg_namespace WHERE nspname = $1', [empty.schema])
      expect(rows).toEqual([])
    },
  )

  test('closes its rails if the database cannot be reached (exit code 3)', async () => {
    const folder = await testFolder()
    const closed = join(folder, 'closed')
    const rails = await writeRailsFile(
      folder,
      `type: 'unused', onUnknown: 'hold', dispatch() {},
       close: async () => (await import('node:fs/promises')).writeFile('${closed}', '')`,
    )
    const { exitCode } = await symphony(['start', '--database-url', 'postgres://u:p@127.0.0.1:1/db', '--rails', rails])
    expect(exitCode).toBe(3)
    expect((await stat(closed)).isFile()).toBe(true)
  })

  test('never prints a given token, uses a restricted login, and runs scheduler and cleanup', async () => {
    const folder = await testFolder()
    const old = await createEndedTimer(db, '25 hours')
    const running = spawnSymphony(['start', '--data-dir', join(folder, 'symphony'), '--timer-retention-days', '1'], {
      DATABASE_URL: db.url,
      SYMPHONY_SCHEMA: db.schema,
      SYMPHONY_ACCESS_TOKEN: 'given-by-the-test',
    })
    await expect.poll(running.stdout, SLOWLY).toContain('symphony show')
    expect(running.stdout()).toContain('"Authorization: Bearer $SYMPHONY_ACCESS_TOKEN"')
    expect(running.stdout()).not.toContain('given-by-the-test')
    const { rows } = await db.queryNoRole<{ usename: string; superuser: boolean; inherits: boolean }>(
      `SELECT DISTINCT a.usename, r.rolsuper AS superuser, r.rolinherit AS inherits
       FROM pg_stat_activity a JOIN pg_roles r ON r.rolname = a.usename
       WHERE a.datname = current_database() AND a.application_name = 'symphony start'`,
    )
    expect(rows).toEqual([
      { usename: expect.stringMatching(/^symphony_start_[0-9a-f]{8}$/), superuser: false, inherits: false },
    ])
    // `symphony start` also runs the scheduler and the cleanup.
    await expect.poll(() => readTimer(db.as('symphony_readonly'), old), POLL_OPTIONS).toBeUndefined()
    const { timerId } = await createTimer(db)
    const timer = async () => (await readTimer(db.as('symphony_readonly'), timerId))?.state
    await expect.poll(timer, POLL_OPTIONS).toBe('ENQUEUED')
    running.child.kill('SIGTERM')
    expect((await running.ended).exitCode).toBe(0)
  })
})

test.for([
  ['api', []],
  ['worker', ['--database-url', 'postgres://u:p@127.0.0.1:1/db', '--notify', '/nowhere']],
] as const)(
  'symphony %s imports no rails, which may open connections, if a setting is wrong',
  async ([name, words]) => {
    const folder = await testFolder()
    const imported = join(folder, 'imported')
    const rails = await writeRailsFile(
      folder,
      `type: (await (await import('node:fs/promises')).writeFile('${imported}', ''), 'unused'), onUnknown: 'hold', dispatch() {}`,
    )
    const { exitCode } = await symphony([name, '--data-dir', join(folder, 'none'), '--rails', rails, ...words])
    expect(exitCode).not.toBe(0)
    expect(await readdir(folder)).not.toContain('imported')
  },
)

describe('symphony worker', () => {
  async function startWorker(dispatch: string, railType: string, ...words: readonly string[]) {
    const rails = await writeRailsFile(await testFolder(), `type: '${railType}', onUnknown: 'resend', ${dispatch}`)
    const { url } = await db.createLogin(`worker${workerCount++}`, {
      roles: ['symphony_executor', 'symphony_readonly'],
    })
    const env = { DATABASE_URL: url, SYMPHONY_SCHEMA: db.schema, SYMPHONY_ACCESS_TOKEN: 'secret-of-the-worker' }
    const running = spawnSymphony(['worker', '--rails', rails, ...words], env)
    return { ...running, url }
  }
  let workerCount = 0

  test('dispatches items, serves health and metrics, and exits with 0 on SIGTERM', async () => {
    const railType = 'quick'
    const worker = await startWorker(
      `dispatch: ({ reference }) => ({ outcome: 'success', reference: 'paid-' + reference })`,
      railType,
    )
    await expect.poll(worker.stderr, SLOWLY).toContain('worker_started')
    const line =
      worker
        .stderr()
        .split('\n')
        .find((one) => one.includes('worker_started')) ?? ''
    const { address, rails }: { address: string; rails: string[] } = JSON.parse(line)
    expect(rails).toEqual([railType])
    const { outboxId } = await enqueue(db, { railType })
    const state = async () =>
      (
        await db.queryNoRole('SELECT state, last_rail_reference FROM outbox_operational_status WHERE outbox_id = $1', [
          outboxId,
        ])
      ).rows
    await expect.poll(state, POLL_OPTIONS).toEqual([{ state: 'DISPATCHED', last_rail_reference: `paid-${outboxId}` }])
    await expect.poll(async () => (await fetch(`${address}/readyz`)).status, POLL_OPTIONS).toBe(200)
    expect((await fetch(`${address}/metrics`)).status).toBe(401)
    const headers = { authorization: 'Bearer secret-of-the-worker' }
    // The database commits the outcome before it answers the worker, which then counts the attempt.
    const metrics = async () => (await fetch(`${address}/metrics`, { headers })).text()
    await expect.poll(metrics, POLL_OPTIONS).toMatch(/^attempts_total\{state="DISPATCHED",kind="payment"\} 1$/m)
    const { rows: pending } = await db.queryNoRole('SELECT FROM payment_outbox_pending WHERE NOT is_message')
    expect(await metrics()).toContain(`\noutbox_pending_depth{kind="payment"} ${pending.length}\n`)
    expect((await fetch(`${address}/v1/instructions/x`, { headers })).status).toBe(404)
    worker.child.kill('SIGTERM')
    expect(await worker.ended).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^Worker \S+ serves quick\.\n$/),
    })
    expect(worker.stderr()).toContain('worker_stopped')
    expect(worker.stderr()).not.toContain('secret-of-the-worker')
  })

  test('aborts a call that outlasts --shutdown-ms and records its outcome as unknown', async () => {
    const railType = 'silent'
    const worker = await startWorker(
      `dispatch: () => new Promise(() => {})`,
      railType,
      '--no-http',
      '--shutdown-ms',
      '50',
    )
    await expect.poll(worker.stderr, SLOWLY).toContain('worker_started')
    const { outboxId } = await enqueue(db, { railType })
    const row = async () =>
      (
        await db.queryNoRole('SELECT state, outcome_unknown FROM outbox_operational_status WHERE outbox_id = $1', [
          outboxId,
        ])
      ).rows
    await expect.poll(row, POLL_OPTIONS).toEqual([{ state: 'LEASED', outcome_unknown: false }])
    worker.child.kill('SIGINT')
    expect((await worker.ended).exitCode).toBe(0)
    expect(await row()).toEqual([{ state: 'SCHEDULED', outcome_unknown: true }])
  })

  test('fails with PORT_TAKEN if --port is taken, and uses another port if the default is taken', async () => {
    const dispatch = `dispatch: () => ({ outcome: 'unknown', code: 'X' })`
    const taken = createServer().listen(0, '127.0.0.1')
    onTestFinished(() => void taken.close())
    await once(taken, 'listening')
    const refused = await startWorker(dispatch, 'x', '--port', String(portOf(taken)))
    expect(await refused.ended).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('PORT_TAKEN') })
    const usual = createServer().listen(7_421, '127.0.0.1')
    // An error means that another process has the port. The test needs only that the port is taken.
    await Promise.race([once(usual, 'listening'), once(usual, 'error')]).catch(() => {})
    onTestFinished(() => void usual.close())
    const moved = await startWorker(dispatch, 'x')
    await expect.poll(moved.stderr, SLOWLY).toMatch(/"address":"http:\/\/127\.0\.0\.1:(?!7421")\d+"/)
    moved.child.kill('SIGTERM')
    expect((await moved.ended).exitCode).toBe(0)
  })
})

async function stop(worker: Running): Promise<void> {
  worker.child.kill('SIGTERM')
  expect((await worker.ended).exitCode).toBe(0)
}

describe('ledger verification in symphony worker', () => {
  let broken: TestDatabase
  beforeAll(async () => {
    broken = await createTestDatabase({ countBranches: false })
    await broken.queryNoRole(
      `INSERT INTO payment_outbox_blocks (block_no, format, row_count, last_xid, last_kind, last_id, entries, root, block_hash, sealed_at)
       VALUES (1, 1, 1, 1, 3, '00000000-0000-7000-8000-000000000001',
         decode('00030000000000007000800000000000000100000000000000' || repeat('01', 33), 'hex'), '', '', now())`,
    )
  })
  afterAll(() => broken.drop())

  async function startWorker(name: string, ...words: readonly string[]): Promise<Running> {
    const rails = await writeRailsFile(
      await testFolder(),
      `type: 'idle', onUnknown: 'hold', money: true, dispatch() {}`,
    )
    const { url } = await broken.createLogin(name, { roles: ['symphony_executor', 'symphony_readonly'] })
    const worker = spawnSymphony(['worker', '--rails', rails, '--no-http', ...words], {
      DATABASE_URL: url,
      SYMPHONY_SCHEMA: broken.schema,
    })
    await expect.poll(worker.stderr, SLOWLY).toContain('worker_started')
    return worker
  }

  test('does not run with --verify-rows-per-second 0', async () => {
    const worker = await startWorker('without_verifier', '--verify-rows-per-second', '0')
    // By the time the worker stops, a verifier would have finished its first run.
    await stop(worker)
    const { rows } = await broken.queryNoRole('SELECT next_at::text FROM ledger_verification_passes')
    expect(rows).toEqual([{ next_at: '-infinity' }])
  })

  test('logs a break as ledger_broken, with the block and the rows', async () => {
    const worker = await startWorker('with_verifier')
    await expect.poll(worker.stderr, SLOWLY).toContain('ledger_broken')
    await stop(worker)
    const line =
      worker
        .stderr()
        .split('\n')
        .find((one) => one.includes('ledger_broken')) ?? ''
    expect(JSON.parse(line)).toMatchObject({
      level: 50,
      block: '1',
      breaks: ['block 1: differs from its hash', 'event 00000000-0000-7000-8000-000000000001: sealed, and missing'],
    })
  })
})
