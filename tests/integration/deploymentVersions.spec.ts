import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { deploy, doctor, DeploymentError } from '../../libs/deployment/index.js'
import { catalogOf } from '../support/catalogOf.js'
import { startPrivateServer, type PostgresVersion, type PrivateServer } from '../support/server.js'

/** `npm test` runs the oldest and the newest version. The version matrix runs each version alone. */
const own = inject('postgresVersion')
const VERSIONS: readonly PostgresVersion[] = own === 18 ? [15, 18] : [own]
const SCHEMA = 'Pay Out-box'

/** The tests of one version depend on each other, because the roles of a server stay once they are created. */
describe.each(VERSIONS)('PostgreSQL %i', (version) => {
  let server: PrivateServer
  let superuser: Client

  beforeAll(async () => {
    server = await startPrivateServer({ version, settings: { fsync: 'off' } })
    superuser = await connect('postgres')
    await superuser.query(`
      CREATE ROLE deployer LOGIN CREATEROLE PASSWORD 'test';
      CREATE ROLE newcomer LOGIN CREATEROLE PASSWORD 'test';
      CREATE ROLE guest LOGIN PASSWORD 'test';
      CREATE ROLE powerless LOGIN PASSWORD 'test'`)
    for (const database of ['by_deployer', 'by_newcomer', 'by_guest', 'by_superuser']) {
      await superuser.query(`CREATE DATABASE ${database} TEMPLATE template0`)
    }
    await superuser.query('GRANT CREATE ON DATABASE by_deployer TO deployer')
    await superuser.query('GRANT CREATE ON DATABASE by_newcomer TO newcomer')
  })
  afterAll(async () => {
    await superuser.end()
    await server.remove()
  })

  async function connect(database: string): Promise<Client> {
    const client = new Client(urlOf(database))
    client.on('error', () => {})
    await client.connect()
    return client
  }

  function urlOf(database: string, login?: string): string {
    const url = new URL(server.url)
    url.pathname = `/${database}`
    if (login !== undefined) {
      url.username = login
      url.password = 'test'
    }
    return url.href
  }

  /** Runs the statements that the error asks a DBA to run. */
  async function applyRemedy(database: string, { code, remedy = '' }: DeploymentError): Promise<void> {
    expect(code).toBe('DEPLOYMENT_RIGHTS_MISSING')
    const statements = remedy.slice(
      remedy.indexOf('\n'),
      remedy.includes('After') ? remedy.indexOf('After') : undefined,
    )
    const dba = await connect(database)
    await dba.query(statements)
    await dba.end()
  }

  async function membersOfOwner(): Promise<readonly string[]> {
    const { rows } = await superuser.query<{ name: string }>(
      `SELECT rolname::text AS name FROM pg_roles
       WHERE NOT rolsuper AND rolname <> 'symphony_owner' AND pg_has_role(oid, 'symphony_owner', $1) ORDER BY 1`,
      [version >= 16 ? 'SET' : 'MEMBER'],
    )
    return rows.map(({ name }) => name)
  }

  test('a login with CREATEROLE and CREATE deploys, and is no member of the owner role afterwards', async () => {
    const url = urlOf('by_deployer', 'deployer')
    expect(await deploy({ url, schema: SCHEMA })).toMatchObject({ outcome: 'deployed' })
    expect(await membersOfOwner()).toEqual([])
    expect(await doctor({ url: urlOf('by_deployer'), schema: SCHEMA })).toMatchObject({ ok: true })
    const before = await catalogOf(urlOf('by_deployer'), SCHEMA)
    expect(await deploy({ url, schema: SCHEMA })).toMatchObject({ outcome: 'unchanged' })
    expect(await deploy({ url, schema: SCHEMA, reapply: true })).toMatchObject({ outcome: 'deployed' })
    expect(await catalogOf(urlOf('by_deployer'), SCHEMA)).toEqual(before)
    expect(await membersOfOwner()).toEqual([])
  })

  test('a login with CREATEROLE can create logins with the requested roles', async () => {
    const { logins } = await deploy({
      url: urlOf('by_deployer', 'deployer'),
      schema: SCHEMA,
      createLogins: [
        { name: 'shop', roles: ['ingest'], password: 'test1234' },
        { name: 'relayer', roles: ['executor', 'readonly'], password: 'test1234' },
      ],
    })
    expect(logins.map(({ name, created }) => ({ name, created }))).toEqual([
      { name: 'shop', created: true },
      { name: 'relayer', created: true },
    ])
    const { rows } = await superuser.query(
      `SELECT pg_has_role('shop', 'symphony_ingest', 'USAGE') AS shop_inherits,
         pg_has_role('relayer', 'symphony_executor', 'USAGE') AS relayer_inherits,
         pg_has_role('relayer', 'symphony_executor', 'MEMBER') AS relayer_may_switch`,
    )
    expect(rows).toEqual([{ shop_inherits: true, relayer_inherits: false, relayer_may_switch: true }])
  })

  test('a login with CREATEROLE is no member of the owner role after a failed deployment', async () => {
    const owned = await connect('by_deployer')
    await owned.query(`SET ROLE symphony_owner`)
    await owned.query(`DROP VIEW "${SCHEMA}".outbox_operational_status`)
    await owned.query(`CREATE TABLE "${SCHEMA}".outbox_operational_status (id int)`)
    const attempt = deploy({ url: urlOf('by_deployer', 'deployer'), schema: SCHEMA, reapply: true })
    await expect(attempt).rejects.toMatchObject({ code: 'DEPLOYMENT_FILE_FAILED' })
    expect(await membersOfOwner()).toEqual([])
    await owned.end()
  })

  test('a login other than the creator of the roles deploys; from 16 on it needs the printed GRANT', async () => {
    const url = urlOf('by_newcomer', 'newcomer')
    if (version === 15) {
      await deploy({ url, schema: SCHEMA })
    } else {
      const error = await refusal(deploy({ url, schema: SCHEMA }))
      await applyRemedy('by_newcomer', error)
      await deploy({ url, schema: SCHEMA })
      await superuser.query(error.remedy!.slice(error.remedy!.indexOf('REVOKE')))
    }
    expect(await membersOfOwner()).toEqual([])
    expect(await doctor({ url: urlOf('by_newcomer'), schema: SCHEMA })).toMatchObject({ ok: true })
  })

  test('a login without rights deploys after a DBA has run the SQL that the error prints', async () => {
    const url = urlOf('by_guest', 'guest')
    const error = await refusal(deploy({ url, schema: SCHEMA }))
    expect(error.remedy).toContain(`CREATE SCHEMA IF NOT EXISTS "${SCHEMA}" AUTHORIZATION symphony_owner;`)
    await applyRemedy('by_guest', error)
    expect(await deploy({ url, schema: SCHEMA })).toMatchObject({ outcome: 'deployed' })
    await superuser.query('REVOKE symphony_owner FROM guest')
    expect(await doctor({ url: urlOf('by_guest'), schema: SCHEMA })).toMatchObject({ ok: true })
  })

  test('a login other than the creator of the roles adds logins; 16 and later need a printed GRANT', async () => {
    const url = urlOf('by_newcomer', 'newcomer')
    const createLogins = [{ name: 'clerk', roles: ['control'] }] as const
    await superuser.query(`GRANT symphony_owner TO newcomer${version >= 16 ? ' WITH INHERIT FALSE' : ''}`)
    const remedy = version >= 16 ? ((await refusal(deploy({ url, schema: SCHEMA, createLogins }))).remedy ?? '') : ''
    expect(remedy).not.toContain('clerk')
    await superuser.query(remedy.slice(remedy.indexOf('\n')))
    await deploy({ url, schema: SCHEMA, createLogins })
    await superuser.query('REVOKE symphony_owner FROM newcomer')
    const { rows } = await superuser.query(`SELECT pg_has_role('clerk', 'symphony_control', 'MEMBER') AS member`)
    expect(rows).toEqual([{ member: true }])
  })

  test('a superuser deploys; a second deployment changes nothing', async () => {
    const url = urlOf('by_superuser')
    expect(await deploy({ url, schema: SCHEMA, dedicatedDatabase: true })).toMatchObject({ outcome: 'deployed' })
    expect(await deploy({ url, schema: SCHEMA })).toMatchObject({ outcome: 'unchanged' })
    expect(await doctor({ url, schema: SCHEMA })).toMatchObject({ ok: true })
  })

  test('dedicatedDatabase is refused to a login that does not own the database', async () => {
    const url = urlOf('by_deployer', 'deployer')
    await expect(deploy({ url, schema: 'other', dedicatedDatabase: true })).rejects.toMatchObject({
      code: 'DEPLOYMENT_RIGHTS_MISSING',
      remedy: expect.stringContaining('REVOKE TEMPORARY, CREATE ON DATABASE "by_deployer" FROM PUBLIC'),
    })
  })
})

describe('a server without a deployment', () => {
  test('lets a login without rights deploy after a DBA has run the SQL that the error prints', async () => {
    const server = await startPrivateServer({ settings: { fsync: 'off' } })
    try {
      const superuser = new Client(server.url)
      await superuser.connect()
      await superuser.query(`CREATE ROLE guest LOGIN PASSWORD 'test'`)
      const url = server.url.replace(/\/\/[^@]*@/, '//guest:test@')
      const { remedy = '' } = await refusal(deploy({ url }))
      const [statements = ''] = remedy.split('After')
      expect(statements.match(/CREATE ROLE/g)).toHaveLength(7)
      await superuser.query(statements.slice(statements.indexOf('\n')))
      await superuser.end()
      expect(await deploy({ url })).toMatchObject({ outcome: 'deployed' })
    } finally {
      await server.remove()
    }
  })
})

async function refusal(attempt: Promise<unknown>): Promise<DeploymentError> {
  try {
    await attempt
  } catch (error) {
    if (error instanceof DeploymentError) return error
    throw error
  }
  throw new Error('the deployment was not refused')
}
