// An Express middleware that gives each request a transaction. `request.enqueue` adds a payment to it. The transaction
// is committed before the response is sent, and rolled back if the handler fails.
import express from 'express'
import pg from 'pg'
import { Symphony } from 'symphony-pg'
import { deploy } from 'symphony-pg/admin'
import { startEmbedded } from '@symphony-pg/embedded'

/** Runs a handler in a transaction and sends its result. */
const inTransaction = (pool, symphony, handler) => async (request, response) => {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    request.client = client
    request.enqueue = (instruction) => symphony.enqueue(instruction, { tx: client })
    const answer = await handler(request)
    // After a failed statement, PostgreSQL answers COMMIT with ROLLBACK and no error.
    const { command } = await client.query('COMMIT')
    if (command !== 'COMMIT') throw new Error('nothing was committed')
    response.status(202).json(answer)
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  } finally {
    client.release()
  }
}

const url = process.env.DATABASE_URL ?? (await startEmbedded({ dataDir: '.symphony' })).url
await deploy({ url })
const pool = new pg.Pool({ connectionString: url })
const symphony = new Symphony({ url, rails: [{ type: 'SEPA', destination: 'iban' }] })

const app = express().use(express.json())
app.post(
  '/refunds/:id',
  inTransaction(pool, symphony, async ({ params: { id }, body, enqueue }) => {
    const { state } = await enqueue({ railType: 'SEPA', instructionId: id, participantId: 'shop', payload: body })
    if (body.amount === '13.00') throw new Error('thirteen is refused, after the payment was enqueued')
    return { id, state }
  }),
)
app.use((error, _request, response, _next) => response.status(422).json({ error: error.message }))
const server = app.listen(0, '127.0.0.1')
await new Promise((resolve) => server.once('listening', resolve))

const refund = async (id, amount) => {
  const body = JSON.stringify({ amount, currency: 'EUR', destination: 'DE89370400440532013000' })
  const headers = { 'content-type': 'application/json' }
  const address = `http://127.0.0.1:${server.address().port}/refunds/${id}`
  const answer = await fetch(address, { method: 'POST', headers, body })
  console.log(answer.status, await answer.text())
}
await refund('R-1', '12.00')
await refund('R-2', '13.00')

const { pendingCount } = await symphony.payments.status()
console.log(`payments waiting: ${pendingCount}`)
await symphony.close()
server.close()
await pool.end()

/* prints
202 {"id":"R-1","state":"PENDING"}
422 {"error":"thirteen is refused, after the payment was enqueued"}
payments waiting: 1
*/
