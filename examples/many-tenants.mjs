// tenants.mjs: node tenants.mjs, in a folder where symphony-pg is installed.
import { deploy } from 'symphony-pg/deployment'
import { startEmbedded } from '@symphony-pg/embedded'
import { OutboxRelayer } from 'symphony-pg/outbox'
import { addPostgresPlatform, OutboxStoreProvider, PlatformServices, toFleetWorker } from 'symphony-pg/platform'
import { loadRails } from 'symphony-pg/rails'
import { topicRails } from 'symphony-pg'

const url = process.env.DATABASE_URL ?? (await startEmbedded({ dataDir: '.symphony' })).url
// Two schemas of one database stand for two tenants here.
const databases = ['north', 'south'].map((name) => ({ name, url, schema: `tenant_${name}` }))
for (const { schema } of databases) await deploy({ url, schema })

const services = new PlatformServices()
const platform = addPostgresPlatform(services, { databases })
await platform.start()

const stores = services.resolve(OutboxStoreProvider)
let greet
const greeting = new Promise((resolve) => (greet = resolve))
const rails = loadRails(topicRails({ greeting: ({ payload }) => greet(`hello from ${payload.from}`) }))
await platform.serve(({ database }, { leaseSeconds }) => [
  toFleetWorker(
    'relayer',
    new OutboxRelayer(database, rails, { leaseSeconds, listen: false }),
    ({ claimed }) => claimed > 0,
  ),
])

await stores.of('south').enqueue({ topic: 'greeting', payload: { from: 'the south' } })
console.log(await greeting)
await platform.stop()

/* prints
hello from the south
*/
