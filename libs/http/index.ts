/**
 * The HTTP face of Symphony's processes: health and metrics of each, and the API of those that have one.
 *
 * It opens no database: what it may read and write is handed to it as roles, so a route can do no more than the role it was
 * given. It holds nothing: a crash loses requests whose answer had not been written, and each of those may be repeated
 * under its idempotency key.
 */
export { createHttpServer } from './createHttpServer.js'
export type { HttpServer, HttpServerOptions, ListenAddress } from './createHttpServer.js'
export type { InstructionRoles } from './instructionRoutes.js'
export { MetricsPage } from './MetricsPage.js'
export { readWebhookSources } from './webhookSources.js'
export type { WebhookSource, WebhookSources } from './webhookSources.js'
export type { WebhookReceiver } from './webhookRoutes.js'
export type { Problem, ProblemCode } from './Problem.js'
