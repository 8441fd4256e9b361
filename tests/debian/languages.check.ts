import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { codeBlocks, fileOf } from '../../scripts/guides/codeBlocks.mjs'
import { deploy } from '../../libs/deployment/index.js'
import { startPrivateServer, type PrivateServer } from '../support/server.js'
import { programsOf } from './programs.js'

const root = join(import.meta.dirname, '..', '..')
const folder = join(root, 'examples', 'languages')
const run = promisify(execFile)

/** Arguments of each program that precede the order and its amount. */
const COMMANDS: Readonly<Record<string, readonly string[]>> = {
  python: ['enqueue.py'],
  go: ['run', 'enqueue.go'],
  java: ['-cp', '/usr/share/java/postgresql.jar', 'Enqueue.java'],
  php: ['enqueue.php'],
}
const installed = ['psql', ...Object.keys(COMMANDS)].flatMap((language) =>
  Object.entries(programsOf(language)).map(([name, program]) => ({ name, program })),
)

let server: PrivateServer
let admin: Client
let env: Record<string, string>
let temporary: string
beforeAll(async () => {
  temporary = await mkdtemp(join(tmpdir(), 'symphony-languages-'))
  server = await startPrivateServer()
  admin = new Client(server.url)
  await admin.connect()
  await deploy({ url: server.url, createLogins: [{ name: 'till', roles: ['ingest'], password: 'first-secret' }] })
  const page = codeBlocks(await readFile(join(root, 'docs', 'coding', 'other-languages.md'), 'utf8'))
  for (const block of page) {
    const file = fileOf(block)
    if (file === 'orders.sql') await admin.query(block.code)
    else if (file !== undefined) await writeFile(join(temporary, file), block.code)
  }
  const { hostname, port, pathname } = new URL(server.url)
  const login = 'user=till;password=first-secret'
  env = {
    PATH: process.env['PATH'] ?? '',
    HOME: temporary,
    APP_URL: `postgres://till:first-secret@${hostname}:${port}${pathname}`,
    JDBC_URL: `jdbc:postgresql://${hostname}:${port}${pathname}?${login.replace(';', '&')}`,
    PDO_DSN: `pgsql:host=${hostname};port=${port};dbname=${pathname.slice(1)};${login}`,
    // Without modules, Go finds Debian's packages below GOPATH by their import path.
    GO111MODULE: 'off',
    GOPATH: '/usr/share/gocode',
  }
})
afterAll(async () => {
  await admin.end()
  await server.stop()
  await rm(temporary, { recursive: true, force: true })
})

interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

function enqueue(program: string, words: readonly string[], cwd = folder): Promise<Ended> {
  return run(program, [...words], { cwd, env, timeout: 100_000 }).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (ended: Ended) => ended,
  )
}

test.for(installed.filter(({ name }) => name !== 'psql'))(
  'the $name program enqueues once, reads the SQLSTATE of a refusal and rolls back the order',
  async ({ name, program }) => {
    const words = COMMANDS[name] ?? []
    const order = `ORDER-${name}`
    const first = await enqueue(program, [...words, order, '12.50'])
    expect(first).toMatchObject({ code: 0, stderr: '' })
    const [, outboxId] = /^new ([0-9a-f-]{36})\n$/.exec(first.stdout) ?? []
    expect(outboxId).toBeDefined()
    expect(await enqueue(program, [...words, order, '12.50'])).toMatchObject({ stdout: `known ${outboxId}\n` })

    const conflict = await enqueue(program, [...words, order, '12.51'])
    expect(conflict).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringMatching(/^P7004 .*IDEMPOTENCY_CONFLICT/),
    })
    const invalid = await enqueue(program, [...words, `${order} 2`, '12.50'])
    expect(invalid).toMatchObject({ code: 1, stdout: '', stderr: expect.stringMatching(/^22023 .*p_instruction_id/) })

    const orders = await admin.query('SELECT id, amount FROM orders WHERE starts_with(id, $1)', [order])
    expect(orders.rows).toEqual([{ id: order, amount: '12.50' }])
    const queued = 'SELECT payload FROM symphony.payment_outbox_pending WHERE starts_with(instruction_id, $1)'
    const payload = { amount: '12.50', currency: 'EUR', destination: 'DE89370400440532013000' }
    expect((await admin.query(queued, [order])).rows).toEqual([{ payload }])
  },
)

test.for(installed.filter(({ name }) => name === 'psql'))(
  'the $name program of other-languages.md enqueues once',
  async ({ program }) => {
    const words = [env['APP_URL'] ?? '', '--set', 'ON_ERROR_STOP=1', '--tuples-only', '-f', 'enqueue.sql']
    const outcomes: string[] = []
    for (let round = 0; round < 2; round += 1) outcomes.push((await enqueue(program, words, temporary)).stdout)
    expect(outcomes).toEqual([expect.stringMatching(/^ new +\| /m), expect.stringMatching(/^ known \| /m)])
  },
)
