import { beforeAll, describe, expect, test } from 'vitest'
import { authenticateApiKey, createBrowserSession, newApiKey, parseApiKey } from '../../libs/access/index.js'
import { symphony, type CommandOutput } from '../support/commandLine.js'
import { createTestDatabase, useTestDatabase } from '../support/database.js'
import { createKey } from '../support/httpFixture.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'

const db = await useTestDatabase()
let url: string
let operator: string
beforeAll(async () => {
  const login = await db.createLogin('operator', { roles: ['symphony_control', 'symphony_readonly'] })
  url = login.url
  operator = login.name
})

function keys(...words: readonly string[]): Promise<CommandOutput> {
  return symphony(['keys', ...words], { DATABASE_URL: url, SYMPHONY_SCHEMA: db.schema })
}

async function shown(key: string) {
  return authenticateApiKey(db.as('symphony_auth'), parseApiKey(key)!)
}

describe('symphony keys', () => {
  test('create prints the key once, list never prints it, and revoke disables it', async () => {
    const made = await keys(
      'create',
      '--scope',
      'read',
      '--owner',
      'carol',
      '--participant',
      'acme',
      '--participant',
      'bolt',
      '--expires',
      '90d',
    )
    expect({ ...made, stdout: '' }).toEqual({ exitCode: 0, stdout: '', stderr: '' })
    const key = /^ {2}(symphony_\S+)$/m.exec(made.stdout)?.[1] ?? ''
    expect(await shown(key)).toMatchObject({
      status: 'ACTIVE',
      scopes: ['read'],
      owner: 'carol',
      participants: ['acme', 'bolt'],
    })

    const json: { keyId: string; key: string } = JSON.parse(
      (await keys('create', '--scope', 'read', '--owner', 'carol', '--json')).stdout,
    )
    expect(json).toMatchObject({ keyId: parseApiKey(json.key)!.keyId, scopes: ['read'], owner: 'carol' })

    const list = await keys('list')
    expect(list.stdout).toContain(json.keyId)
    expect(list.stdout).toMatch(
      /carol ACTIVE read\n {2}for acme, bolt; created 20\S+Z by operator_\S+; expires 20\S+Z; used in the hour of 20\S+Z/,
    )
    expect(list.stdout + (await keys('list', '--json')).stdout).not.toContain(key.split('_').slice(2).join('_'))

    expect((await keys('revoke', json.keyId)).stdout).toBe(`The key ${json.keyId} is revoked.\n`)
    expect(JSON.parse((await keys('revoke', json.keyId, '--json')).stdout)).toEqual({
      keyId: json.keyId,
      changed: false,
    })
    expect(await shown(json.key)).toMatchObject({ status: 'REVOKED' })
    expect((await keys('list')).stdout).toMatch(
      new RegExp(`${json.keyId} carol REVOKED read\\n.*revoked by ${operator}`),
    )
  })

  test('create refuses an operate key for another person, and a scope without its database role', async () => {
    expect((await keys('create', '--scope', 'operate', '--owner', operator)).exitCode).toBe(0)
    const other = await keys('create', '--scope', 'operate', '--owner', 'bob')
    expect(other.stdout).toBe('')
    expect(other.stderr).toContain('only for themselves')
    expect((await keys('create', '--scope', 'ingest', '--owner', 'shop')).stderr).toContain(
      'not a member of symphony_ingest',
    )
  })

  test.each([
    ['no scope', ['--owner', 'a'], '--scope'],
    ['an unknown scope', ['--scope', 'root', '--owner', 'a'], '--scope'],
    ['no owner', ['--scope', 'read'], '--owner'],
    ['an invalid expiry', ['--scope', 'read', '--owner', 'a', '--expires', 'tomorrow'], '--expires'],
    [
      'an expiry on a day that does not exist',
      ['--scope', 'read', '--owner', 'a', '--expires', '2027-02-30T00:00:00'],
      '--expires',
    ],
    ['an expiry in the past', ['--scope', 'read', '--owner', 'a', '--expires', '2020-01-01T00:00:00Z'], 'p_expires_at'],
  ])('create refuses %s and names the option', async (_, words, name) => {
    const output = await keys('create', ...words)
    expect(output.exitCode).not.toBe(0)
    expect(output.stderr).toContain(name)
  })

  test('--help prints examples', async () => {
    const { stdout, exitCode } = await symphony(['keys', '--help'])
    expect([exitCode, stdout]).toEqual([0, expect.stringContaining('symphony keys revoke')])
    expect((await symphony(['api', '--help'])).stdout).toContain('--requests-per-second')
  })

  test('list prints that there are no keys', async () => {
    await using empty = await createTestDatabase()
    const env = { DATABASE_URL: empty.url, SYMPHONY_SCHEMA: empty.schema }
    expect((await symphony(['keys', 'list'], env)).stdout).toBe('There are no keys.\n')
  })
})

describe('symphony api', () => {
  const API_ROLES = ['symphony_ingest', 'symphony_readonly', 'symphony_auditor', 'symphony_control', 'symphony_auth']

  test('accepts API keys, and warns that its login is not a gateway', async () => {
    const web = await db.createLogin('web', { roles: API_ROLES })
    const { key }: { key: string } = JSON.parse(
      (await keys('create', '--scope', 'read', '--owner', 'carol', '--json')).stdout,
    )
    const stop = new AbortController()
    const env = { DATABASE_URL: web.url, SYMPHONY_SCHEMA: db.schema, SYMPHONY_LOG_LEVEL: 'silent' }
    const written = { stdout: '', stderr: '' }
    const running = symphony(['api', '--port', '0'], env, stop.signal, written)
    await expect.poll(() => written.stdout, POLL_OPTIONS).toMatch(/^The API listens on http:\S+\.\n$/)
    const address = /http:\S+(?=\.\n)/.exec(written.stdout)?.[0] ?? ''
    const headers = { authorization: `Bearer ${key}` }
    expect((await fetch(`${address}/v1/me`, { headers })).status).toBe(200)
    expect((await fetch(`${address}/v1/pauses`, { method: 'POST', headers })).status).toBe(403)
    expect((await fetch(`${address}/openapi.json`)).status).toBe(200)
    stop.abort()
    const output = await running
    expect(output.exitCode).toBe(0)
    expect(output.stderr).toContain('This login is not a gateway')
    const { rows } = await db.queryNoRole(`SELECT 1 FROM pg_stat_activity WHERE usename = $1`, [web.name])
    expect(rows).toEqual([])
  })

  test('refuses operator actions by access token if its login may act for API keys only (503)', async () => {
    const web = await db.createLogin('keys_only', { roles: API_ROLES })
    await db.queryNoRole('SELECT set_actor_gateway($1, false)', [web.name])
    const { key } = await createKey(db, { scopes: ['operate'], owner: 'carol' })
    const stop = new AbortController()
    const env = {
      DATABASE_URL: web.url,
      SYMPHONY_SCHEMA: db.schema,
      SYMPHONY_LOG_LEVEL: 'silent',
      SYMPHONY_ACCESS_TOKEN: 'token-of-the-tests',
    }
    const written = { stdout: '', stderr: '' }
    const running = symphony(['api', '--port', '0'], env, stop.signal, written)
    await expect.poll(() => written.stdout, POLL_OPTIONS).toMatch(/^The API listens on http:\S+\.\n$/)
    const address = /http:\S+(?=\.\n)/.exec(written.stdout)?.[0] ?? ''
    const pause = async (bearer: string) => {
      const body = JSON.stringify({ kind: 'rail', name: 'SEPA', reason: 'odd', force: true })
      const headers = { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' }
      return (await fetch(`${address}/v1/pauses`, { method: 'POST', headers, body })).status
    }
    expect([await pause('token-of-the-tests'), await pause(key)]).toEqual([503, 200])
    stop.abort()
    expect((await running).stderr).toContain('may act for owners of API keys only')
    const { rows } = await db.queryNoRole(`SELECT actor FROM payment_outbox_events WHERE event_type = 'PAUSED'`)
    expect(rows).toEqual([{ actor: 'carol' }])
  })

  test('refuses to start with --strict if its login is not a gateway (NO_ACTOR_GATEWAY)', async () => {
    const web = await db.createLogin('strict', { roles: ['symphony_readonly', 'symphony_control'] })
    const output = await symphony(['api', '--strict', '--port', '0'], {
      DATABASE_URL: web.url,
      SYMPHONY_SCHEMA: db.schema,
    })
    expect(output.exitCode).not.toBe(0)
    expect(output.stderr).toContain('NO_ACTOR_GATEWAY')
  })
})

function sessions(...words: readonly string[]): Promise<CommandOutput> {
  return symphony(['sessions', ...words], { DATABASE_URL: url, SYMPHONY_SCHEMA: db.schema })
}

async function signIn(owner: string) {
  const parts = newApiKey()
  const granted = {
    scopes: ['read'],
    participants: ['acme'],
    issuer: 'https://login.example.com',
    seconds: 600,
  } as const
  await createBrowserSession(db.as('symphony_auth'), parts, { ...granted, owner })
  return parts
}

test('symphony sessions lists active sessions, and revokes one or all of a person in any case', async () => {
  expect((await sessions('list')).stdout).toBe('There are no sessions.\n')
  const alice = await signIn('alice')
  await Promise.all([signIn('bob'), signIn('Bob')])
  const { stdout } = await sessions('list')
  expect(stdout).toMatch(
    new RegExp(
      `${alice.keyId} alice ACTIVE read\\n  for acme; created \\S+ by \\S+; signed in at https://login.example.com; expires \\S+\\n`,
    ),
  )
  expect(stdout).not.toContain(alice.key.slice(-43))
  expect((await sessions('revoke', alice.keyId)).stdout).toBe(`The session ${alice.keyId} is revoked.\n`)
  expect((await sessions('revoke', alice.keyId)).stdout).toBe(`The session ${alice.keyId} was revoked already.\n`)
  expect((await sessions('revoke', '--owner', 'BOB')).stdout).toBe('2 sessions of BOB revoked.\n')
  expect((await sessions('revoke', '--owner', 'bob')).stdout).toBe('0 sessions of bob revoked.\n')
  const unknown = await sessions('revoke', '--owner', 'bobby')
  expect(unknown.exitCode).not.toBe(0)
  expect(unknown.stderr).toContain('--owner: expected a person with a session, got "bobby". List the owners:')
  expect(JSON.parse((await sessions('list', '--json')).stdout)).toEqual({ sessions: [] })
  expect((await sessions('list', '--all')).stdout).toContain(`ended by ${operator}`)
  for (const words of [['revoke'], ['revoke', 'nosuchsession'], ['revoke', alice.keyId, '--owner', 'bob']]) {
    expect((await sessions(...words)).exitCode).not.toBe(0)
  }
})
