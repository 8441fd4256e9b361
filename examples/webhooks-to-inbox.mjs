// A bank reports credits by signed webhooks and repeats them. Each credit is booked once, in the transaction of its
// handler.
import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'
import { buffer } from 'node:stream/consumers'
import pg from 'pg'
import { Symphony } from 'symphony-pg'
import { deploy } from 'symphony-pg/admin'
import { startEmbedded } from '@symphony-pg/embedded'

const SECRET = 'only-for-this-example'
const sign = (body) => createHmac('sha256', SECRET).update(body).digest()

const url = process.env.DATABASE_URL ?? (await startEmbedded({ dataDir: '.symphony' })).url
await deploy({ url })
const client = new pg.Client(url)
await client.connect()
await client.query('CREATE TABLE IF NOT EXISTS public.credits (invoice text, amount numeric)')

const symphony = new Symphony({ url })
/** Returns the status of the answer after the commit, without waiting for the handler. */
async function receive(request) {
  const body = await buffer(request)
  const signature = Buffer.from(request.headers['bank-signature'] ?? '', 'hex')
  if (signature.length !== 32 || !timingSafeEqual(signature, sign(body))) return 401
  const { id, ...credit } = JSON.parse(body)
  const { created } = await symphony.inbox.enqueue({ source: 'bank', messageId: id, topic: 'credit', payload: credit })
  return created ? 202 : 200
}
const INVALID = new Set(['INVALID_ARGUMENT', 'ARGUMENT_OUT_OF_RANGE'])
const isInvalid = (error) => error instanceof SyntaxError || INVALID.has(error.code)
const receiver = createServer(async (request, response) => {
  // Without this catch, a failure would end the process. After 503 the bank repeats the request.
  const status = await receive(request).catch((error) => (isInvalid(error) ? 400 : 503))
  response.writeHead(status).end()
})
await new Promise((resolve) => receiver.listen(0, '127.0.0.1', resolve))

const handlers = {
  credit: async ({ payload }, { tx }) => {
    await tx.query('INSERT INTO public.credits VALUES ($1, $2)', [payload.invoice, payload.amount])
  },
}
// Handlers run with the rights of the login: here the administrator, in production a login that may write your tables.
const worker = symphony.worker({ inbox: { handlers } })

const event = JSON.stringify({ id: 'evt-1', invoice: 'INV-7', amount: '12.50' })
const send = async (body, signature = sign(body).toString('hex')) => {
  const address = `http://127.0.0.1:${receiver.address().port}`
  const { status } = await fetch(address, { method: 'POST', body, headers: { 'bank-signature': signature } })
  console.log(`the bank receives ${status}`)
}
await send(event)
await send(event)
await send(event, '00'.repeat(32))
await send('no JSON')

const { handled } = await worker.runOnce()
const { rows } = await client.query('SELECT count(*)::int AS credits, sum(amount) AS total FROM public.credits')
console.log(`handled: ${handled}; booked: ${rows[0].credits} credit of ${rows[0].total}`)

receiver.close()
await client.end()
await symphony.close()

/* prints
the bank receives 202
the bank receives 200
the bank receives 401
the bank receives 400
handled: 1; booked: 1 credit of 12.50
*/
