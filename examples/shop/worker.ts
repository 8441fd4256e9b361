// Dispatches payments until SIGTERM. After an unknown outcome, the worker inquires before it sends again.
import { defineRail, Symphony } from 'symphony-pg'
import { askTheBank, callTheBank } from './bank.js'
import { sepa } from './contracts.js'

const bank = defineRail({
  ...sepa,
  onUnknown: 'inquire',
  dispatch: async ({ reference, payload }, { signal }) => {
    const { id } = await callTheBank(reference, payload.invoice, signal)
    return { outcome: 'success', reference: id }
  },
  queryStatus: async ({ reference }, { signal }) => {
    const found = await askTheBank(reference, signal)
    return found ? { outcome: 'success', reference: found.id } : { outcome: 'absent' }
  },
})
await using symphony = new Symphony({ url: process.env['DATABASE_URL']!, rails: [bank] })
symphony.events.on('outbox.held', ({ outboxId, reason }) => console.warn(`${outboxId} is held: ${reason}`))
const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())
await symphony.worker({ concurrency: 50 }).run({ signal: stop.signal })
