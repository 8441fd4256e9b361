import knexFactory, { type Knex } from 'knex'
import { fromKnex } from '../../../../libs/adapters/index.js'
import { testTransactions, type Library, type OpenTransaction } from './testTransactions.js'

const openTransaction = (trx: Knex.Transaction): OpenTransaction => ({
  tx: fromKnex(trx),
  note: async (id) => {
    await trx('note').withSchema('public').insert({ id, text: 'hello' })
  },
  savepoint: async (body) => {
    await trx.transaction((inner) => body(openTransaction(inner)))
  },
})

function library(knex: Knex): Library {
  return {
    transaction: async (body) => {
      await knex.transaction((trx) => body(openTransaction(trx)))
    },
    // @ts-expect-error: the type of a transaction has isCompleted()
    outside: [() => fromKnex(knex)],
    refusesEnded: true,
    close: () => knex.destroy(),
  }
}

testTransactions('Knex', async (url) => library(knexFactory({ client: 'pg', connection: url })))

/** Converts every answer like `knexSnakeCaseMappers` of Objection, raw answers included. */
const camelCased = (answer: unknown): unknown => {
  if (Array.isArray(answer)) return answer.map(camelCased)
  if (answer === null || typeof answer !== 'object' || answer instanceof Date) return answer
  const rows: unknown = Reflect.get(answer, 'rows')
  if (Array.isArray(rows)) return { ...answer, rows: rows.map(camelCased) }
  return Object.fromEntries(
    Object.entries(answer).map(([name, value]) => [
      name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
      value,
    ]),
  )
}

testTransactions('Knex with answers mapped to camel case', async (url) =>
  library(knexFactory({ client: 'pg', connection: url, postProcessResponse: camelCased })),
)
