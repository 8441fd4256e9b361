import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deploy } from '../../libs/deployment/index.js'
import { accountForNewCluster } from '../../embedded/account.js'
import { choosePort } from '../../embedded/ports.js'
import { symphony } from '../support/commandLine.js'
import { writeRailsFile } from '../support/railsFile.js'
import { waitUntil } from '../scorecard/waitUntil.js'
import { startPrivateServer, type PrivateServer } from '../support/server.js'
import { ask } from '../support/standby.js'
import { programsOf } from './programs.js'

let server: PrivateServer
let folder: string
let url: string
let rails: string
let stop: () => Promise<void>

beforeAll(async () => {
  server = await startPrivateServer()
  await deploy({
    url: server.url,
    createLogins: [{ name: 'relayer', roles: ['executor', 'readonly', 'control'], password: 'relayer1' }],
  })
  folder = await mkdtemp(join(tmpdir(), 'symphony-pgbouncer-'))
  await chmod(folder, 0o755)
  rails = await writeRailsFile(folder, `type: 'r', onUnknown: 'resend', dispatch: async () => ({ kind: 'success' })`)
  const { hostname, port, pathname } = new URL(server.url)
  const pooled = await choosePort(undefined, undefined)
  url = `postgres://relayer:relayer1@127.0.0.1:${pooled}${pathname}?sslmode=disable`
  const configuration = join(folder, 'pgbouncer.ini')
  await writeFile(
    configuration,
    `[databases]
* = host=${hostname} port=${port} user=relayer password=relayer1
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${pooled}
auth_type = any
pool_mode = transaction
default_pool_size = 1
ignore_startup_parameters = options
unix_socket_dir =
`,
  )
  const child = spawn(programsOf('pgbouncer')['pgbouncer']!, ['--quiet', configuration], {
    // PgBouncer refuses to run as root, like PostgreSQL.
    ...(await accountForNewCluster()),
    stdio: 'ignore',
  })
  const ended = once(child, 'exit')
  stop = async () => {
    child.kill()
    await ended
  }
  await waitUntil('PgBouncer answers', async () => (await ask(url, 'SELECT 1 AS answer').catch(() => 0)) === 1)
})
afterAll(async () => {
  await stop()
  await server.remove()
  await rm(folder, { recursive: true })
})

test.each([
  ['worker', '--no-http'],
  ['worker', '--no-http', '--no-listen'],
  ['scheduler', '--no-http'],
  ['api', '--port', '0'],
  ['status'],
])('symphony %s without --pooler is refused and leaves the pooled connection in the login role', async (...words) => {
  const { exitCode, stderr } = await symphony(words, { DATABASE_URL: url, SYMPHONY_RAILS: rails })
  expect({ exitCode, stderr }).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('TRANSACTION_POOLER') })
  // The pool has one server connection, so the next client sees the state in which the refused process left it.
  const next = new Client(url)
  await next.connect()
  const { rows } = await next.query(
    `SELECT current_user AS role, current_setting('statement_timeout') AS timeout,
       (SELECT count(*)::int FROM pg_prepared_statements) AS prepared, (SELECT count(*)::int FROM pg_listening_channels()) AS channels`,
  )
  await next.end()
  expect(rows).toEqual([{ role: 'relayer', timeout: '0', prepared: 0, channels: 0 }])
})

test('symphony status with --pooler transaction works through PgBouncer', async () => {
  expect(await symphony(['status', '--pooler', 'transaction'], { DATABASE_URL: url })).toMatchObject({ exitCode: 0 })
})
