import { PrismaPg } from '@prisma/adapter-pg'
import { PrismaClient, type Prisma } from 'prisma-notes'
import { fromPrisma } from '../../../../libs/adapters/index.js'
import { testTransactions, type OpenTransaction } from './testTransactions.js'

/** Prisma has no savepoints, so these tests send SAVEPOINT and ROLLBACK TO themselves. */
const openTransaction = (client: Prisma.TransactionClient): OpenTransaction => ({
  tx: fromPrisma(client),
  note: async (id) => {
    await client.note.create({ data: { id, text: 'hello' } })
  },
  savepoint: async (body) => {
    await client.$executeRawUnsafe('SAVEPOINT inner_part')
    try {
      await body(openTransaction(client))
    } catch (error) {
      await client.$executeRawUnsafe('ROLLBACK TO SAVEPOINT inner_part')
      throw error
    }
  },
})

testTransactions('Prisma', async (url) => {
  const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: url }) })
  return {
    transaction: (body) => prisma.$transaction((client) => body(openTransaction(client)), { timeout: 60_000 }),
    // @ts-expect-error: the type of a transaction has no $connect()
    outside: [() => fromPrisma(prisma)],
    refusesEnded: true,
    close: () => prisma.$disconnect(),
  }
})
