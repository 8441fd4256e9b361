// A first payment in twenty lines: enqueued in a transaction, sent to a rail, recorded once.
import { Symphony } from 'symphony-pg'
import { deploy } from 'symphony-pg/admin'

const url = process.env.DATABASE_URL ?? 'embedded:.symphony'
await deploy({ url })

const dispatch = ({ payload: { amount, currency } }) => ({ outcome: 'success', reference: `${amount} ${currency}` })
const symphony = new Symphony({ url, rails: [{ type: 'bank', onUnknown: 'hold', dispatch }] })

const payload = { amount: '12.50', currency: 'EUR', destination: 'DE89370400440532013000' }
const instruction = { instructionId: 'INV-1', participantId: 'ACME', railType: 'bank', payload }
await symphony.transaction((tx) => symphony.enqueue(instruction, { tx }))

const { dispatched } = await symphony.worker().runOnce()
console.log(`payments dispatched: ${dispatched}`)
await symphony.close()

/* prints
payments dispatched: 1
*/
