import { afterAll, beforeAll, expect, test } from 'vitest'
import { openLoginDatabase, TransactionAbortedError, type LoginDatabase } from '../../libs/db/index.js'
import { DbFixture } from '../support/dbFixture.js'

let fixture: DbFixture
let login: LoginDatabase

beforeAll(async () => {
  fixture = await DbFixture.set()
  await fixture.admin.query(`
    CREATE TABLE symphony.entry (n int PRIMARY KEY);
    GRANT USAGE ON SCHEMA symphony TO ${fixture.login};
    GRANT SELECT, INSERT ON symphony.entry TO ${fixture.login}`)
  login = openLoginDatabase({ url: fixture.url(), statementTimeoutMs: 4_321 })
})
afterAll(async () => {
  await login.close()
  await fixture.close()
})

const COUNT = 'SELECT pg_catalog.count(*) AS count FROM symphony.entry'

test('a login transaction runs in the login role, with settings for this transaction only', async () => {
  const { rows } = await login.transaction('READ WRITE', (tx) =>
    tx.query(`SELECT current_user AS role, pg_catalog.current_setting('statement_timeout') AS timeout`),
  )
  expect(rows).toEqual([{ role: fixture.login, timeout: '4321ms' }])
  let after: unknown
  const escaping = login.transaction('READ WRITE', async (tx) => {
    after = (await tx.query(`COMMIT; SELECT pg_catalog.current_setting('statement_timeout') AS timeout`)).rows
  })
  await expect(escaping).rejects.toMatchObject({ code: 'TRANSACTION_ENDED_INSIDE' })
  expect(after).toEqual([{ timeout: '0' }])
})

test('a login transaction rolls back a script of several statements as a whole', async () => {
  const script = 'INSERT INTO symphony.entry VALUES (1); INSERT INTO symphony.entry VALUES (2); SELECT 1 / 0'
  await expect(login.transaction('READ WRITE', (tx) => tx.query(script))).rejects.toMatchObject({ sqlstate: '22012' })
  const { rows } = await login.transaction('READ ONLY', (tx) => tx.query(COUNT))
  expect(rows).toEqual([{ count: 0n }])
})

test('a READ ONLY login transaction refuses writes (25006) and reads one snapshot', async () => {
  const write = login.transaction('READ ONLY', (tx) => tx.query('INSERT INTO symphony.entry VALUES (9)'))
  await expect(write).rejects.toMatchObject({ sqlstate: '25006' })
  await login.transaction('READ ONLY', async (tx) => {
    const before = await tx.query(COUNT)
    await fixture.admin.query('INSERT INTO symphony.entry VALUES (5)')
    expect(await tx.query(COUNT)).toEqual(before)
  })
})

test('a login transaction throws TransactionAbortedError if COMMIT is answered with ROLLBACK', async () => {
  const swallowing = login.transaction('READ WRITE', async (tx) => {
    await tx.query('SELECT 1 / 0').catch(() => {})
  })
  await expect(swallowing).rejects.toBeInstanceOf(TransactionAbortedError)
})
