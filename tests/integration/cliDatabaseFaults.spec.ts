import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deploy } from '../../libs/deployment/index.js'
import { symphony, type CommandOutput } from '../support/commandLine.js'
import { startPrivateServer, type PrivateServer } from '../support/server.js'
import { ServerCopies, Standby } from '../support/standby.js'

const copies = new ServerCopies()
let server: PrivateServer
let serverUrl: string
let standby: Standby

beforeAll(async () => {
  server = await startPrivateServer()
  await deploy({
    url: server.url,
    createLogins: [
      { name: 'ops', roles: ['control'], password: 'password' },
      { name: 'payer', roles: ['control', 'executor'], password: 'password' },
      { name: 'shop', roles: ['ingest'], password: 'password' },
    ],
  })
  for (const name of ['undeployed', 'older', 'newer', 'apart']) await run(server.url, `CREATE DATABASE ${name}`)
  for (const [name, release] of [['older', '0.0.1'] as const, ['newer', '9.9.9'] as const]) {
    const url = urlOf(server.url, name)
    await deploy({ url })
    await run(
      url,
      `INSERT INTO symphony.symphony_deployments (deployment_no, file, sha256, schema_level, release, deployed_by, deployed_at)
       SELECT deployment_no + 1, file, repeat('0', 64), schema_level, '${release}', deployed_by, deployed_at
       FROM symphony.symphony_deployments LIMIT 1;
       DROP VIEW symphony.supervisor_outbox_status CASCADE`,
    )
  }
  await run(
    server.url,
    `CREATE ROLE closed LOGIN PASSWORD 'password' CONNECTION LIMIT 0;
     CREATE ROLE asleep NOLOGIN PASSWORD 'password';
     REVOKE CONNECT ON DATABASE apart FROM PUBLIC`,
  )
  await server.stop()
  const copy = await copies.of(server.dataDir)
  serverUrl = (await server.restart()).url
  standby = await Standby.of(serverUrl, copy, undefined)
})
afterAll(async () => {
  await standby.stop()
  await copies.remove()
  await server.remove()
})

const ENQUEUE = ['enqueue', '--instruction', 'i', '--participant', 'p', '--rail', 'r', '--payload', '{}', '--json']
const API = ['api', '--port', '0']
const START = ['status', 'doctor', 'deploy', 'ledger verify', API.join(' '), 'scheduler --no-http']

interface Fault {
  readonly title: string
  readonly commands: readonly string[]
  readonly url: () => string
  readonly code: string
  readonly exitCode?: number
  readonly remedy: RegExp
}

const FAULTS: readonly Fault[] = [
  {
    title: 'a wrong password',
    commands: START,
    url: () => urlOf(serverUrl, 'postgres', 'postgres', 'wrong'),
    code: 'INVALID_PASSWORD',
    remedy: /password in DATABASE_URL/,
  },
  {
    title: 'a login that the server does not have',
    commands: START,
    url: () => urlOf(serverUrl, 'postgres', 'nobody_here', 'password'),
    code: 'INVALID_PASSWORD',
    remedy: /user name and the password in DATABASE_URL/,
  },
  {
    title: 'a role that may not log in',
    commands: START,
    url: () => urlOf(serverUrl, 'postgres', 'asleep', 'password'),
    code: 'INVALID_AUTHORIZATION_SPECIFICATION',
    remedy: /Check the login in DATABASE_URL/,
  },
  {
    title: 'a login without a free connection',
    commands: START,
    url: () => urlOf(serverUrl, 'postgres', 'closed', 'password'),
    code: 'TOO_MANY_CONNECTIONS',
    remedy: /max_connections/,
  },
  {
    title: 'a database that the login may not connect to',
    commands: START,
    url: () => urlOf(serverUrl, 'apart', 'shop', 'password'),
    code: 'INSUFFICIENT_PRIVILEGE',
    remedy: /Use a login/,
  },
  {
    title: 'an unknown database',
    commands: START,
    url: () => urlOf(serverUrl, 'unknown'),
    code: 'INVALID_CATALOG_NAME',
    exitCode: 3,
    remedy: /name of the database in DATABASE_URL/,
  },
  {
    title: 'a port without a server',
    commands: START,
    url: () => 'postgres://postgres@127.0.0.1:1/postgres?sslmode=disable',
    code: 'CONNECT_FAILED',
    exitCode: 3,
    remedy: /Start the server, or correct host and port/,
  },
  {
    title: 'an unknown host',
    commands: START,
    url: () => 'postgres://postgres@no-such-host.invalid/postgres?sslmode=verify-full',
    code: 'CONNECT_FAILED',
    exitCode: 3,
    remedy: /Correct the host|Start the server/,
  },
  {
    title: 'a server without TLS',
    commands: START,
    url: () => `${serverUrl}?sslmode=verify-full`,
    code: 'TLS_REFUSED',
    remedy: /sslrootcert/,
  },
  {
    title: 'a database without a deployment',
    commands: [
      'status',
      'show X',
      'holds list',
      'dlq list',
      'jobs list',
      'timers list',
      'leases list',
      'inbox list',
      'keys list',
      'freeze show',
      'freeze place --reason x',
      'ledger verify',
      'evidence --out evidence-of-nothing',
      ENQUEUE.join(' '),
      API.join(' '),
      'scheduler --no-http',
    ],
    url: () => urlOf(serverUrl, 'undeployed'),
    code: 'NOT_DEPLOYED',
    remedy: /symphony deploy/,
  },
  {
    title: 'a deployment of an older release',
    commands: ['status', API.join(' '), 'scheduler --no-http'],
    url: () => urlOf(serverUrl, 'older'),
    code: 'DEPLOYED_BY_ANOTHER_RELEASE',
    remedy: /symphony deploy/,
  },
  {
    title: 'a deployment of a newer release',
    commands: ['status', API.join(' '), 'scheduler --no-http'],
    url: () => urlOf(serverUrl, 'newer'),
    code: 'DEPLOYED_BY_ANOTHER_RELEASE',
    remedy: /Use release 9\.9\.9 of Symphony, or a newer one/,
  },
  {
    title: 'a deployment over a newer release',
    commands: ['deploy'],
    url: () => urlOf(serverUrl, 'newer'),
    code: 'DEPLOYMENT_NEWER_DATABASE',
    remedy: /Deploy with that release or a newer one/,
  },
  {
    title: 'a deployment to a standby',
    commands: ['deploy', 'deploy --roles-only', 'deploy --dry-run'],
    url: () => standby.url,
    code: 'DEPLOYMENT_SERVER_UNFIT',
    remedy: /Point DATABASE_URL at the primary/,
  },
  {
    title: 'a write on a standby',
    commands: [ENQUEUE.join(' '), 'freeze place --reason x'],
    url: () => standby.url,
    code: 'READ_ONLY_SQL_TRANSACTION',
    remedy: /Point DATABASE_URL at the primary/,
  },
  {
    title: 'a process on a standby',
    commands: [API.join(' '), 'scheduler --no-http'],
    url: () => standby.url,
    code: 'SERVER_IS_STANDBY',
    remedy: /Point DATABASE_URL at the primary/,
  },
  {
    title: 'an operator’s command with the login of an application',
    commands: ['holds list', 'freeze place --reason x'],
    url: () => urlOf(serverUrl, 'postgres', 'shop', 'password'),
    code: 'ROLE_UNAVAILABLE',
    remedy:
      /symphony deploy --create-login NAME=control creates a login for this role\. A person may also log in as ops\./,
  },
]

/** Names each case by its fault and the first two words of its command. */
const CASES = FAULTS.flatMap((fault) =>
  fault.commands.map((command) => [fault.title, command.split(' ').slice(0, 2).join(' '), command, fault] as const),
)

describe('a command prints a code and a remedy after a database fault', () => {
  test.each(CASES)('%s: symphony %s', async (_title, _words, command, fault) => {
    const { url, code, exitCode = 1, remedy } = fault
    const output = await symphony(command.split(' '), { DATABASE_URL: url() })
    expect({ exitCode: output.exitCode, stderr: output.stderr }).toMatchObject({
      exitCode,
      stderr: expect.stringMatching(new RegExp(`\\b${code}\\b`)),
    })
    expect(textOf(output)).toMatch(remedy)
    expect(causesIn(output).filter(({ cause, message }) => message.includes(cause))).toEqual([])
  })
})

test('deploy by a login without ADMIN prints the GRANT that it needs (PostgreSQL 16 and later)', async () => {
  const url = urlOf(serverUrl, 'undeployed', 'deployer', 'password')
  await run(
    serverUrl,
    `CREATE ROLE deployer LOGIN CREATEROLE PASSWORD 'password'; GRANT CREATE ON DATABASE undeployed TO deployer`,
  )
  const words = ['deploy', '--create-login', 'relayer=executor+readonly']
  const refused = await symphony(words, { DATABASE_URL: url })
  expect(refused).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('DEPLOYMENT_RIGHTS_MISSING') })
  expect(refused.stderr).not.toContain('relayer')
  const statements = refused.stderr.split('\n').filter((line) => /^(?:GRANT|REVOKE) .*;$/.test(line.trim()))
  const [before, after] = [
    statements.filter((one) => !one.includes('REVOKE')),
    statements.filter((one) => one.includes('REVOKE')),
  ]
  for (const statement of before) await run(urlOf(serverUrl, 'undeployed'), statement)
  expect(await symphony(words, { DATABASE_URL: url })).toMatchObject({ exitCode: 0 })
  for (const statement of after) await run(urlOf(serverUrl, 'undeployed'), statement)
})

function urlOf(base: string, database: string, login?: string, password?: string): string {
  const url = new URL(base)
  url.pathname = `/${database}`
  if (login !== undefined) url.username = login
  if (password !== undefined) url.password = password
  return url.href
}

async function run(url: string, sql: string): Promise<void> {
  const client = new Client(url)
  await client.connect()
  try {
    await client.query(sql)
  } finally {
    await client.end()
  }
}

/** Returns stderr as text, or the remedy if stderr is JSON. */
function textOf({ stderr }: CommandOutput): string {
  return stderr.startsWith('{') ? String(JSON.parse(stderr).error.remedy) : stderr
}

function causesIn({ stderr }: CommandOutput): readonly { cause: string; message: string }[] {
  if (stderr.startsWith('{')) return []
  const lines = stderr.split('\n')
  const message = lines.find((line) => line.startsWith('error ')) ?? ''
  return lines
    .filter((line) => line.startsWith('  because '))
    .map((line) => ({ cause: line.slice('  because '.length), message }))
}
