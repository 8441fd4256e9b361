import { Client } from 'pg'
import { afterAll, describe, expect, test } from 'vitest'
import { deploy, parseLoginRequest, type LoginRequest } from '../../libs/deployment/index.js'
import { scramVerifier } from '../../libs/deployment/logins.js'
import { useTestDatabase } from '../support/database.js'

const db = await useTestDatabase({ countBranches: false })
const created: string[] = []

afterAll(async () => {
  // Roles belong to the whole server, which other tests share.
  for (const name of created) await db.queryNoRole(`DROP ROLE IF EXISTS "${name}"`)
})

/** Returns a name that is unique on this server. */
function nameFor(what: string): string {
  const name = `${what}_${db.name}`
  created.push(name)
  return name
}

async function createLogin(request: LoginRequest): Promise<string | undefined> {
  const { logins } = await deploy({ url: db.url, schema: db.schema, createLogins: [request] })
  expect(logins).toHaveLength(1)
  return logins[0]!.password
}

async function connectAs(user: string, password: string): Promise<Client> {
  const url = new URL(db.url)
  const client = new Client({ host: url.hostname, port: Number(url.port), database: db.name, user, password })
  await client.connect()
  return client
}

describe('an application login', () => {
  test('enqueues in its own transaction without SET ROLE, and cannot read the queue', async () => {
    const name = nameFor('shop')
    const password = await createLogin({ name, roles: ['ingest'] })
    const client = await connectAs(name, password!)
    try {
      await client.query('BEGIN')
      const enqueue = db.qualify('enqueue_payment_outbox')
      const { rows } = await client.query(`SELECT created FROM ${enqueue}('i', 'p', 'k', 'rail', '{}')`)
      expect(rows).toEqual([{ created: true }])
      await client.query('ROLLBACK')
      await expect(client.query(`SELECT * FROM ${db.qualify('payment_outbox_pending')}`)).rejects.toThrow(
        /permission denied/,
      )
    } finally {
      await client.end()
    }
  })
})

describe('a login of a process or a person', () => {
  test('has no rights until it switches to one of its roles', async () => {
    const name = nameFor('relayer')
    const password = await createLogin({ name, roles: ['executor', 'readonly'] })
    const client = await connectAs(name, password!)
    try {
      const claim = `SELECT * FROM ${db.qualify('claim_outbox_batch')}(1, 'worker', 60)`
      await expect(client.query(claim)).rejects.toThrow(/permission denied/)
      await client.query('SET ROLE symphony_executor')
      await client.query(claim)
      await client.query('SET ROLE symphony_readonly')
      await expect(client.query('SET ROLE symphony_control')).rejects.toThrow(/permission denied/)
    } finally {
      await client.end()
    }
  })
})

async function gateways() {
  return (await db.queryNoRole('SELECT actor_gateways, naming_gateways FROM symphony_settings')).rows[0]
}

describe('a login of the HTTP API', () => {
  test('is an actor gateway if it requests "api", and may name people only with "api+names"', async () => {
    const name = nameFor('web')
    const request = parseLoginRequest(`${name}=api`)
    for (const [given, naming] of [
      [request, []],
      [parseLoginRequest(`${name}=api+names`), [name]],
      [request, []],
    ] as const) {
      await createLogin(given)
      expect(await gateways()).toEqual({ actor_gateways: [name], naming_gateways: naming })
    }
    const { sql } = await deploy({ url: db.url, schema: db.schema, createLogins: [request], dryRun: true })
    expect(sql).toContain(`SELECT set_actor_gateway('${name}', false);`)
  })

  test('is refused if it requests "names" without "api"', () => {
    expect(() => parseLoginRequest('web=control+names')).toThrow(/api\+names joined by \+, got "names"/)
  })

  test('is no gateway if it requests only the roles control and auth', async () => {
    const before = await gateways()
    await createLogin({ name: nameFor('ops'), roles: ['control', 'auth'] })
    expect(await gateways()).toEqual(before)
  })
})

describe('an existing login that deploy() is asked to create', () => {
  test('keeps its password and gets the roles', async () => {
    const name = nameFor('again')
    const password = await createLogin({ name, roles: ['executor'] })
    expect(await createLogin({ name, roles: ['executor'] })).toBeUndefined()
    expect(await createLogin({ name, roles: ['executor', 'control'] })).toBeUndefined()
    const client = await connectAs(name, password!)
    await client.query('SET ROLE symphony_control')
    await client.end()
  })

  test('is refused if it cannot log in (DEPLOYMENT_LOGIN_MISMATCH)', async () => {
    const name = nameFor('group')
    await db.queryNoRole(`CREATE ROLE "${name}" NOLOGIN NOINHERIT`)
    const attempt = deploy({ url: db.url, schema: db.schema, createLogins: [{ name, roles: ['executor'] }] })
    await expect(attempt).rejects.toMatchObject({ code: 'DEPLOYMENT_LOGIN_MISMATCH' })
    const { rows } = await db.queryNoRole(`SELECT pg_has_role($1, 'symphony_executor', 'MEMBER') AS member`, [name])
    expect(rows).toEqual([{ member: false }])
  })
})

describe('the password of a login', () => {
  test('can be given, and is then not returned', async () => {
    const name = nameFor('chosen')
    expect(await createLogin({ name, roles: ['auditor'], password: `it's "my" secret` })).toBeUndefined()
    const client = await connectAs(name, `it's "my" secret`)
    await client.end()
  })

  test('is generated for each login, with at least 32 characters', async () => {
    const passwords = [
      await createLogin({ name: nameFor('one'), roles: ['readonly'] }),
      await createLogin({ name: nameFor('two'), roles: ['readonly'] }),
    ]
    expect(new Set(passwords).size).toBe(2)
    expect(passwords[0]!.length).toBeGreaterThanOrEqual(32)
  })

  test('is sent as a SCRAM verifier, never as text', async () => {
    const name = nameFor('private')
    // A server that received the password itself would store it as md5.
    await db.queryNoRole(`ALTER DATABASE ${db.name} SET password_encryption = 'md5'`)
    await createLogin({ name, roles: ['readonly'] })
    await db.queryNoRole(`ALTER DATABASE ${db.name} RESET password_encryption`)
    const { rows } = await db.queryNoRole('SELECT left(rolpassword, 13) AS form FROM pg_authid WHERE rolname = $1', [
      name,
    ])
    expect(rows).toEqual([{ form: 'SCRAM-SHA-256' }])
  })

  test('is hashed as RFC 7677 specifies', () => {
    // Salt and password of the example in RFC 7677.
    expect(scramVerifier('pencil', Buffer.from('W22ZaJ0SNY7soEsUEjb6gQ==', 'base64'))).toBe(
      'SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=',
    )
  })
})

describe('a login request (--create-login)', () => {
  test.each([
    ['app=ingest', { name: 'app', roles: ['ingest'] }],
    ['a=b=executor+control', { name: 'a=b', roles: ['executor', 'control'] }],
    ['web=api', { name: 'web', roles: ['ingest', 'readonly', 'auditor', 'control', 'auth'], gateway: 'keys' }],
    [
      'all=executor+api',
      { name: 'all', roles: ['executor', 'ingest', 'readonly', 'auditor', 'control', 'auth'], gateway: 'keys' },
    ],
  ])('is parsed from NAME=ROLE+ROLE: %s', (text, request) => expect(parseLoginRequest(text)).toEqual(request))

  test.each(['app', 'app=', 'app=owner', 'app=apis', 'app=ingest+', '=', 'app=symphony_ingest'])(
    'is refused if it is not NAME=ROLE+ROLE: %j',
    (text) => expect(() => parseLoginRequest(text)).toThrow(/expected NAME=ROLE/),
  )

  test.each<LoginRequest>([
    { name: '', roles: ['ingest'] },
    { name: 'symphony_owner', roles: ['ingest'] },
    { name: 'pg_monitor', roles: ['ingest'] },
    { name: 'x'.repeat(64), roles: ['ingest'] },
    { name: 'app', roles: [] },
    { name: 'app', roles: ['ingest'], password: 'short' },
    { name: 'app', roles: ['ingest'], password: 'pässword!' },
  ])('is refused with an invalid name, role or password, before any connection: %j', async (request) => {
    const attempt = deploy({ url: 'postgres://unknown-user@127.0.0.1:1/none', createLogins: [request] })
    await expect(attempt).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  })

  test.each([{ name: 'app' }, { name: 'app', roles: 'ingest' }, { name: 'app', roles: ['api'] }])(
    'is refused by deploy() with an error that shows the form { name, roles }: %j',
    async (request) => {
      const untyped: LoginRequest = JSON.parse(JSON.stringify(request))
      const attempt = deploy({ url: 'postgres://unknown-user@127.0.0.1:1/none', createLogins: [untyped] })
      await expect(attempt).rejects.toThrow(/^createLogins: expected .*\{ name, roles \}/)
    },
  )
})
