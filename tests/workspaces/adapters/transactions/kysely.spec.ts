import { CamelCasePlugin, Kysely, PostgresDialect, type ControlledTransaction } from 'kysely'
import { Pool } from 'pg'
import { fromKysely } from '../../../../libs/adapters/index.js'
import { testTransactions, type Library, type OpenTransaction } from './testTransactions.js'

interface Tables {
  note: { id: string; text: string }
}

type Transaction = ControlledTransaction<Tables, string[]>

/** Wraps a controlled transaction. Other transactions of Kysely have no savepoints. */
const openTransaction = (trx: Transaction): OpenTransaction => ({
  tx: fromKysely(trx),
  note: async (id) => {
    await trx.insertInto('note').values({ id, text: 'hello' }).execute()
  },
  savepoint: async (body) => {
    const inner = await trx.savepoint('inner').execute()
    try {
      await body(openTransaction(inner))
    } catch (error) {
      await inner.rollbackToSavepoint('inner').execute()
      throw error
    }
  },
})

function library(db: Kysely<Tables>): Library {
  return {
    transaction: async (body) => {
      const trx = await db.startTransaction().execute()
      try {
        await body(openTransaction(trx))
        await trx.commit().execute()
      } catch (error) {
        await trx.rollback().execute()
        throw error
      }
    },
    outside: [
      // @ts-expect-error: isTransaction is true in the type of a transaction, and boolean here
      () => fromKysely(db),
      // @ts-expect-error: a reserved connection is no transaction
      () => db.connection().execute(async (connection) => fromKysely(connection)),
    ],
    refusesEnded: true,
    close: () => db.destroy(),
  }
}

const dialectOf = (url: string) => new PostgresDialect({ pool: new Pool({ connectionString: url }) })

testTransactions('Kysely', async (url) => library(new Kysely({ dialect: dialectOf(url) })))

testTransactions('Kysely with the plugin for camel case', async (url) =>
  library(new Kysely({ dialect: dialectOf(url), plugins: [new CamelCasePlugin()] })),
)
