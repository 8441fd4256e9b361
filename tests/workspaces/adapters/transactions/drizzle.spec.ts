import { sql } from 'drizzle-orm'
import { drizzle as drizzleNodePostgres } from 'drizzle-orm/node-postgres'
import { pgTable, text } from 'drizzle-orm/pg-core'
import { drizzle as drizzlePostgresJs } from 'drizzle-orm/postgres-js'
import { Pool } from 'pg'
import postgres from 'postgres'
import { fromDrizzle } from '../../../../libs/adapters/index.js'
import { testTransactions, type OpenTransaction } from './testTransactions.js'

const notes = pgTable('note', { id: text('id').primaryKey(), text: text('text').notNull() })

type NodePostgres = ReturnType<typeof drizzleNodePostgres>
type PostgresJs = ReturnType<typeof drizzlePostgresJs>
type DrizzleTransaction =
  | Parameters<Parameters<NodePostgres['transaction']>[0]>[0]
  | Parameters<Parameters<PostgresJs['transaction']>[0]>[0]

const openTransaction = (tx: DrizzleTransaction): OpenTransaction => ({
  tx: fromDrizzle(tx, sql),
  note: async (id) => {
    await tx.insert(notes).values({ id, text: 'hello' })
  },
  savepoint: (body) => tx.transaction((inner) => body(openTransaction(inner))),
})

testTransactions('Drizzle over node-postgres', async (url) => {
  const pool = new Pool({ connectionString: url })
  const db = drizzleNodePostgres(pool)
  return {
    transaction: (body) => db.transaction((tx) => body(openTransaction(tx))),
    // @ts-expect-error: the type of a transaction has rollback()
    outside: [() => fromDrizzle(db, sql)],
    refusesEnded: false,
    close: () => pool.end(),
  }
})

testTransactions('Drizzle over postgres.js', async (url) => {
  const client = postgres(url, { onnotice: () => {} })
  const db = drizzlePostgresJs(client)
  return {
    transaction: (body) => db.transaction((tx) => body(openTransaction(tx))),
    // @ts-expect-error: the type of a transaction has rollback()
    outside: [() => fromDrizzle(db, sql)],
    refusesEnded: false,
    close: () => client.end(),
  }
})
