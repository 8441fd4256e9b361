// Runs calls that the workers of coreProcess.mjs never make: rounds, quick shutdowns, database faults, freezes,
// decisions and reads. Each step can run alone, also after another step was killed at any point. The crash-point
// scenario starts it on an instrumented build; its argument holds addresses and the chosen step. It writes the name of
// each step to `FAILPOINT_LOG`, before the points that the step reaches.
import { randomUUID } from 'node:crypto'
import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { inspect } from 'node:util'
import { decidingSteps } from './steps/deciding.mjs'
import { deployingSteps } from './steps/deploying.mjs'
import { primitiveSteps } from './steps/primitives.mjs'
import { readingSteps } from './steps/reading.mjs'
import { relayingSteps } from './steps/relaying.mjs'

const settings = JSON.parse(process.argv[2])
const { dist, url, adminUrl, schema, bookUrl, workerId, only } = settings
const load = (module) => import(`${pathToFileURL(dist).href}/libs/${module}/index.js`)
const modules = Object.fromEntries(
  await Promise.all(
    ['core', 'db', 'ledger', 'outbox', 'rails', 'repair', 'scheduler', 'inbox', 'lease', 'deployment'].map(
      async (module) => [module, await load(module)],
    ),
  ),
)
const { default: pg } = await import('pg')
const database = modules.db.openDatabase({ url, schema })

const tools = {
  ...settings,
  ...modules,
  database,
  sleep,
  as: (role) => database.as(`symphony_${role}`),
  /** Runs SQL as superuser, with our schema first. */
  async admin(text, values) {
    const client = new pg.Client({ connectionString: adminUrl })
    await client.connect()
    try {
      await client.query(`SET search_path = "${schema}", pg_temp`)
      return (await client.query(text, values)).rows
    } finally {
      await client.end()
    }
  },
  /** Builds a payment that any worker of the scenario can finish. */
  buildPayment(overrides = {}) {
    const instructionId = randomUUID()
    return {
      instructionId,
      idempotencyKey: instructionId,
      participantId: instructionId,
      railType: 'resend',
      payload: { amount: '1.50', currency: 'EUR', destination: 'account-1' },
      ...overrides,
    }
  },
  /** Enqueues payments, and claims all due items of that rail. Returns the new payments first. */
  async claimed(count = 1, railType = 'resend') {
    const ids = []
    for (let made = 0; made < count; made += 1) {
      const { outboxId } = await modules.outbox.enqueuePaymentOutbox(
        tools.as('ingest'),
        tools.buildPayment({ railType }),
      )
      ids.push(outboxId)
    }
    const all = await modules.outbox.claimOutboxBatch(tools.as('executor'), 1000, workerId, 60, { rails: [railType] })
    return all.toSorted((one, other) => ids.indexOf(other.outboxId) - ids.indexOf(one.outboxId))
  },
  /** Returns a database whose queries fail with the error that `failing(text, values)` returns, if any. */
  faulty(failing) {
    return new Proxy(database, {
      get(target, property) {
        const value = Reflect.get(target, property, target)
        if (property !== 'as') return typeof value === 'function' ? value.bind(target) : value
        return (role) => {
          const handle = target.as(role)
          return new Proxy(handle, {
            // Hides the handle's class. The library then sends every call through `query`.
            getPrototypeOf: () => Object.prototype,
            get: (own, name) => {
              const member = Reflect.get(own, name, own)
              if (name !== 'query') return typeof member === 'function' ? member.bind(own) : member
              return async (text, values) => {
                const error = await failing(text, values)
                if (error !== undefined) throw error
                return own.query(text, values)
              }
            },
          })
        }
      },
    })
  },
  /** Returns an error for the first query that names this function, and none afterwards. */
  onceAt(functionName, disposition = 'retry') {
    let left = 1
    return (text) => {
      if (!text.includes(`"${functionName}"`) || left === 0) return undefined
      left -= 1
      return tools.planted(disposition)
    }
  },
  /** A topic whose schema accepts everything. */
  topics: { scheduled: { '~standard': { version: 1, vendor: 'steps', validate: async (value) => ({ value }) } } },
  planted: (disposition, code = 'CONNECTION_LOST') => new modules.db.DatabaseError(code, 'planted', { disposition }),
  rail(overrides = {}) {
    return {
      ...modules.rails.simulatedRail({
        bookUrl,
        latencyMs: { min: 1, max: 2 },
        timeoutMs: 300,
        type: 'resend',
        onUnknown: 'resend',
        ...overrides,
      }),
    }
  },
}

const steps = {
  ...relayingSteps(tools),
  ...decidingSteps(tools),
  ...primitiveSteps(tools),
  ...readingSteps(tools),
  ...deployingSteps(tools),
}
const failures = []
for (const [name, step] of Object.entries(steps)) {
  if (only !== undefined && only !== name) continue
  if (process.env.FAILPOINT_LOG !== undefined) appendFileSync(process.env.FAILPOINT_LOG, `step ${name}\n`)
  try {
    await step()
  } catch (error) {
    failures.push(new Error(`step ${name}`, { cause: error }))
  }
}
await database.close()
for (const failure of failures) process.stderr.write(`${inspect(failure)}\n`)
process.exit(failures.length === 0 ? 0 : 1)
