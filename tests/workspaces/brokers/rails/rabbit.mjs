// Rails for `symphony worker --rails`, as a user would write them. The environment has the broker's address and the
// number of publishes before the process kills itself.
import { connect } from 'amqplib'
import { rabbitRail } from 'symphony-pg/rails'
import { killedAfter } from './killedAfter.mjs'

const { RABBIT_URL, RABBIT_EXCHANGE, KILLED_AFTER = 'Infinity' } = process.env

const rail = rabbitRail({
  type: 'rabbit',
  onUnknown: 'resend',
  consumersDeduplicate: true,
  timeoutMs: 1_000,
  rabbit: { connect: () => connect(RABBIT_URL), exchange: RABBIT_EXCHANGE, routingKey: 'payments' },
})

export default [killedAfter(rail, Number(KILLED_AFTER))]
