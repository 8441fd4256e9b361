// Seeds graphile-worker jobs for its migration guide: three due, one for next month, one that failed.
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const require = createRequire(join(process.env.PEERS, 'package.json'))
const { Logger, makeWorkerUtils, runOnce, runMigrations } = await import(
  pathToFileURL(require.resolve('graphile-worker')).href
)

const connectionString = process.env.DATABASE_URL
const logger = new Logger(() => () => {})
await runMigrations({ connectionString, logger })
const utils = await makeWorkerUtils({ connectionString, logger })
const add = (invoice, options) =>
  utils.addJob('pay', { invoice, customer: 'ACME', amount: '12.50', iban: 'DE89370400440532013000' }, options)

await add('INV-0')
const pay = () => {
  throw new Error('the bank did not answer')
}
await runOnce({ connectionString, logger, taskList: { pay } })
await add('INV-1')
await add('INV-2')
await add('INV-3', { runAt: new Date(Date.now() + 30 * 86_400_000) })
await add('INV-4')
await utils.release()
