// A Fastify plugin: the relayer starts when the server is ready and stops, with its work in hand done, when the server closes.
import fastify from 'fastify'
import { enqueue, IdempotencyConflictError, openDatabase } from 'symphony-pg'
import { deploy } from 'symphony-pg/deployment'
import { startEmbedded } from '@symphony-pg/embedded'
import { OutboxRelayer, readItems } from 'symphony-pg/outbox'
import { loadRails } from 'symphony-pg/rails'

async function symphony(app, { url, rails, onEvent }) {
  const database = openDatabase({ url })
  const relayer = new OutboxRelayer(database, loadRails(rails), {}, onEvent)
  app.decorate('payments', {
    enqueue: (instruction) => enqueue(instruction, { tx: database.as('symphony_ingest') }),
    read: (instructionId) => readItems(database.as('symphony_readonly'), { instructionId }),
  })
  app.addHook('onReady', () => relayer.start())
  app.addHook('onClose', async () => {
    await relayer.stop()
    await database.close()
  })
}
// Visible to the whole application, not only to plugins inside it.
symphony[Symbol.for('skip-override')] = true

const url = process.env.DATABASE_URL ?? (await startEmbedded({ dataDir: '.symphony' })).url
await deploy({ url })

let settle
const settled = new Promise((resolve) => (settle = resolve))
const bank = { type: 'bank', onUnknown: 'hold', dispatch: () => ({ outcome: 'success', reference: 'bank-1' }) }

const app = fastify()
await app.register(symphony, { url, rails: [bank], onEvent: ({ type }) => type === 'outbox.recorded' && settle() })
app.post('/invoices/:id/payment', async ({ params: { id }, body }, reply) => {
  const names = { instructionId: id, participantId: 'ACME', idempotencyKey: `${id}/1`, railType: 'bank' }
  try {
    const { state } = await app.payments.enqueue({ ...names, payload: body })
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
