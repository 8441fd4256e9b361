// A webhook is recorded before it is answered, and handled once.
import { PermanentFailureError, Symphony, type InboxHandler } from 'symphony-pg'

await using symphony = new Symphony({ url: process.env['DATABASE_URL']! })
const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())

// Webhook: for a repeated source and id, created is false.
const payload = { invoice: 'INV-1', amount: '12.50' }
const message = { source: 'bank', messageId: 'evt-1', topic: 'settled', payload }
const { created } = await symphony.inbox.enqueue(message)
console.log(created ? 'recorded' : 'known')

// Worker: handlers act as its login. Writes through tx commit together with the state "done", once.
const handlers = {
  settled: async ({ payload: { invoice, amount } }, { tx }) => {
    if (typeof invoice !== 'string') throw new PermanentFailureError('the invoice is missing')
    await tx.query('UPDATE shop.invoices SET paid = paid + $2 WHERE id = $1', [invoice, amount])
  },
} satisfies Record<string, InboxHandler>
await symphony.worker({ inbox: { handlers } }).run({ signal: stop.signal })
