import { randomUUID } from 'node:crypto'
import {
  fastify,
  LogController,
  type FastifyBaseLogger,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify'
import type { Logger } from 'pino'
import { JSON_TEXT_BYTES_MAX } from '../core/index.js'
import { accessTokenJudge } from './accessToken.js'
import { registerInstructions, type InstructionRoles } from './instructionRoutes.js'
import type { MetricsPage } from './MetricsPage.js'
import { ProblemError } from './Problem.js'
import { toProblem } from './toProblem.js'
import { registerWebhooks, type WebhookReceiver } from './webhookRoutes.js'

export interface HttpServerOptions {
  readonly log: Logger
  /** What requests must present as their bearer token. Undefined: everything but health is closed. */
  readonly accessToken: string | undefined
  /** Whether this process can do its work now. Must answer within seconds. */
  readonly isReady: () => Promise<boolean>
  readonly metrics: MetricsPage
  /** Absent for a process without an API. */
  readonly instructions?: InstructionRoles
  /** Absent for a process that receives no webhooks. */
  readonly webhooks?: WebhookReceiver
}

export interface ListenAddress {
  readonly host: string
  /** 0: any free one */
  readonly port: number
}

export interface HttpServer {
  /** Resolves with the address, and rejects with EADDRINUSE if the port is taken. */
  listen(address: ListenAddress): Promise<string>
  /** Answers what is under way, for a second at the most. Safe twice. */
  close(): Promise<void>
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Answered without a token: open to all, or signed. */
    readonly open?: boolean
  }
}

export function createHttpServer(options: HttpServerOptions): HttpServer {
  const app = createApp(options)
  registerHealth(app, options)
  if (options.instructions !== undefined) registerInstructions(app, options.instructions)
  if (options.webhooks !== undefined) registerWebhooks(app, options.webhooks)
  return {
    listen: (address) => app.listen(address),
    close: async () => {
      AbortSignal.timeout(CLOSE_PATIENCE_MS).addEventListener('abort', () => app.server.closeAllConnections())
      await app.close()
    },
  }
}

/** The frame of every route: identity of the request, access, JSON in and out, problems. */
function createApp({ log, accessToken }: HttpServerOptions): FastifyInstance {
  const loggerInstance: FastifyBaseLogger = log
  const app = fastify({
    loggerInstance,
    // Its lines show whole addresses; ours, below, show the route.
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: JSON_TEXT_BYTES_MAX,
    requestTimeout: REQUEST_TIMEOUT_MS,
    genReqId: ({ headers }) => requestIdOf(headers['x-request-id']),
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false } },
    // An id of 128 characters, each of them written as %XX.
    routerOptions: { maxParamLength: 384 },
    forceCloseConnections: 'idle',
    frameworkErrors: (error, request, reply) => void sendProblem(error, request, reply),
  })
  app.removeAllContentTypeParsers()
  // Left as bytes: the route reads them strictly, and an error never quotes them.
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  app.setReplySerializer((body) => JSON.stringify(body, bigintAsText))
  app.setErrorHandler((error, request, reply) => sendProblem(error, request, reply))
  app.setNotFoundHandler((request, reply) => sendProblem(new ProblemError('NOT_FOUND'), request, reply))
  const isAllowed = accessTokenJudge(accessToken)
  app.addHook('onRequest', async (request, reply) => {
    void reply.header('x-request-id', request.id)
    if (request.routeOptions.config?.open === true || isAllowed(request.headers.authorization)) return
    void reply.header('www-authenticate', 'Bearer')
    throw new ProblemError('UNAUTHENTICATED')
  })
  app.addHook('onResponse', async ({ id, method, routeOptions }, { statusCode, elapsedTime }) => {
    const line = { requestId: id, method, route: routeOptions.url, statusCode, elapsedMs: Math.round(elapsedTime) }
    log.info(line, 'request')
  })
  return app
}

function registerHealth(app: FastifyInstance, { isReady, metrics }: HttpServerOptions): void {
  app.get('/healthz', { config: { open: true } }, () => ({ status: 'ok' }))
  app.get('/readyz', { config: { open: true } }, async (_request, reply) => {
    if (!(await isReady())) void reply.code(503)
    return { status: reply.statusCode === 503 ? 'unavailable' : 'ok' }
  })
  app.get('/metrics', async (_request, reply) => {
    const page = await metrics.read()
    return reply.type(metrics.contentType).serializer(String).send(page)
  })
}

async function sendProblem(error: unknown, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const problem = toProblem(error, request.id)
  if (problem.status === 500) request.log.error({ requestId: request.id, err: error }, 'request_failed')
  if (problem.status === 503) void reply.header('retry-after', '1')
  return reply.code(problem.status).type('application/problem+json').send(problem)
}

/** A caller's own id is kept, so that its logs and ours can be joined; anything odd is replaced. */
function requestIdOf(given: string | string[] | undefined): string {
  return typeof given === 'string' && /^[!-~]{1,128}$/.test(given) ? given : randomUUID()
}

function bigintAsText(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value
}

const REQUEST_TIMEOUT_MS = 30_000
const CLOSE_PATIENCE_MS = 1_000
