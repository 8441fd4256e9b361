import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { Symphony } from '../../libs/index.js'
import { createTestDatabase } from '../support/database.js'

const root = join(import.meta.dirname, '..', '..')
const sources = join(root, 'examples', 'shop')
const run = promisify(execFile)
const LINES_MAX = 25
const payload = { amount: '12.50', currency: 'EUR', destination: 'DE89370400440532013000', invoice: 'INV-1' }
const payment = { railType: 'SEPA', instructionId: 'INV-1', participantId: 'shop', payload }

/** Folder with the compiled programs and the packages that they import. */
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'symphony-shop-'))
  await mkdir(join(folder, 'node_modules'))
  await symlink(root, join(folder, 'node_modules', 'symphony-pg'))
  await symlink(join(root, 'node_modules', 'zod'), join(folder, 'node_modules', 'zod'))
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  await run(process.execPath, [tsc, '-p', sources, '--outDir', folder, '--singleThreaded'])
})
afterAll(() => rm(folder, { recursive: true, force: true }))

interface Running {
  readonly child: ChildProcess
  readonly ended: Promise<{ readonly code: number | null; readonly stdout: string; readonly stderr: string }>
  readonly stdout: () => string
}

function start(program: string, env: Readonly<Record<string, string>>): Running {
  const child = spawn(process.execPath, [join(folder, program)], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const written = { stdout: '', stderr: '' }
  child.stdout.on('data', (chunk) => (written.stdout += String(chunk)))
  child.stderr.on('data', (chunk) => (written.stderr += String(chunk)))
  const ended = new Promise<Awaited<Running['ended']>>((resolve) => {
    child.once('close', (code) => resolve({ code, ...written }))
  })
  return { child, ended, stdout: () => written.stdout }
}

async function stop({ child, ended }: Running): Promise<void> {
  child.kill('SIGTERM')
  const { code, stderr } = await ended
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
}

test('each program of examples/shop and the README is at most 25 lines long', async () => {
  const names = (await readdir(sources)).filter((name) => name.endsWith('.ts'))
  const lengths = await Promise.all(
    names.map(async (name) => [name, (await readFile(join(sources, name), 'utf8')).split('\n').length - 1] as const),
  )
  expect(lengths.filter(([, lines]) => lines > LINES_MAX)).toEqual([])
  const readme = await readFile(join(root, 'README.md'), 'utf8')
  const [, program = ''] = /```js\n(\/\/ payment\.mjs.*?)```/s.exec(readme) ?? []
  expect(program.split('\n').length - 1).toBeLessThanOrEqual(LINES_MAX)
  expect(program).toContain('new Symphony(')
})

test('worker.ts pays through its rail and exits with 0 on SIGTERM', async () => {
  await using db = await createTestDatabase({ schema: 'symphony' })
  await using symphony = new Symphony({ url: db.url })
  const { outboxId } = await symphony.transaction((tx) => symphony.enqueue(payment, { tx }))
  const worker = start('worker.js', { DATABASE_URL: db.url })
  await expect.poll(() => symphony.payments.get({ outboxId })).toMatchObject({ state: 'DISPATCHED' })
  const [attempt] = await symphony.payments.timeline({ outboxId })
  expect(attempt).toMatchObject({ attempt: { railReference: 'bank-INV-1' } })
  await stop(worker)
})

test('inbox.ts records a message once in two runs', async () => {
  await using db = await createTestDatabase({ schema: 'symphony' })
  await db.queryNoRole('CREATE SCHEMA shop')
  await db.queryNoRole('CREATE TABLE shop.invoices (id text PRIMARY KEY, paid numeric NOT NULL)')
  await db.queryNoRole(`INSERT INTO shop.invoices VALUES ('INV-1', 0)`)
  await using symphony = new Symphony({ url: db.url })
  const key = { source: 'bank', messageId: 'evt-1' }
  for (const output of ['recorded\n', 'known\n']) {
    const inbox = start('inbox.js', { DATABASE_URL: db.url })
    await expect.poll(inbox.stdout).toBe(output)
    await expect.poll(() => symphony.inbox.alreadyProcessed(key)).toBe(true)
    await stop(inbox)
  }
  expect((await db.queryNoRole('SELECT * FROM shop.invoices')).rows).toEqual([{ id: 'INV-1', paid: '12.50' }])
})

test('cron.ts handles a run of its job', async () => {
  await using db = await createTestDatabase({ schema: 'symphony' })
  await using symphony = new Symphony({ url: db.url })
  const cron = start('cron.js', { DATABASE_URL: db.url })
  await expect.poll(() => symphony.scheduler.readJob('evening')).toMatchObject({ timeZone: 'Africa/Nairobi' })
  await symphony.scheduler.triggerJob('evening')
  await expect.poll(cron.stdout).toBe('Settlement: 0 held\n')
  await stop(cron)
})

test('lease.ts leads for three rounds and then holds a lease', async () => {
  await using db = await createTestDatabase({ schema: 'symphony' })
  const { code, stdout, stderr } = await start('lease.js', { DATABASE_URL: db.url }).ended
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toMatch(
    /^round 1 under token (\d+)\nround 2 under token \1\nround 3 under token \1\nthis process holds the lease\n$/,
  )
})

test('operator.ts proposes, another operator approves, and the payment is recorded as paid', async () => {
  await using db = await createTestDatabase({ schema: 'symphony' })
  const people = { ada: '', grace: '' }
  for (const name of ['ada', 'grace'] as const) {
    const roles = ['symphony_control', 'symphony_readonly', 'symphony_ingest']
    people[name] = (await db.createLogin(name, { roles })).url
  }
  await using grace = new Symphony({ url: people.grace })
  const { outboxId } = await grace.transaction((tx) => grace.enqueue(payment, { tx }))
  await grace.operator.hold({ outboxId, reason: 'the answer was lost' })

  const env = { ADA_URL: people.ada, STATEMENT: outboxId }
  const { code, stdout, stderr } = await start('operator.js', env).ended
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  const [, proposalId = ''] = /approve\(\{ proposalId: '([^']+)' \}\)/.exec(stdout) ?? []
  await grace.operator.approve({ proposalId })
  expect(await grace.payments.get({ outboxId })).toMatchObject({ state: 'DISPATCHED' })
})

test('payout.test.ts passes under node --test', async () => {
  const env = { ...process.env, TEST_DATABASE_URL: inject('serverUrl') }
  const words = ['--test', '--test-reporter=tap', 'payout.test.js']
  const { stdout } = await run(process.execPath, words, { cwd: folder, env, timeout: 100_000 })
  expect(stdout).toMatch(/^# pass 1$/m)
})
