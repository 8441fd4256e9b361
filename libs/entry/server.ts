/** HTTP server with API and dashboard, metrics, log lines and alert rules. Loads Fastify and prom-client. */
export { bridgeToMeter, createHttpServer, openApiDocument } from '../http/index.js'
export type {
  ApiTypes as Api,
  HttpLimits,
  HttpServer,
  HttpServerOptions,
  OidcOptions,
  WebhookSources,
} from '../http/index.js'
export { ALERT_RULES, logEvents, Metrics } from '../observability/index.js'
export type { Alert, AlertRule } from '../observability/index.js'
