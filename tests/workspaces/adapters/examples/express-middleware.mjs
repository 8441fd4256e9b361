// An Express middleware: each request has a transaction, and `request.enqueue` puts a payment into it. It is committed before the
// answer is sent, and rolled back if the handler fails.
import express from 'express'
import pg from 'pg'
import { enqueue, openDatabase } from 'symphony-pg'
import { deploy } from 'symphony-pg/deployment'
import { startEmbedded } from '@symphony-pg/embedded'
import { readOutboxStatus } from 'symphony-pg/outbox'

/** Runs a handler between BEGIN and COMMIT, and sends what it returns. */
const inTransaction = (pool, handler) => async (request, response) => {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    request.client = client
    request.enqueue = (instruction) => enqueue(instruction, { tx: client })
    const answer = await handler(request)
    // A transaction in which a statement failed is answered by ROLLBACK, without an error.
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

const app = express().use(express.json())
app.post(
  '/refunds/:id',
  inTransaction(pool, async ({ params: { id }, body, enqueue: enqueueHere }) => {
    const names = { instructionId: id, participantId: 'shop', idempotencyKey: `${id}/1`, railType: 'SEPA' }
    const { state } = await enqueueHere({ ...names, payload: body })
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

const database = openDatabase({ url })
const { pendingCount } = await readOutboxStatus(database.as('symphony_readonly'))
console.log(`payments waiting: ${pendingCount}`)
await database.close()
server.close()
await pool.end()

/* prints
202 {"id":"R-1","state":"PENDING"}
422 {"error":"thirteen is refused, after the payment was enqueued"}
payments waiting: 1
*/
