import { settleWithin } from '../worker/index.js'
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
import { JSON_TEXT_BYTES_MAX, systemClock, type Clock } from '../core/index.js'
import { Authenticator } from './access/Authenticator.js'
import type { Identity } from './access/Identity.js'
import { ApiKeyAuthenticator } from './access/ApiKeyAuthenticator.js'
import { BrowserSessions } from './access/BrowserSessions.js'
import { IdentityProvider } from './access/IdentityProvider.js'
import { OidcAuthenticator } from './access/OidcAuthenticator.js'
import type { OidcOptions } from './access/oidcOptions.js'
import type { Api } from './Api.js'
import { enforceBodyDeadline } from './bodyDeadline.js'
import { DashboardFiles, fileFor, sendFile } from './DashboardFiles.js'
import { DOCS_FILES } from './docsPage.js'
import {
  HEADER_BYTES_MAX,
  HEADERS_TIMEOUT_MS,
  REQUEST_BYTES,
  REQUEST_TIMEOUT_MS,
  resolveHttpLimits,
  SLOW_CLIENTS_CHECK_MS,
  UPLOAD_TIMEOUT_MS,
  type HttpLimits,
} from './limits.js'
import { openApiDocument } from './openApi.js'
import { ProblemError, toProblem } from './Problem.js'
import { RequestAuthorizer } from './RequestAuthorizer.js'
import { bodyBytes, LargeRequestQueue, parseBody } from './requestBody.js'
import { healthRoutes, type MetricsEndpoint } from './routes/health.js'
import { apiRoutes } from './routes/index.js'
import type { Route } from './routes/route.js'
import type { SignIn } from './routes/session.js'
import { webhookRoutes, type WebhookReceiver } from './routes/webhooks.js'
import { StatusCache } from './StatusCache.js'
import { SseConnections } from './stream/SseConnections.js'

/** Parts of a server. Tests replace some of them. */
export interface HttpServerParts {
  readonly log: Logger
  /** Bearer token with every scope; undefined if only keys and identity providers are accepted. */
  readonly accessToken: string | undefined
  /** Person of the access token in two-person decisions. @default 'access-token' */
  readonly accessTokenOwner?: string
  /** Returns whether this process can work. Must answer within seconds. */
  readonly isReady: () => Promise<boolean>
  readonly metrics: MetricsEndpoint
  /** API; undefined for a process without one. */
  readonly api?: Api
  /** Identity provider whose tokens are also accepted, and at which people sign in to the dashboard. */
  readonly oidc?: OidcOptions
  /** Receiver of webhooks; undefined for a process without one. */
  readonly webhooks?: WebhookReceiver
  /** Folder of the built dashboard; undefined if there is none. */
  readonly dashboardFolder?: string
  readonly limits?: HttpLimits
  /** Release in the OpenAPI document. @default '0.0.0' */
  readonly version?: string
  /** Interval at which open streams poll the database. @default 1000 */
  readonly streamPollMs?: number
  /** Clock for rate limits and caches. @default systemClock */
  readonly clock?: Clock
}

export interface ListenAddress {
  readonly host: string
  /** Port; 0 for any free one. */
  readonly port: number
}

export interface HttpServer {
  /** Routes except files, with their descriptions. */
  readonly routes: readonly Route[]
  /** Resolves with the address. Rejects with EADDRINUSE if the port is in use. */
  listen(address: ListenAddress): Promise<string>
  /** Ends streams and waits up to a second for running requests. Safe to call twice. */
  close(): Promise<void>
}

declare module 'fastify' {
  interface FastifyContextConfig {
    readonly route?: Route
  }
  interface FastifyRequest {
    /** Identity of the caller; undefined on open routes. */
    identity: Identity | undefined
  }
}

export function buildHttpServer(options: HttpServerParts): HttpServer {
  const { api, webhooks, dashboardFolder, version = '0.0.0', clock = systemClock } = options
  const limits = resolveHttpLimits(options.limits)
  const signIn = createSignIn(options)
  const authenticator = createAuthenticator(options, signIn?.sessions)
  const statusCache = api === undefined ? undefined : new StatusCache(api, clock)
  const { streamPollMs } = options
  const connections =
    api === undefined || statusCache === undefined
      ? undefined
      : new SseConnections({
          role: api.roles.readonly,
          statusCache,
          streamsMax: limits.streamsMax,
          ...(streamPollMs === undefined ? {} : { pollMs: streamPollMs }),
        })
  const routes = [
    ...healthRoutes(options),
    ...(api === undefined || statusCache === undefined || connections === undefined
      ? []
      : apiRoutes({ api, statusCache, connections, authenticator, signIn, limits, clock })),
    ...(webhooks === undefined ? [] : webhookRoutes(webhooks)),
  ]
  const { requestsPerSecond } = limits
  const authorizer = new RequestAuthorizer({ authenticator, requestsPerSecond, mayActFor: api?.roles.mayActFor, clock })
  const files = dashboardFolder === undefined ? undefined : new DashboardFiles(dashboardFolder)
  const app = createApp(options.log, authorizer, { files, routes })
  for (const route of routes) register(app, route)
  registerDescription(app, openApiDocument(routes, { version }))
  return {
    routes,
    listen: (address) => app.listen(address),
    close: async () => {
      // Ends the streams at once. Their query of a silent database ends later, by itself.
      const polls = connections?.close() ?? Promise.resolve()
      AbortSignal.timeout(CLOSE_PATIENCE_MS).addEventListener('abort', () => app.server.closeAllConnections())
      await app.close()
      await settleWithin(polls, CLOSE_PATIENCE_MS)
    },
  }
}

function createSignIn({ api, oidc, clock }: HttpServerParts): SignIn | undefined {
  if (api === undefined || oidc?.signIn === undefined) return undefined
  return {
    provider: new IdentityProvider(oidc, oidc.signIn, clock),
    sessions: new BrowserSessions(api.roles.auth, oidc.issuer, oidc.signIn, clock),
  }
}

function createAuthenticator(
  { accessToken, accessTokenOwner = 'access-token', api, oidc, clock }: HttpServerParts,
  sessions: BrowserSessions | undefined,
): Authenticator {
  return new Authenticator({
    accessToken,
    accessTokenOwner,
    keys: api === undefined ? undefined : new ApiKeyAuthenticator(api.roles.auth, clock),
    oidc: oidc === undefined ? undefined : new OidcAuthenticator(oidc),
    sessions,
  })
}

interface Served {
  readonly files: DashboardFiles | undefined
  readonly routes: readonly Route[]
}

/** Creates the Fastify instance with request ids, authorization, JSON parsing and problems, without routes. */
function createApp(log: Logger, authorizer: RequestAuthorizer, { files, routes }: Served): FastifyInstance {
  const loggerInstance: FastifyBaseLogger = log
  const app = fastify({
    loggerInstance,
    // Fastify's log lines contain whole URLs. The log lines written below contain only the route.
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: JSON_TEXT_BYTES_MAX,
    // Limit for uploaded files. `enforceBodyDeadline` sets a shorter one for other bodies.
    requestTimeout: UPLOAD_TIMEOUT_MS,
    http: {
      headersTimeout: HEADERS_TIMEOUT_MS,
      maxHeaderSize: HEADER_BYTES_MAX,
      connectionsCheckingInterval: SLOW_CLIENTS_CHECK_MS,
    },
    genReqId: ({ headers }) => requestIdOf(headers['x-request-id']),
    // Longest parameter: an inbox message id of 255 characters, up to four bytes each, encoded as %XX.
    routerOptions: { maxParamLength: 3_072 },
    forceCloseConnections: 'idle',
    frameworkErrors: (error, request, reply) => void sendProblem(error, request, reply),
  })
  enforceBodyDeadline(app.server, REQUEST_TIMEOUT_MS)
  app.removeAllContentTypeParsers()
  const largeRequests = new LargeRequestQueue()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    const { route } = request.routeOptions.config
    const read = () => {
      try {
        if (!Buffer.isBuffer(body)) throw new ProblemError('BAD_REQUEST')
        // A signature covers the bytes, so the handler parses a signed body itself.
        done(null, route?.rawBody === true ? body : parseBody(body, route?.bodyLimit))
      } catch (error) {
        done(error instanceof Error ? error : new ProblemError('BAD_REQUEST'))
      }
    }
    if (body.length > REQUEST_BYTES) void largeRequests.turn().then(read)
    else read()
  })
  const methodsOf = allowedMethods(routes)
  app.setReplySerializer((body) => JSON.stringify(body))
  app.setErrorHandler((error, request, reply) => sendProblem(error, request, reply))
  app.setNotFoundHandler((request, reply) => {
    const file = files === undefined ? undefined : fileFor(files, request)
    if (file !== undefined) return sendFile(file, request, reply)
    const allowed = methodsOf(request.url)
    if (allowed.length === 0) return sendProblem(new ProblemError('NOT_FOUND'), request, reply)
    void reply.header('allow', allowed.join(', '))
    return sendProblem(new ProblemError('METHOD_NOT_ALLOWED', `Expected ${allowed.join(' or ')}.`), request, reply)
  })
  app.decorateRequest('identity', undefined)
  app.addHook('onRequest', async (request, reply) => {
    const { route } = request.routeOptions.config
    const isLarge = bodyBytes(request) > REQUEST_BYTES
    if (isLarge) await largeRequests.turn()
    void reply.headers(SECURITY_HEADERS).header('x-request-id', request.id)
    if (route === undefined && files !== undefined && fileFor(files, request) !== undefined) return
    try {
      await authorizer.authorize(route, request, reply)
    } catch (error) {
      // Disconnects the caller, because reading the rest of a large body costs more than a new connection.
      if (isLarge && route?.upload === undefined) void reply.header('connection', 'close')
      throw error
    }
    void reply.header('cache-control', 'no-store')
  })
  app.addHook('onResponse', async ({ id, method, routeOptions, identity }, { statusCode, elapsedTime }) => {
    const elapsedMs = Math.round(elapsedTime)
    const line = {
      requestId: id,
      method,
      route: routeOptions.url,
      statusCode,
      elapsedMs,
      keyId: identity?.apiKey?.keyId,
      sessionId: identity?.session?.keyId,
    }
    log.info(line, 'request')
  })
  return app
}

/** Returns a function that finds the methods of all routes that match a URL. */
function allowedMethods(routes: readonly Route[]): (url: string) => readonly string[] {
  const described = ['/openapi.json', ...Object.keys(DOCS_FILES)].map((path) => ({ path, method: 'GET' }))
  const patterns = [...routes, ...described].map(({ path, method }) => ({
    method,
    pattern: new RegExp(`^${path.replaceAll('.', String.raw`\.`).replaceAll(/\{\w+\}/g, '[^/]+')}$`),
  }))
  return (url) => {
    const path = url.split('?', 1)[0] ?? ''
    return [
      ...new Set(
        patterns
          .filter(({ pattern }) => pattern.test(path))
          .flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method])),
      ),
    ]
  }
}

function register(app: FastifyInstance, route: Route): void {
  if (route.upload === undefined) registerIn(app, route)
  else {
    // An upload gets a Fastify scope without body parsers. Its handler checks the type and reads the file from the
    // request.
    void app.register(async (scope) => {
      scope.removeAllContentTypeParsers()
      scope.addContentTypeParser('*', (_request, _file, done) => done(null))
      registerIn(scope, route)
    })
  }
}

function registerIn(app: FastifyInstance, route: Route): void {
  app.route({
    method: route.method,
    url: route.path.replaceAll(/\{(\w+)\}/g, ':$1'),
    config: { route },
    ...(route.bodyLimit === undefined ? {} : { bodyLimit: route.bodyLimit }),
    // Load balancers probe by HEAD requests.
    exposeHeadRoute: true,
    handler: (request, reply) => route.handle(request, reply),
  })
}

/** Serves the OpenAPI document and the page that shows it, without authentication. */
function registerDescription(app: FastifyInstance, document: object): void {
  const json = Buffer.from(JSON.stringify(document))
  const files = { '/openapi.json': { type: 'application/json', content: json }, ...DOCS_FILES }
  for (const [url, { type, content }] of Object.entries(files)) {
    app.get(url, { config: { route: { ...OPEN_FILE, path: url } }, exposeHeadRoute: true }, (_request, reply) =>
      reply.type(type).serializer(String).send(content.toString()),
    )
  }
}

const OPEN_FILE: Omit<Route, 'path'> = {
  method: 'GET',
  tag: 'description',
  summary: '',
  access: 'open',
  participants: 'filtered',
  answers: {},
  problems: [],
  handle: async () => ({}),
}

async function sendProblem(error: unknown, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const invalid = request.routeOptions.config.route?.invalid ?? 'INVALID_ARGUMENT'
  const problem = toProblem(error, { requestId: request.id, invalid })
  if (problem.status === 500) request.log.error({ requestId: request.id, err: error }, 'request_failed')
  const waitSeconds = error instanceof ProblemError ? error.retryAfterSeconds : undefined
  if (waitSeconds !== undefined || problem.status === 503) void reply.header('retry-after', String(waitSeconds ?? 1))
  return reply.code(problem.status).type('application/problem+json').send(problem)
}

/**
 * Returns the caller's request id, so that its logs and ours can be joined. Returns a new id if that one is missing or
 * invalid.
 */
function requestIdOf(given: string | string[] | undefined): string {
  return typeof given === 'string' && /^[!-~]{1,128}$/.test(given) ? given : randomUUID()
}

const CLOSE_PATIENCE_MS = 1_000

/**
 * Security headers of every response. They forbid frames, content sniffing and foreign embedding, and allow only
 * scripts and styles from files of this server, so that injected inline code does not run.
 */
const SECURITY_HEADERS: Readonly<Record<string, string>> = Object.freeze({
  'content-security-policy':
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
    "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=(), payment=()',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
})
