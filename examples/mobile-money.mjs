// A mobile-money operator pays, and its answer is lost. Symphony inquires before it sends anything again.
import { createServer } from 'node:http'
import { Symphony } from 'symphony-pg'
import { deploy } from 'symphony-pg/admin'

// The operator pays under the given reference and answers inquiries about it. Its first answer is lost.
const transfers = new Map()
const operator = createServer((request, response) => {
  const reference = request.url.split('/').at(-1)
  if (request.method === 'GET') {
    console.log('the operator is asked about the transfer')
    return response.writeHead(transfers.has(reference) ? 200 : 404).end(transfers.get(reference))
  }
  transfers.set(reference, `MM-${transfers.size + 1}`)
  console.log(`the operator pays, transfer ${transfers.get(reference)}, and its answer is lost`)
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
      // The operator may have paid. The outcome is unknown: inquire after one second instead of sending again.
      return { outcome: 'unknown', code: 'NO_ANSWER', retryAfterMs: 1_000 }
    }
  },
  async queryStatus({ reference }, { signal }) {
    const answer = await fetch(`${operatorUrl}/${reference}`, { signal })
    if (answer.status === 404) return { outcome: 'absent' }
    return { outcome: 'success', reference: await answer.text() }
  },
}

const url = process.env.DATABASE_URL ?? 'embedded:.symphony'
await deploy({ url })
const symphony = new Symphony({ url, rails: [mobileMoney] })
await symphony.worker().start()

const payload = { amount: '1500', currency: 'RWF', destination: '+250788123456' }
const salary = { railType: 'mobile-money', instructionId: 'SALARY-7', participantId: 'coop', payload }
const paid = new Promise((resolve) => {
  symphony.events.on('outbox.recorded', ({ state }) => state === 'DISPATCHED' && resolve())
})
await symphony.transaction((tx) => symphony.enqueue(salary, { tx }))
await paid
console.log(`recorded as paid; transfers made: ${transfers.size}`)

await symphony.close()
operator.close()

/* prints
the operator pays, transfer MM-1, and its answer is lost
the operator is asked about the transfer
recorded as paid; transfers made: 1
*/
