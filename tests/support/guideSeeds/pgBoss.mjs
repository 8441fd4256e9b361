// Seeds pg-boss jobs for its migration guide: three due, one for next month, one that failed.
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const require = createRequire(join(process.env.PEERS, 'package.json'))
const { PgBoss } = await import(pathToFileURL(require.resolve('pg-boss')).href)

const boss = new PgBoss({ connectionString: process.env.DATABASE_URL, supervise: false, schedule: false })
boss.on('error', (error) => {
  throw error
})
await boss.start()
await boss.createQueue('pay', { retryLimit: 5 })
const add = (invoice, options) =>
  boss.send('pay', { invoice, customer: 'ACME', amount: '12.50', iban: 'DE89370400440532013000' }, options)

await add('INV-0')
const [begun] = await boss.fetch('pay')
await boss.fail('pay', begun.id, { message: 'the bank did not answer' })
await add('INV-1')
await add('INV-2')
await add('INV-3', { startAfter: new Date(Date.now() + 30 * 86_400_000) })
await add('INV-4')
await boss.stop({ graceful: false })
