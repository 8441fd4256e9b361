// A first payment in twenty lines: enqueued in a transaction, carried to a rail, recorded once.
import { enqueue, openDatabase } from 'symphony-pg'
import { deploy } from 'symphony-pg/deployment'
import { startEmbedded } from 'symphony-pg/embedded'
import { OutboxRelayer } from 'symphony-pg/outbox'
import { loadRails } from 'symphony-pg/rails'

const url = process.env.DATABASE_URL ?? (await startEmbedded({ dataDir: '.symphony' })).url
await deploy({ url })
const database = openDatabase({ url })

const payload = { amount: '12.50', currency: 'EUR', destination: 'DE89370400440532013000' }
const instruction = {
  instructionId: 'INV-1',
  participantId: 'ACME',
  idempotencyKey: 'INV-1/1',
  railType: 'bank',
  payload,
}
await database.as('symphony_ingest').transaction((tx) => enqueue(instruction, { tx }))

const dispatch = ({ payload: { amount, currency } }) => ({ outcome: 'success', reference: `${amount} ${currency}` })
const relayer = new OutboxRelayer(database, loadRails([{ type: 'bank', onUnknown: 'hold', dispatch }]))
const { dispatched } = await relayer.runOnce()
console.log(`payments dispatched: ${dispatched}`)
await relayer.stop()
await database.close()

/* prints
payments dispatched: 1
*/
