import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  RoleError,
  TransactionAbortedError,
  TransactionClosedError,
  TransactionBusyError,
  type Database,
  type Transaction,
} from '../../libs/db/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { DbFixture } from '../support/dbFixture.js'

/** Tests of `tx.asRole`: one transaction with the rights of two roles. */

const fixture = closeAfterAll(await DbFixture.set())

beforeAll(async () => {
  await fixture.admin.query(`
    CREATE TABLE symphony.mine (n int);
    CREATE TABLE symphony.theirs (n int);
    GRANT SELECT, INSERT ON symphony.mine TO ${fixture.worker};
    GRANT SELECT, INSERT ON symphony.theirs TO ${fixture.reader}`)
})
beforeEach(() => fixture.admin.query('TRUNCATE symphony.mine, symphony.theirs'))

const MINE = 'INSERT INTO symphony.mine (n) VALUES ($1)'
const THEIRS = 'INSERT INTO symphony.theirs (n) VALUES ($1)'

async function entries(): Promise<{ mine: number[]; theirs: number[] }> {
  return { mine: await numbersIn('mine'), theirs: await numbersIn('theirs') }
}

async function numbersIn(table: string): Promise<number[]> {
  const { rows } = await fixture.admin.query<{ n: number }>(`SELECT n FROM symphony.${table} ORDER BY n`)
  return rows.map(({ n }) => n)
}

const roleIn = async (tx: Transaction) =>
  (await tx.query<{ role: string }>('SELECT current_user AS role')).rows[0]!.role

describe.for(['none', 'transaction'] as const)('asRole with pooler %s', (pooler) => {
  let database: Database
  beforeAll(() => {
    database = fixture.open({ pooler, connectionsMax: 1 })
  })

  test('runs its callback in another role, inside the same transaction', async () => {
    const result = await database.transactionAsRole(fixture.worker, async (tx) => {
      await tx.query(MINE, [1])
      const role = await tx.asRole(fixture.reader, async (theirs) => {
        await theirs.query(THEIRS, [2])
        return roleIn(theirs)
      })
      await tx.query(MINE, [3])
      return [role, await roleIn(tx)]
    })
    expect(result).toEqual([fixture.reader, fixture.worker])
    expect(await entries()).toEqual({ mine: [1, 3], theirs: [2] })
  })

  test('lets neither the outer role nor the callback’s role use the other’s rights (42501)', async () => {
    const theirsAsMine = database.transactionAsRole(fixture.worker, async (tx) => {
      await tx.asRole(fixture.reader, async () => {})
      await tx.query(THEIRS, [1])
    })
    await expect(theirsAsMine).rejects.toMatchObject({ sqlstate: '42501' })
    const mineAsTheirs = database.transactionAsRole(fixture.worker, (tx) =>
      tx.asRole(fixture.reader, (theirs) => theirs.query(MINE, [1])),
    )
    await expect(mineAsTheirs).rejects.toMatchObject({ sqlstate: '42501' })
    expect(await entries()).toEqual({ mine: [], theirs: [] })
  })

  test('restores the outer role whatever the callback changed', async () => {
    await database.transactionAsRole(fixture.worker, async (tx) => {
      await tx.asRole(fixture.reader, (theirs) => theirs.query('RESET ROLE'))
      expect(await roleIn(tx)).toBe(fixture.worker)
      await tx.asRole(fixture.reader, (theirs) => theirs.query(`SET SESSION ROLE ${fixture.reader}`))
      expect(await roleIn(tx)).toBe(fixture.worker)
    })
    expect((await database.queryAsRole(fixture.worker, 'SELECT current_user AS role')).rows).toEqual([
      { role: fixture.worker },
    ])
  })

  test('rolls back a callback that throws, and the transaction continues in its own role', async () => {
    await database.transactionAsRole(fixture.worker, async (tx) => {
      await tx.query(MINE, [1])
      const failing = tx.asRole(fixture.reader, async (theirs) => {
        await theirs.query(THEIRS, [2])
        await theirs.query('SELECT 1 / 0')
      })
      await expect(failing).rejects.toMatchObject({ sqlstate: '22012' })
      expect(await roleIn(tx)).toBe(fixture.worker)
    })
    expect(await entries()).toEqual({ mine: [1], theirs: [] })
  })

  test('throws TransactionAbortedError if the callback swallowed an error', async () => {
    const attempt = database.transactionAsRole(fixture.worker, (tx) =>
      tx.asRole(fixture.reader, async (theirs) => {
        await theirs.query(THEIRS, [2])
        await theirs.query('SELECT 1 / 0').catch(() => {})
      }),
    )
    const error = await attempt.catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(TransactionAbortedError)
    expect(error).toMatchObject({ cause: { sqlstate: '22012' } })
    expect(await entries()).toEqual({ mine: [], theirs: [] })
  })

  test.each(['COMMIT', 'ROLLBACK', 'COMMIT; BEGIN'])(
    'throws TRANSACTION_ENDED_INSIDE if the callback ends the transaction by %s',
    async (ending) => {
      const attempt = database.transactionAsRole(fixture.worker, async (tx) => {
        await tx.asRole(fixture.reader, (theirs) => theirs.query(ending))
        await tx.query(MINE, [1])
      })
      await expect(attempt).rejects.toMatchObject({ code: 'TRANSACTION_ENDED_INSIDE', disposition: 'unknown' })
      expect(await entries()).toEqual({ mine: [], theirs: [] })
    },
  )

  test('makes the outer handle busy during the callback, and then closes the inner handle', async () => {
    let kept: Transaction | undefined
    await database.transactionAsRole(fixture.worker, async (tx) => {
      await tx.asRole(fixture.reader, async (theirs) => {
        kept = theirs
        await expect(tx.query(MINE, [1])).rejects.toBeInstanceOf(TransactionBusyError)
        await expect(tx.asRole(fixture.reader, async () => {})).rejects.toBeInstanceOf(TransactionBusyError)
      })
      await expect(kept!.query(THEIRS, [1])).rejects.toBeInstanceOf(TransactionClosedError)
    })
    expect(await entries()).toEqual({ mine: [], theirs: [] })
  })

  test('throws a RoleError with the name of a forbidden or unknown role, and refuses "none"', async () => {
    for (const role of [fixture.notGranted, 'no_such_role']) {
      const attempt = database.transactionAsRole(fixture.worker, (tx) => tx.asRole(role, async () => {}))
      const error = await attempt.catch((thrown: unknown) => thrown)
      expect(error).toBeInstanceOf(RoleError)
      expect(error).toMatchObject({ role })
    }
    const none = database.transactionAsRole(fixture.worker, (tx) => tx.asRole('none', async () => {}))
    await expect(none).rejects.toMatchObject({ argument: 'role' })
  })
})
