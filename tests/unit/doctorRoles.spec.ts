import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deploy, doctor, type Finding } from '../../libs/deployment/index.js'
import { startPrivateServer, type PrivateServer } from '../support/server.js'

/** Server that only this file uses. Roles belong to the whole server, and most other test files share one server. */
let server: PrivateServer
let superuser: Client

beforeAll(async () => {
  server = await startPrivateServer({ settings: { fsync: 'off' } })
  superuser = new Client(server.url)
  await superuser.connect()
  await deploy({ url: server.url })
})
afterAll(async () => {
  await superuser.end()
  await server.remove()
})

async function failures(): Promise<readonly Finding[]> {
  return (await doctor({ url: server.url })).findings.filter(({ severity }) => severity !== 'note')
}

const DRIFTS = [
  {
    title: 'a login that can act as the owner',
    plant: 'CREATE ROLE mallory LOGIN; GRANT symphony_owner TO mallory',
    code: 'ROLE_MEMBERS_UNEXPECTED',
    found: 'mallory',
    undo: 'DROP ROLE mallory',
  },
  {
    title: 'a runtime role that can act as the owner',
    plant: 'GRANT symphony_owner TO symphony_control',
    code: 'ROLE_MEMBERS_UNEXPECTED',
    found: 'symphony_control',
    undo: 'REVOKE symphony_owner FROM symphony_control',
  },
  {
    title: 'a runtime role that may read everything',
    plant: 'GRANT pg_read_all_data TO symphony_readonly',
    code: 'ROLE_MEMBER_OF_UNEXPECTED',
    found: 'pg_read_all_data',
    undo: 'REVOKE pg_read_all_data FROM symphony_readonly',
  },
  {
    title: 'an owner that can log in',
    plant: 'ALTER ROLE symphony_owner LOGIN',
    code: 'ROLE_LOGIN_CHANGED',
    found: 'true',
    undo: 'ALTER ROLE symphony_owner NOLOGIN',
  },
  {
    title: 'a superuser among the roles',
    plant: 'ALTER ROLE symphony_executor SUPERUSER',
    code: 'ROLE_SUPERUSER_CHANGED',
    found: 'true',
    undo: 'ALTER ROLE symphony_executor NOSUPERUSER',
  },
  {
    title: 'a role that row security does not bind',
    plant: 'ALTER ROLE symphony_readonly BYPASSRLS',
    code: 'ROLE_BYPASS_ROW_SECURITY_CHANGED',
    found: 'true',
    undo: 'ALTER ROLE symphony_readonly NOBYPASSRLS',
  },
  {
    title: 'a role that can make roles',
    plant: 'ALTER ROLE symphony_control CREATEROLE',
    code: 'ROLE_CREATE_ROLE_CHANGED',
    found: 'true',
    undo: 'ALTER ROLE symphony_control NOCREATEROLE',
  },
  {
    title: 'a role with a setting of its own',
    plant: `ALTER ROLE symphony_owner SET session_replication_role = replica`,
    code: 'ROLE_SETTINGS_UNEXPECTED',
    found: 'session_replication_role=replica',
    undo: 'ALTER ROLE symphony_owner RESET session_replication_role',
  },
] as const

describe('a drift of a role', () => {
  test.each(DRIFTS)('is reported: $title', async ({ plant, code, found, undo }) => {
    await superuser.query(plant)
    try {
      expect(await failures()).toContainEqual(expect.objectContaining({ severity: 'drift', code, found }))
    } finally {
      await superuser.query(undo)
    }
    expect(await failures()).toEqual([])
  })
})

describe('a note of the doctor', () => {
  test('names a login that may write every table (LOGIN_WRITES_ALL_DATA)', async () => {
    await superuser.query('CREATE ROLE loader LOGIN; GRANT pg_write_all_data TO loader')
    const { ok, findings } = await doctor({ url: server.url })
    await superuser.query('DROP ROLE loader')
    expect(ok).toBe(true)
    expect(findings).toContainEqual(
      expect.objectContaining({ severity: 'note', code: 'LOGIN_WRITES_ALL_DATA', object: 'login loader' }),
    )
  })

  test('names a login that could grant itself the owner role (OWNER_GRANTABLE)', async () => {
    await superuser.query('CREATE ROLE deployer LOGIN')
    await superuser.query('GRANT symphony_owner TO deployer WITH ADMIN TRUE, INHERIT FALSE, SET FALSE')
    const { ok, findings } = await doctor({ url: server.url })
    await superuser.query('DROP ROLE deployer')
    expect(ok).toBe(true)
    expect(findings).toContainEqual(expect.objectContaining({ code: 'OWNER_GRANTABLE', object: 'role deployer' }))
  })

  test('names a server that is not durable (SERVER_NOT_DURABLE)', async () => {
    await superuser.query('ALTER SYSTEM SET full_page_writes = off')
    await superuser.query('SELECT pg_reload_conf()')
    await expect
      .poll(async () => (await doctor({ url: server.url })).findings.map(({ code }) => code))
      .toContain('SERVER_NOT_DURABLE')
    await superuser.query('ALTER SYSTEM RESET full_page_writes')
    await superuser.query('SELECT pg_reload_conf()')
  })
})
