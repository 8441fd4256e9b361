import 'reflect-metadata'
import { DataSource, EntitySchema, type EntityManager } from 'typeorm'
import { fromTypeOrm } from '../../../../libs/adapters/index.js'
import type { Queryable } from '../../../../libs/db/index.js'
import { testTransactions, type OpenTransaction } from './testTransactions.js'

const Note = new EntitySchema<{ id: string; text: string }>({
  name: 'note',
  columns: { id: { type: 'text', primary: true }, text: { type: 'text' } },
})

const openTransaction = (manager: EntityManager): OpenTransaction => ({
  tx: fromTypeOrm(manager),
  note: async (id) => {
    await manager.insert(Note, { id, text: 'hello' })
  },
  savepoint: (body) => manager.transaction((inner) => body(openTransaction(inner))),
})

/** A manager has the same type inside and outside a transaction, so the compiler refuses only the data source. */
const outsideOf = (dataSource: DataSource): (() => Queryable | Promise<Queryable>)[] => [
  () => fromTypeOrm(dataSource.manager),
  // @ts-expect-error: the parameter type excludes `initialize`, which only a data source has
  () => fromTypeOrm(dataSource),
  async () => {
    const runner = dataSource.createQueryRunner()
    await runner.startTransaction()
    const tx = fromTypeOrm(runner)
    await runner.commitTransaction()
    try {
      await tx.query('SELECT 1')
      return tx
    } finally {
      await runner.release()
    }
  },
]

testTransactions('TypeORM', async (url) => {
  const dataSource = await new DataSource({ type: 'postgres', url, entities: [Note] }).initialize()
  return {
    transaction: (body) => dataSource.transaction((manager) => body(openTransaction(manager))),
    outside: outsideOf(dataSource),
    refusesEnded: true,
    close: () => dataSource.destroy(),
  }
})

testTransactions('TypeORM by a query runner', async (url) => {
  const dataSource = await new DataSource({ type: 'postgres', url, entities: [Note] }).initialize()
  return {
    transaction: async (body) => {
      const runner = dataSource.createQueryRunner()
      await runner.startTransaction()
      try {
        await body({ ...openTransaction(runner.manager), tx: fromTypeOrm(runner) })
        await runner.commitTransaction()
      } catch (error) {
        await runner.rollbackTransaction()
        throw error
      } finally {
        await runner.release()
      }
    },
    outside: outsideOf(dataSource),
    refusesEnded: true,
    close: () => dataSource.destroy(),
  }
})
