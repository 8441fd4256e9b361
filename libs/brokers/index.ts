/**
 * Rails that publish to a broker, for teams whose next hop is a stream. Each takes the user's own client by the few methods
 * it calls, and imports none. Every message carries the outbox id, the same on every attempt.
 *
 * | broker | one copy per payment | what makes it so |
 * | --- | --- | --- |
 * | NATS JetStream | in the stream, while it keeps the first | a subject for each payment that must be empty; the stream is asked |
 * | RabbitMQ | at the consumer | `message-id`, and an inbox: the broker keeps every copy |
 * | Kafka | at the consumer | the header `outbox-id`, and an inbox: the topic keeps every copy |
 *
 * A message that was certainly not sent is a `NotSentError`. A message that was perhaps sent and not confirmed is an
 * `UnconfirmedError`, and its outcome is unknown.
 */
export type { BrokerMessageOptions } from './brokerMessage.js'
export type { AtLeastOncePolicy, BrokerDeclaration } from './brokerOptions.js'
export { kafkaRail, OUTBOX_ID_HEADER } from './kafkaRail.js'
export type { KafkaOptions, KafkaProducer, KafkaRailOptions, KafkaRecord, KafkaRecordMetadata } from './kafkaRail.js'
export type { NatsOptions, NatsRailOptions } from './natsOptions.js'
export { natsRail } from './natsRail.js'
export type {
  NatsHeaders,
  NatsJetStream,
  NatsJetStreamManager,
  NatsPubAck,
  NatsPublishOptions,
  NatsStreamInfo,
  NatsStreamState,
} from './natsStream.js'
export type { RabbitChannel, RabbitConnection, RabbitPublishOptions } from './RabbitLink.js'
export { rabbitRail } from './rabbitRail.js'
export type { RabbitOptions, RabbitRailOptions } from './rabbitRail.js'
export { UnconfirmedError } from './brokerMessage.js'
