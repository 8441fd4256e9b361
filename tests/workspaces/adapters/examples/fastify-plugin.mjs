// A Fastify plugin: the worker starts when the server is ready, and finishes running calls when the server closes.
import fastify from 'fastify'
import { IdempotencyConflictError, Symphony } from 'symphony-pg'
import { deploy } from 'symphony-pg/admin'

async function symphonyPlugin(app, options) {
  const symphony = new Symphony(options)
  const worker = symphony.worker()
  app.decorate('symphony', symphony)
  app.addHook('onReady', () => worker.start())
  app.addHook('onClose', () => symphony.close())
}
// Makes the plugin visible to the whole application, not only to plugins inside it.
symphonyPlugin[Symbol.for('skip-override')] = true

const url = process.env.DATABASE_URL ?? 'embedded:.symphony'
await deploy({ url })
const bank = { type: 'bank', onUnknown: 'hold', dispatch: () => ({ outcome: 'success', reference: 'bank-1' }) }

const app = fastify()
await app.register(symphonyPlugin, { url, rails: [bank] })
app.post('/invoices/:id/payment', async ({ params: { id }, body }, reply) => {
  const payment = { railType: 'bank', instructionId: id, participantId: 'ACME', payload: body }
  try {
    const { state } = await app.symphony.transaction((tx) => app.symphony.enqueue(payment, { tx }))
    return reply.code(202).send({ state })
  } catch (error) {
    if (error instanceof IdempotencyConflictError) return reply.code(409).send({ error: 'already paid otherwise' })
    throw error
  }
})
const address = await app.listen({ port: 0, host: '127.0.0.1' })

const pay = async (amount) => {
  const body = JSON.stringify({ amount, currency: 'EUR', destination: 'DE89370400440532013000' })
  const headers = { 'content-type': 'application/json' }
  const answer = await fetch(`${address}/invoices/INV-1/payment`, { method: 'POST', headers, body })
  console.log(answer.status, await answer.text())
}
const settled = app.symphony.events.once('outbox.recorded')
await pay('12.50')
await settled
await pay('12.50')
await pay('99.00')
await app.close()

/* prints
202 {"state":"PENDING"}
202 {"state":"DISPATCHED"}
409 {"error":"already paid otherwise"}
*/
