// tenants.mjs: node tenants.mjs, in a folder where symphony-pg and @symphony-pg/embedded are installed.
import { deploy } from 'symphony-pg/admin'
import { SymphonyFleet } from 'symphony-pg/platform'

const url = process.env.DATABASE_URL ?? 'embedded:.symphony'
// Two schemas of one database stand for two tenants here.
const databases = ['north', 'south'].map((name) => ({ name, url, schema: `tenant_${name}` }))
for (const { schema } of databases) await deploy({ url, schema })

const fleet = new SymphonyFleet({ databases })
let greet
const greeting = new Promise((resolve) => (greet = resolve))
await fleet.worker({ topics: { greeting: ({ payload }) => greet(`hello from ${payload.from}`) } }).start()

await fleet.of('south').messages.enqueue({ topic: 'greeting', payload: { from: 'the south' } })
console.log(await greeting)
await fleet.close()

/* prints
hello from the south
*/
