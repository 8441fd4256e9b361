import { describe, expect, test } from 'vitest'
import {
  ApiKeys,
  authenticateApiKey,
  authenticateBrowserSession,
  createBrowserSession,
  endBrowserSession,
  isActorGateway,
  newApiKey,
  parseApiKey,
  readBrowserSessions,
  revokeBrowserSession,
  type ApiKeyRequest,
} from '../../libs/access/index.js'
import { withActor } from '../../libs/db/index.js'
import { placeOutboxHold, readItemEvents } from '../../libs/outbox/index.js'
import { cancelTimer, triggerJob } from '../../libs/scheduler/index.js'
import { useTestDatabase } from '../support/database.js'
import { createKey } from '../support/httpFixture.js'
import { enqueue } from '../support/outboxItems.js'
import { failureOf } from '../support/race.js'
import { createJob, createTimer } from '../support/scheduled.js'

const db = await useTestDatabase()

const READER: ApiKeyRequest = { scopes: ['read'], owner: 'alice' }

/** Authenticates a key as the API does. */
async function shown(key: string) {
  return authenticateApiKey(db.as('symphony_auth'), parseApiKey(key)!)
}

async function made(request: ApiKeyRequest = READER) {
  return new ApiKeys(db).create(request)
}

/** Creates the key `twice000` with this secret. */
function createTwice(secret: string): Promise<unknown> {
  const call = `SELECT ${db.qualify('create_api_key')}('twice000', sha256($1::bytea), ARRAY['read'], 'a')`
  return db.as('symphony_control').query(call, [Buffer.from(secret)])
}

describe('the text of an API key', () => {
  test('has a unique id and a 256-bit secret that parseApiKey parses', () => {
    const keys = Array.from({ length: 1_000 }, newApiKey)
    expect(new Set(keys.map(({ keyId }) => keyId)).size).toBe(1_000)
    for (const { key, keyId, secretHash } of keys) {
      expect(key).toMatch(/^symphony_[a-z0-9]{16}_[A-Za-z0-9_-]{43}$/)
      expect(parseApiKey(key)).toEqual({ keyId, secretHash })
    }
  })

  test.each([
    '',
    'symphony_',
    'symphony_abcdefgh_',
    `symphony_abcdefgh_${'x'.repeat(42)}`,
    `x${newApiKey().key}`,
    `${newApiKey().key} `,
  ])('is invalid if it is %j (parseApiKey returns undefined)', (text) => {
    expect(parseApiKey(text)).toBeUndefined()
  })
})

describe('an API key', () => {
  test('authenticates only by its secret, and returns its scopes, owner, participants and expiry', async () => {
    const expiresAt = new Date('2099-01-01T00:00:00Z')
    const { key } = await made({
      scopes: ['ingest', 'audit'],
      owner: 'shop',
      participants: ['acme', 'bolt'],
      expiresAt,
    })
    expect(await shown(key)).toEqual({
      status: 'ACTIVE',
      scopes: ['ingest', 'audit'],
      owner: 'shop',
      participants: ['acme', 'bolt'],
      expiresAt,
    })
    const another = newApiKey().key.split('_').slice(2).join('_')
    expect(await shown(`symphony_${key.split('_')[1]}_${another}`)).toBeUndefined()
    expect(await shown(newApiKey().key)).toBeUndefined()
  })

  test('is stored as a hash; its row does not contain the secret', async () => {
    const { key, keyId } = await made()
    const secret = key.split('_').slice(2).join('_')
    const { rows } = await db.queryNoRole('SELECT k::text AS text FROM api_keys k WHERE key_id = $1', [keyId])
    expect(String(rows[0]!['text'])).not.toContain(secret)
    expect(String(rows[0]!['text'])).toContain(parseApiKey(key)!.secretHash.toString('hex'))
  })

  test('can be revoked once; the list names the revoking login; an unknown id is refused (22023)', async () => {
    const { key, keyId } = await made()
    expect(await new ApiKeys(db).revoke({ keyId })).toBe(true)
    expect(await new ApiKeys(db).revoke({ keyId })).toBe(false)
    expect(await shown(key)).toMatchObject({ status: 'REVOKED' })
    const kept = (await new ApiKeys(db).list()).find((one) => one.keyId === keyId)
    expect(kept).toMatchObject({ status: 'REVOKED', revokedBy: 'symphony_test_login', revokedAt: expect.any(Date) })
    expect(await failureOf(new ApiKeys(db).revoke({ keyId: 'nosuchkey' }))).toMatchObject({ sqlstate: '22023' })
  })

  test('expires by the database clock', async () => {
    const { key, keyId } = await made({ ...READER, expiresAt: new Date('2099-01-01T00:00:00Z') })
    await db.queryNoRole(`UPDATE api_keys SET expires_at = clock_timestamp() - interval '1 second' WHERE key_id = $1`, [
      keyId,
    ])
    expect(await shown(key)).toMatchObject({ status: 'EXPIRED' })
    const kept = (await new ApiKeys(db).list()).find((one) => one.keyId === keyId)
    // An expired key is not recorded as used.
    expect(kept).toMatchObject({ status: 'EXPIRED', lastUsedAt: null })
  })

  test('records its last use as a whole hour and writes it at most once an hour', async () => {
    const { key, keyId } = await made()
    const versionOf = async () =>
      (await db.queryNoRole('SELECT xmin::text AS v FROM api_keys WHERE key_id = $1', [keyId])).rows[0]!['v']
    await shown(key)
    const first = await versionOf()
    await shown(key)
    expect(await versionOf()).toBe(first)
    const { rows } = await db.queryNoRole(
      `SELECT last_used_at = date_trunc('hour', last_used_at, 'UTC') AS whole, last_used_at > now() - interval '2 hours' AS recent
       FROM api_keys WHERE key_id = $1`,
      [keyId],
    )
    expect(rows).toEqual([{ whole: true, recent: true }])
  })

  test('authenticates while another transaction locks its row', async () => {
    const { key, keyId } = await made()
    const other = await db.connect()
    await other.query('BEGIN')
    await other.query('SELECT 1 FROM api_keys WHERE key_id = $1 FOR UPDATE', [keyId])
    expect(await shown(key)).toMatchObject({ status: 'ACTIVE' })
    await other.query('ROLLBACK')
  })

  test('is listed by ApiKeys.list without its hash, the newest key first', async () => {
    const { keyId } = await made()
    const listed = await new ApiKeys({ as: () => db.as('symphony_auditor') }).list()
    expect(listed[0]).toEqual({
      keyId,
      status: 'ACTIVE',
      scopes: ['read'],
      owner: 'alice',
      participants: null,
      createdBy: 'symphony_test_login',
      createdAt: expect.any(Date),
      expiresAt: null,
      revokedAt: null,
      revokedBy: null,
      lastUsedAt: null,
    })
  })

  test('is refused on creation if its id exists already (22023)', async () => {
    await createTwice('one')
    expect(await failureOf(createTwice('two'))).toMatchObject({ sqlstate: '22023' })
  })
})

describe('when an API key is created', () => {
  test('a login may choose only scopes whose roles it holds (42501)', async () => {
    const operator = await db.createLogin('operator', { roles: ['symphony_control', 'symphony_readonly'] })
    const keys = new ApiKeys(operator.database)
    expect(await keys.create(READER)).toMatchObject({ keyId: expect.any(String) })
    for (const scope of ['ingest', 'audit'] as const) {
      expect(await failureOf(keys.create({ scopes: ['read', scope], owner: 'x' }))).toMatchObject({
        sqlstate: '42501',
        message: expect.stringContaining(`a key of scope ${scope}`),
      })
    }
  })

  test('an operator may create a key of scope operate only for the operator’s own login (42501)', async () => {
    const operator = await db.createLogin('solo', { roles: ['symphony_control'] })
    const keys = new ApiKeys(operator.database)
    expect(await keys.create({ scopes: ['operate'], owner: operator.name })).toBeDefined()
    for (const owner of ['another-person', operator.name.toUpperCase()]) {
      expect(await failureOf(keys.create({ scopes: ['operate'], owner }))).toMatchObject({
        sqlstate: '42501',
        message: expect.stringContaining('only for themselves'),
      })
    }
  })

  test('an administrator may choose any scope and any owner', async () => {
    const asAdministrator = new ApiKeys({ as: () => ({ schema: db.schema, query: db.queryNoRole.bind(db) }) })
    const scopes = ['ingest', 'read', 'audit', 'operate'] as const
    expect(await asAdministrator.create({ scopes, owner: 'bob' })).toBeDefined()
  })
})

describe('ApiKeys.create', () => {
  test.each<[string, Partial<Record<keyof ApiKeyRequest, unknown>>, string]>([
    ['no scope', { scopes: [] }, 'scopes'],
    ['a scope twice', { scopes: ['read', 'read'] }, 'scopes'],
    ['an unknown scope', { scopes: ['root'] }, 'scopes'],
    ['an owner with a space at its end', { owner: 'alice ' }, 'owner'],
    ['a blank owner', { owner: ' ' }, 'owner'],
    ['an owner of 201 characters', { owner: 'x'.repeat(201) }, 'owner'],
    ['an empty list of participants', { participants: [] }, 'participants'],
    ['101 participants', { participants: Array.from({ length: 101 }, (_, index) => `p${index}`) }, 'participants'],
    ['a participant with a space', { participants: ['a b'] }, 'participants[0]'],
    ['an invalid expiry date', { expiresAt: new Date('never') }, 'expiresAt'],
  ])('refuses %s before any I/O', async (_, change, argument) => {
    const unreachable = new ApiKeys({ as: () => ({ query: () => Promise.reject(new Error('asked the database')) }) })
    const request: ApiKeyRequest = { ...READER, ...JSON.parse('{}'), ...change }
    expect(await failureOf(unreachable.create(request))).toMatchObject({ argument })
  })
})

/** Returns the actors in the events of an item. */
const actors = async (outboxId: string) =>
  (await readItemEvents(db.as('symphony_readonly'), outboxId)).map(({ actor }) => actor)
const keyOf = async (request: ApiKeyRequest) => ({ apiKey: parseApiKey((await createKey(db, request)).key)! })

describe('an actor gateway', () => {
  let logins = 0
  const gatewayLogin = async (namesPeople: boolean) => {
    logins += 1
    const { name, database } = await db.createLogin(`gateway_${logins}`, { roles: ['symphony_control'] })
    await db.queryNoRole('SELECT set_actor_gateway($1, $2)', [name, namesPeople])
    return { name, control: database.as('symphony_control') }
  }
  test('acts as the owner of the API key that it presents; any other login acts as itself', async () => {
    const carol = await keyOf({ scopes: ['operate'], owner: 'carol' })
    const { database, name: login } = await db.createLogin('plain', { roles: ['symphony_control'] })
    const { outboxId } = await enqueue(db)
    await placeOutboxHold(withActor(database.as('symphony_control'), carol), outboxId, 'odd')
    expect(await actors(outboxId)).toEqual([login])

    const { control } = await gatewayLogin(false)
    const second = await enqueue(db)
    await placeOutboxHold(withActor(control, carol), second.outboxId, 'odd')
    expect(await actors(second.outboxId)).toEqual(['carol'])
    const { runId } = await triggerJob(withActor(control, carol), await createJob(db))
    const runs = await db.queryNoRole('SELECT triggered_by FROM scheduler_job_runs WHERE run_id = $1', [runId])
    expect(runs.rows).toEqual([{ triggered_by: 'carol' }])
  })

  test('is recorded as PERSON via LOGIN if it names a person and presents no API key', async () => {
    const { control, name } = await gatewayLogin(true)
    const { outboxId } = await enqueue(db)
    await placeOutboxHold(withActor(control, { person: 'carol' }), outboxId, 'odd')
    expect(await actors(outboxId)).toEqual([`carol via ${name}`])
    const { runId } = await triggerJob(withActor(control, { person: 'carol' }), await createJob(db))
    const runs = await db.queryNoRole('SELECT triggered_by FROM scheduler_job_runs WHERE run_id = $1', [runId])
    expect(runs.rows).toEqual([{ triggered_by: `carol via ${name}` }])
  })

  test('acts as the owner of a presented key, even if it names another person', async () => {
    const { control } = await gatewayLogin(true)
    const { keyId, key } = await createKey(db, { scopes: ['operate'], owner: 'carol' })
    const { outboxId } = await enqueue(db)
    await control.transaction(async (tx) => {
      const value = `${keyId}:${parseApiKey(key)!.secretHash.toString('hex')}`
      await tx.query(`SELECT set_config('symphony.actor', 'bob', true), set_config('symphony.api_key', $1, true)`, [
        value,
      ])
      await placeOutboxHold({ schema: db.schema, query: (text, values) => tx.query(text, values) }, outboxId, 'odd')
    })
    expect(await actors(outboxId)).toEqual(['carol'])
  })

  test('cannot create a key of scope operate, whether it acts by key or by name (42501)', async () => {
    const { control, name } = await gatewayLogin(true)
    const carol = await keyOf({ scopes: ['operate'], owner: 'carol' })
    for (const actor of [carol, { person: 'carol' }]) {
      const making = new ApiKeys({ as: () => withActor(control, actor) }).create({ scopes: ['operate'], owner: name })
      expect(await failureOf(making)).toMatchObject({
        sqlstate: '42501',
        message: expect.stringContaining(`the gateway ${name} may not create one`),
      })
    }
  })

  test('has isActorGateway("keys") true, and isActorGateway("names") only if it may name people', async () => {
    const { control } = await gatewayLogin(false)
    expect([await isActorGateway(control, 'keys'), await isActorGateway(control, 'names')]).toEqual([true, false])
    const naming = await gatewayLogin(true)
    expect(await isActorGateway(naming.control, 'names')).toBe(true)
    const plain = db.as('symphony_control')
    expect([await isActorGateway(plain, 'keys'), await isActorGateway(plain, 'names')]).toEqual([false, false])
  })

  test('cannot act with a key that is unknown, revoked, expired or without operate (P7016)', async () => {
    const { control } = await gatewayLogin(true)
    const revoked = await keyOf({ scopes: ['operate'], owner: 'carol' })
    await new ApiKeys(db).revoke(revoked.apiKey)
    const expired = await keyOf({ scopes: ['operate'], owner: 'carol' })
    await db.queryNoRole(`UPDATE api_keys SET expires_at = clock_timestamp() WHERE key_id = $1`, [expired.apiKey.keyId])
    const reader = await keyOf({ scopes: ['read', 'audit'], owner: 'carol' })
    const good = await keyOf({ scopes: ['operate'], owner: 'carol' })
    const forged = { apiKey: { ...good.apiKey, secretHash: Buffer.alloc(32) } }
    const { outboxId } = await enqueue(db)
    for (const actor of [revoked, expired, reader, forged, { apiKey: newApiKey() }]) {
      const error = await failureOf(placeOutboxHold(withActor(control, actor), outboxId, 'odd'))
      expect(error).toMatchObject({ sqlstate: 'P7016', code: 'ACTOR_UNVERIFIED' })
      expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain(
        actor.apiKey.secretHash.toString('hex'),
      )
    }
    expect(await actors(outboxId)).toEqual([])
    await placeOutboxHold(withActor(control, good), outboxId, 'odd')
  })

  test('cancels a timer with a key of scope ingest or operate, not with one of scope read (P7016)', async () => {
    const { control } = await gatewayLogin(false)
    for (const scope of ['ingest', 'operate'] as const) {
      const carol = await keyOf({ scopes: [scope], owner: 'carol' })
      expect(await cancelTimer(withActor(control, carol), (await createTimer(db)).timerId)).toBe(true)
    }
    const reader = await keyOf({ scopes: ['read'], owner: 'carol' })
    expect(await failureOf(cancelTimer(withActor(control, reader), (await createTimer(db)).timerId))).toMatchObject({
      sqlstate: 'P7016',
    })
  })

  test('is refused without an actor: 22023 if it may name a person, P7016 if it needs an API key', async () => {
    const naming = await gatewayLogin(true)
    const { outboxId } = await enqueue(db)
    await placeOutboxHold(withActor(naming.control, { person: 'carol' }), outboxId, 'odd')
    const second = await enqueue(db)
    expect(await failureOf(placeOutboxHold(naming.control, second.outboxId, 'odd'))).toMatchObject({
      sqlstate: '22023',
      message: expect.stringContaining('symphony.actor'),
    })
    const { control } = await gatewayLogin(false)
    const carol = await keyOf({ scopes: ['operate'], owner: 'carol' })
    await placeOutboxHold(withActor(control, carol), second.outboxId, 'odd')
    expect(await failureOf(placeOutboxHold(control, (await enqueue(db)).outboxId, 'odd'))).toMatchObject({
      sqlstate: 'P7016',
    })
  })
})

describe('a session of the dashboard', () => {
  const auth = db.as('symphony_auth')
  const control = db.as('symphony_control')
  const SIGN_IN = {
    scopes: ['read', 'operate'],
    owner: 'alice',
    participants: ['acme'],
    issuer: 'https://login.example.com',
    seconds: 28_800,
  } as const

  async function createSession(changes: Partial<typeof SIGN_IN | { readonly owner: string }> = {}) {
    const parts = newApiKey()
    return { ...parts, expiresAt: await createBrowserSession(auth, parts, { ...SIGN_IN, ...changes }) }
  }

  async function statusOf(sessionId: string) {
    return (await readBrowserSessions(control)).find((one) => one.sessionId === sessionId)
  }

  test('authenticates and signs out only with its secret, and is listed without the secret', async () => {
    const session = await createSession()
    const { issuer, seconds: _, ...granted } = SIGN_IN
    const { expiresAt } = session
    expect(await authenticateBrowserSession(auth, session)).toEqual({ status: 'ACTIVE', ...granted, issuer, expiresAt })
    expect(await statusOf(session.keyId)).toEqual({
      sessionId: session.keyId,
      status: 'ACTIVE',
      ...granted,
      issuer,
      createdBy: 'symphony_test_login',
      createdAt: expect.any(Date),
      expiresAt,
      revokedAt: null,
      revokedBy: null,
    })
    const { secretHash } = newApiKey()
    expect(await authenticateBrowserSession(auth, { keyId: session.keyId, secretHash })).toBeUndefined()
    await endBrowserSession(auth, { keyId: session.keyId, secretHash })
    expect(await authenticateBrowserSession(auth, session)).toMatchObject({ status: 'ACTIVE' })
    await endBrowserSession(auth, session)
    expect(await authenticateBrowserSession(auth, session)).toMatchObject({ status: 'REVOKED' })
    expect(await statusOf(session.keyId)).toMatchObject({ status: 'REVOKED', revokedBy: 'alice' })
  })

  test('is valid only for the login that created it', async () => {
    const session = await createSession()
    const other = (await db.createLogin('other_web', { roles: ['symphony_auth'] })).database.as('symphony_auth')
    expect(await authenticateBrowserSession(other, session)).toBeUndefined()
    await endBrowserSession(other, session)
    expect(await authenticateBrowserSession(auth, session)).toMatchObject({ status: 'ACTIVE' })
  })

  test('expires by the database clock, at most 8 hours after the sign-in', async () => {
    const session = await createSession()
    const longer = `UPDATE browser_sessions SET expires_at = expires_at + interval '1 second' WHERE session_id = $1`
    expect(await failureOf(db.queryNoRole(longer, [session.keyId]))).toMatchObject({ code: '23514' })
    await db.queryNoRole(`UPDATE browser_sessions SET expires_at = clock_timestamp() WHERE session_id = $1`, [
      session.keyId,
    ])
    expect(await authenticateBrowserSession(auth, session)).toMatchObject({ status: 'EXPIRED' })
    expect(await statusOf(session.keyId)).toMatchObject({ status: 'EXPIRED' })
  })

  test('can be revoked once; revoking an unknown id or reusing an id is refused (22023)', async () => {
    const session = await createSession()
    expect(await revokeBrowserSession(control, session.keyId)).toBe(true)
    expect(await revokeBrowserSession(control, session.keyId)).toBe(false)
    expect(await statusOf(session.keyId)).toMatchObject({ status: 'REVOKED', revokedBy: 'symphony_test_login' })
    expect(await failureOf(revokeBrowserSession(control, 'nosuchsession'))).toMatchObject({ sqlstate: '22023' })
    expect(await failureOf(createBrowserSession(auth, session, SIGN_IN))).toMatchObject({ sqlstate: '22023' })
  })

  test('is deleted at a sign-in if it is older than 30 days or its person has 100 newer sessions', async () => {
    const old = await createSession({ owner: 'bob' })
    await db.queryNoRole(
      `UPDATE browser_sessions SET created_at = created_at - interval '31 days', expires_at = expires_at - interval '31 days'
       WHERE session_id = $1`,
      [old.keyId],
    )
    const first = await createSession({ owner: 'carol' })
    expect(await statusOf(old.keyId)).toBeUndefined()
    for (let n = 1; n < 100; n += 1) await createSession({ owner: 'carol' })
    expect(await authenticateBrowserSession(auth, first)).toBeDefined()
    await createSession({ owner: 'carol' })
    expect(await authenticateBrowserSession(auth, first)).toBeUndefined()
  })
})
