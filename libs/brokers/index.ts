/**
 * Rails that publish to a broker. Each takes the user's own client, declares the few methods that it calls, and imports
 * no library. Every message carries the outbox id, which is the same on every attempt.
 *
 * | broker | one copy per payment | mechanism |
 * | --- | --- | --- |
 * | NATS JetStream | in the stream, while it keeps the first copy | one subject per payment, which must be empty; the stream answers inquiries |
 * | RabbitMQ | at the consumer | `message-id`, and an inbox: the broker keeps every copy |
 * | Kafka | at the consumer | the header `outbox-id`, and an inbox: the topic keeps every copy |
 *
 * `NotSentError` means that the broker certainly did not store the message. `UnconfirmedError` means that the broker
 * may have stored it, so the outcome is unknown.
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
