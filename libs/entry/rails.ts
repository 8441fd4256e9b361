/** Rails of the library: HTTP with signatures, webhooks, three brokers, and a simulated rail with a durable book. */
export { httpRail, readBook, signRequest, simulatedRail, webhookRail } from '../rails/index.js'
export type {
  HttpRailOptions,
  RailEffect,
  SigningKey,
  SimulatedRailOptions,
  WebhookRailOptions,
} from '../rails/index.js'
export { kafkaRail, natsRail, OUTBOX_ID_HEADER, rabbitRail, UnconfirmedError } from '../brokers/index.js'
export type { KafkaRailOptions, NatsRailOptions, RabbitRailOptions } from '../brokers/index.js'
