// An order and its payment, in one transaction of Kysely: both are there, or neither.
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { enqueue, openDatabase } from 'symphony-pg'
import { fromKysely } from 'symphony-pg/adapters'
import { deploy } from 'symphony-pg/deployment'
import { startEmbedded } from '@symphony-pg/embedded'
import { readOutboxStatus } from 'symphony-pg/outbox'

const url = process.env.DATABASE_URL ?? (await startEmbedded({ dataDir: '.symphony' })).url
await deploy({ url })
const db = new Kysely({ dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: url }) }) })
await db.schema.createTable('orders').addColumn('id', 'text').addColumn('total', 'numeric').execute()

const placeOrder = (id, total) =>
  db.transaction().execute(async (trx) => {
    await trx.insertInto('orders').values({ id, total }).execute()
    const names = { instructionId: id, participantId: 'supplier-7', idempotencyKey: `${id}/1`, railType: 'SEPA' }
    const payload = { amount: total, currency: 'EUR', destination: 'DE89370400440532013000' }
    await enqueue({ ...names, payload }, { tx: fromKysely(trx) })
    if (id === 'ORD-2') throw new Error('out of stock')
  })

await placeOrder('ORD-1', '10.00')
await placeOrder('ORD-2', '20.00').catch(({ message }) => console.log(`ORD-2: ${message}`))

const orders = await db.selectFrom('orders').select('id').execute()
const database = openDatabase({ url })
const { pendingCount } = await readOutboxStatus(database.as('symphony_readonly'))
console.log(`orders: ${orders.map(({ id }) => id).join()}; payments waiting: ${pendingCount}`)
await database.close()
await db.destroy()

/* prints
ORD-2: out of stock
orders: ORD-1; payments waiting: 1
*/
