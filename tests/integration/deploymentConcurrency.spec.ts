import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { afterEach, describe, expect, test } from 'vitest'
import { deploy, doctor } from '../../libs/deployment/index.js'
import { createTestDatabase, withTestDatabase, type TestDatabase } from '../support/database.js'
import { startPrivateServer } from '../support/server.js'

const open: TestDatabase[] = []
afterEach(async () => {
  for (const db of open.splice(0)) await db.drop()
})

async function database(content: 'deployed' | 'empty'): Promise<TestDatabase> {
  const db = await createTestDatabase({ content, countBranches: false })
  open.push(db)
  return db
}

function urlOf(serverUrl: string, name: string): string {
  return serverUrl.replace(/\/postgres$/, `/${name}`)
}

async function deploymentCount(db: TestDatabase): Promise<unknown> {
  const { rows } = await db.queryNoRole('SELECT count(DISTINCT deployment_no)::int AS count FROM symphony_deployments')
  return rows[0]!['count']
}

describe('PRIM-POSTGRES-SCHEMA-001 concurrent deployers', () => {
  test('record one deployment if three of them start in an empty database', async () => {
    const db = await database('empty')
    const reports = await Promise.all(Array.from({ length: 3 }, () => deploy({ url: db.url, schema: db.schema })))
    expect(reports.filter(({ outcome }) => outcome === 'deployed')).toHaveLength(1)
    expect(await deploymentCount(db)).toBe(1)
    expect(await doctor({ url: db.url, schema: db.schema })).toMatchObject({ ok: true })
  })

  test('record one deployment each if three of them run with reapply', async () => {
    const db = await database('deployed')
    const options = { url: db.url, schema: db.schema, reapply: true }
    await Promise.all(Array.from({ length: 3 }, () => deploy(options)))
    expect(await deploymentCount(db)).toBe(4)
    expect(await doctor({ url: db.url, schema: db.schema })).toMatchObject({ ok: true })
  })

  test('create a login once if three of them create the same one', async () => {
    const server = await startPrivateServer({ settings: { fsync: 'off' } })
    try {
      await deploy({ url: server.url })
      const createLogins = [{ name: 'clerk', roles: ['control'] }] as const
      const deployments = Array.from({ length: 3 }, () => deploy({ url: server.url, createLogins }))
      const logins = (await Promise.all(deployments)).flatMap((report) => report.logins)
      expect(logins.filter(({ created }) => created)).toHaveLength(1)
      expect(logins.filter(({ password }) => password !== undefined)).toHaveLength(1)
    } finally {
      await server.remove()
    }
  })

  test.each(['superuser', 'login with CREATEROLE'])(
    'succeed as a %s in three databases of one server that has no Symphony roles yet',
    async (who) => {
      const server = await startPrivateServer({ settings: { fsync: 'off' } })
      try {
        const superuser = new Client(server.url)
        await superuser.connect()
        await superuser.query(`CREATE ROLE deployer LOGIN CREATEROLE PASSWORD 'test'`)
        const names = ['one', 'two', 'three']
        for (const name of names) await superuser.query(`CREATE DATABASE ${name} OWNER deployer TEMPLATE template0`)
        await superuser.end()
        const target = who === 'superuser' ? server.url : server.url.replace(/\/\/[^@]*@/, '//deployer:test@')
        const reports = await Promise.all(names.map((name) => deploy({ url: urlOf(target, name) })))
        expect(reports.map(({ outcome }) => outcome)).toEqual(names.map(() => 'deployed'))
        for (const name of names) expect(await doctor({ url: urlOf(server.url, name) })).toMatchObject({ ok: true })
      } finally {
        await server.remove()
      }
    },
  )
})

describe('a deployment behind a long transaction', () => {
  test('delays each enqueue by less than 2 s while it waits, and then succeeds', async () => {
    const db = await database('deployed')
    const reader = await db.connect()
    await reader.query(
      'BEGIN; INSERT INTO outbox_workers VALUES ($$w$$, now(), now(), $${}$$); SELECT * FROM payment_outbox_pending',
    )
    const writer = await db.connect()
    const blocked = deploy({ url: db.url, schema: db.schema, reapply: true })
    // A waiting ALTER blocks every later statement on its table, so the deployment must give up its lock request after
    // a short wait.
    let longestMs = 0
    for (let n = 0; n < 20; n += 1) {
      const before = performance.now()
      await writer.query(`SELECT enqueue_payment_outbox($1, 'p', 'k', 'rail', '{}')`, [`i${n}`])
      longestMs = Math.max(longestMs, performance.now() - before)
      await sleep(100)
    }
    await reader.query('COMMIT')
    expect(await blocked).toMatchObject({ outcome: 'deployed' })
    expect(longestMs).toBeLessThan(2_000)
  })

  test('fails after patienceMs (DEPLOYMENT_BLOCKED) and changes nothing', async () => {
    const db = await database('deployed')
    const reader = await db.connect()
    await reader.query('BEGIN; LOCK TABLE payment_outbox_pending IN ROW EXCLUSIVE MODE')
    await expect(deploy({ url: db.url, schema: db.schema, reapply: true, patienceMs: 0 })).rejects.toMatchObject({
      code: 'DEPLOYMENT_BLOCKED',
      remedy: expect.stringContaining('pg_stat_activity'),
    })
    await reader.query('ROLLBACK')
    expect(await deploymentCount(db)).toBe(1)
  })
})

describe('a deployment while workers run', () => {
  test('causes no error in an enqueue, claim or completion, and loses no item', async () => {
    await withTestDatabase(
      async (db) => {
        const deployments = new AbortController()
        const dispatched: string[] = []
        const work = async (worker: string): Promise<void> => {
          const client = await db.connect()
          for (let n = 0; !deployments.signal.aborted; n += 1) {
            await client.query(`SELECT enqueue_payment_outbox($1, 'p', 'k', 'rail', '{}')`, [`${worker}-${n}`])
            const { rows } = await client.query('SELECT * FROM claim_outbox_batch(5, $1, 60)', [worker])
            for (const { outbox_id: id, lease_token: token } of rows) {
              await client.query(
                `SELECT complete_outbox_attempt($1, $2, $3, 'DISPATCHED', 'r', NULL, NULL, NULL, 1, NULL)`,
                [id, token, worker],
              )
              dispatched.push(id)
            }
          }
        }
        const deployRepeatedly = async (): Promise<void> => {
          for (let n = 0; n < 2; n += 1) await deploy({ url: db.url, schema: db.schema, reapply: true })
          deployments.abort()
        }
        await Promise.all([deployRepeatedly(), ...['a', 'b', 'c'].map(work)])
        const { rows } = await db.queryNoRole(
          `SELECT (SELECT count(*)::int FROM payment_outbox_attempts) AS attempts,
             (SELECT count(*)::int FROM payment_outbox_identities) AS items, (SELECT count(*)::int FROM payment_outbox_pending) AS pending`,
        )
        expect(rows[0]!['attempts']).toBe(dispatched.length)
        expect(Number(rows[0]!['items'])).toBe(dispatched.length + Number(rows[0]!['pending']))
        expect(dispatched.length).toBeGreaterThan(10)
        expect(await doctor({ url: db.url, schema: db.schema, full: true })).toMatchObject({ ok: true })
      },
      { countBranches: false },
    )
  })
})
