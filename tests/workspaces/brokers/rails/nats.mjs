// Rails for `symphony worker --rails`, as a user would write them. The environment has the broker's address and the
// number of publishes before the process kills itself.
import { jetstream } from '@nats-io/jetstream'
import { connect, headers } from '@nats-io/transport-node'
import { natsRail } from 'symphony-pg/rails'
import { killedAfter } from './killedAfter.mjs'

const { NATS_URL, NATS_STREAM, NATS_SUBJECT, KILLED_AFTER = 'Infinity' } = process.env
const connection = await connect({ servers: NATS_URL, maxReconnectAttempts: -1, reconnectTimeWait: 50 })

const rail = natsRail({
  type: 'nats',
  onUnknown: 'inquire',
  timeoutMs: 1_000,
  nats: { jetstream: jetstream(connection), stream: NATS_STREAM, subject: NATS_SUBJECT, headers, clocksApartMs: 0 },
  close: () => connection.close(),
})

export default [killedAfter(rail, Number(KILLED_AFTER))]
