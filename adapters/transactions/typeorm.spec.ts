import 'reflect-metadata'
import { DataSource, EntitySchema, type EntityManager } from 'typeorm'
import { fromTypeOrm } from '../../libs/adapters/index.js'
import { proveTransactions, type OpenTransaction } from './proveTransactions.js'

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

proveTransactions('TypeORM', async (url) => {
  const dataSource = await new DataSource({ type: 'postgres', url, entities: [Note] }).initialize()
  return {
    transaction: (body) => dataSource.transaction((manager) => body(openTransaction(manager))),
    close: () => dataSource.destroy(),
  }
})

proveTransactions('TypeORM by a query runner', async (url) => {
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
    close: () => dataSource.destroy(),
  }
})
