import postgres from 'postgres'
import { fromPostgresJs } from '../../../../libs/adapters/index.js'
import type { Queryable } from '../../../../libs/db/index.js'
import { testTransactions, type OpenTransaction } from './testTransactions.js'

const openTransaction = (sql: postgres.TransactionSql): OpenTransaction => ({
  tx: fromPostgresJs(sql),
  note: async (id) => {
    await sql`INSERT INTO public.note (id, text) VALUES (${id}, 'hello')`
  },
  savepoint: async (body) => {
    await sql.savepoint((inner) => body(openTransaction(inner)))
  },
})

const outsideOf = (sql: postgres.Sql): (() => Queryable | Promise<Queryable>)[] => [
  // @ts-expect-error: the type of a transaction has savepoint()
  () => fromPostgresJs(sql),
  async () => {
    const reserved = await sql.reserve()
    try {
      // @ts-expect-error: a reserved connection is no transaction
      return fromPostgresJs(reserved)
    } finally {
      reserved.release()
    }
  },
]

testTransactions('postgres.js', async (url) => {
  const sql = postgres(url, { onnotice: () => {} })
  return {
    transaction: async (body) => {
      await sql.begin((transaction) => body(openTransaction(transaction)))
    },
    outside: outsideOf(sql),
    refusesEnded: false,
    close: () => sql.end(),
  }
})

testTransactions('postgres.js that names columns in camel case and fetches no types', async (url) => {
  const sql = postgres(url, { onnotice: () => {}, transform: postgres.camel, fetch_types: false, prepare: false })
  return {
    transaction: async (body) => {
      await sql.begin((transaction) => body(openTransaction(transaction)))
    },
    outside: outsideOf(sql),
    refusesEnded: false,
    close: () => sql.end(),
  }
})
