// A mobile-money operator that loses an answer: the payment was made, and nobody heard. Symphony asks before it does anything else.
import { createServer } from 'node:http'
import { enqueue, openDatabase } from 'symphony-pg'
import { deploy } from 'symphony-pg/deployment'
import { startEmbedded } from '@symphony-pg/embedded'
import { OutboxRelayer } from 'symphony-pg/outbox'
import { loadRails } from 'symphony-pg/rails'

// The operator: pays under the reference it is given, and can be asked for it. Its first answer never arrives.
const transfers = new Map()
const operator = createServer((request, response) => {
  const reference = request.url.split('/').at(-1)
  if (request.method === 'GET') {
    console.log('the operator is asked what became of it')
    return response.writeHead(transfers.has(reference) ? 200 : 404).end(transfers.get(reference))
  }
  transfers.set(reference, `MM-${transfers.size + 1}`)
  console.log(`the operator pays, transfer ${transfers.get(reference)}, and the line breaks`)
  request.socket.destroy()
})
await new Promise((resolve) => operator.listen(0, '127.0.0.1', resolve))
const operatorUrl = `http://127.0.0.1:${operator.address().port}/transfers`

const mobileMoney = {
  type: 'mobile-money',
  onUnknown: 'inquire',
  destination: 'phone',
  timeoutMs: 20_000,
  async dispatch({ reference, payload }, { signal }) {
    try {
      const body = JSON.stringify(payload)
      const answer = await fetch(`${operatorUrl}/${reference}`, { method: 'POST', body, signal })
      return { outcome: 'success', reference: await answer.text() }
    } catch {
      // It may have been paid. Not a failure, and not to be sent again: unknown, to be asked about in a second.
      return { outcome: 'unknown', code: 'NO_ANSWER', retryAfterMs: 1_000 }
    }
  },
  async queryStatus({ reference }, { signal }) {
    const answer = await fetch(`${operatorUrl}/${reference}`, { signal })
    if (answer.status === 404) return { outcome: 'absent' }
    return { outcome: 'success', reference: await answer.text() }
  },
}

const url = process.env.DATABASE_URL ?? (await startEmbedded({ dataDir: '.symphony' })).url
await deploy({ url })
const database = openDatabase({ url })
let settle
const settled = new Promise((resolve) => (settle = resolve))
const relayer = new OutboxRelayer(database, loadRails([mobileMoney]), {}, (event) => {
  if (event.type === 'outbox.recorded' && event.state === 'DISPATCHED') settle()
})
await relayer.start()

const payload = { amount: '1500', currency: 'RWF', destination: '+250788123456' }
const names = {
  instructionId: 'SALARY-7',
  participantId: 'coop',
  idempotencyKey: 'SALARY-7/1',
  railType: 'mobile-money',
}
await enqueue({ ...names, payload }, { tx: database.as('symphony_ingest') })
await settled
console.log(`recorded as paid; transfers made: ${transfers.size}`)

await relayer.stop()
await database.close()
operator.close()

/* prints
the operator pays, transfer MM-1, and the line breaks
the operator is asked what became of it
recorded as paid; transfers made: 1
*/
