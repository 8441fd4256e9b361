// Inserts an order and enqueues its payment in one Kysely transaction, so both are committed or neither.
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { fromKysely, Symphony } from 'symphony-pg'
import { deploy } from 'symphony-pg/admin'
import { startEmbedded } from '@symphony-pg/embedded'

const url = process.env.DATABASE_URL ?? (await startEmbedded({ dataDir: '.symphony' })).url
await deploy({ url })
const db = new Kysely({ dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: url }) }) })
await db.schema.createTable('orders').addColumn('id', 'text').addColumn('total', 'numeric').execute()

const symphony = new Symphony({ url, rails: [{ type: 'SEPA', destination: 'iban' }] })
const placeOrder = (id, total) =>
  db.transaction().execute(async (trx) => {
    await trx.insertInto('orders').values({ id, total }).execute()
    const payload = { amount: total, currency: 'EUR', destination: 'DE89370400440532013000' }
    const payment = { railType: 'SEPA', instructionId: id, participantId: 'supplier-7', payload }
    await symphony.enqueue(payment, { tx: fromKysely(trx) })
    if (id === 'ORD-2') throw new Error('out of stock')
  })

await placeOrder('ORD-1', '10.00')
await placeOrder('ORD-2', '20.00').catch(({ message }) => console.log(`ORD-2: ${message}`))

const orders = await db.selectFrom('orders').select('id').execute()
const { pendingCount } = await symphony.payments.status()
console.log(`orders: ${orders.map(({ id }) => id).join()}; payments waiting: ${pendingCount}`)
await symphony.close()
await db.destroy()

/* prints
ORD-2: out of stock
orders: ORD-1; payments waiting: 1
*/
