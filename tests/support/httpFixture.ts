import { Writable } from 'node:stream'
import { pino } from 'pino'
import { ApiKeys, isActorGateway, type ApiKeyRequest } from '../../libs/access/index.js'
import { withActor, type Actor } from '../../libs/db/index.js'
import {
  buildHttpServer,
  MetricsEndpoint,
  type Api,
  type ApiRoles,
  type HttpServerParts,
  type Problem,
  type Route,
} from '../../libs/http/index.js'
import { FieldVault } from '../../libs/protection/index.js'
import { reconcile } from '../../libs/reconciliation/index.js'
import { readSystemStatus } from '../../libs/symphony/index.js'
import { Metrics } from '../../libs/observability/index.js'
import type { TestDatabase, TestLogin } from './database.js'

export const TOKEN = 'token-of-the-tests'

interface FixtureRequest {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
}

/** An HTTP server on a real port over a real database. */
export interface HttpFixture {
  readonly address: string
  /** Returns the log so far. */
  readonly logged: () => string
  readonly metrics: Metrics
  readonly routes: readonly Route[]
  /** Sends a request with the token, unless the headers override it. */
  call(path: string, init?: FixtureRequest): Promise<Response>
  /** Posts an instruction with an idempotency key. */
  post(body: unknown, key?: string): Promise<Response>
  close(): Promise<void>
}

export interface HttpFixtureOptions extends Partial<Omit<HttpServerParts, 'api'>> {
  /** Roles that replace those of the database. */
  readonly roles?: Partial<ApiRoles>
  /** Port to listen on. @default any free one */
  readonly port?: number
  /** Overrides of the API, or `none` for a server without the API. @default the roles of the database */
  readonly api?: Partial<Api> | 'none'
}

const gateways = new WeakMap<TestDatabase, Promise<TestLogin>>()

/** Returns the API roles of a database. Operators and callers use a gateway login, as in a real API. */
export async function apiRolesOf(db: TestDatabase): Promise<ApiRoles> {
  const { database } = await gatewayOf(db)
  const control = database.as('symphony_control')
  const ingest = database.as('symphony_ingest')
  return {
    ingest,
    ingestFor: (identity) => withActor(ingest, actorOf(identity)),
    readonly: db.as('symphony_readonly'),
    auditor: db.as('symphony_auditor'),
    auth: db.as('symphony_auth'),
    control: (identity) => withActor(control, actorOf(identity)),
    mayActFor: (people) => isActorGateway(control, people),
  }
}

function actorOf({ apiKey, owner }: Parameters<ApiRoles['control']>[0]): Actor {
  return apiKey === null ? { person: owner } : { apiKey }
}

/** Returns the login of the HTTP gateway, created once per database. */
export function gatewayOf(db: TestDatabase): Promise<TestLogin> {
  const gateway = gateways.get(db) ?? createGateway(db)
  gateways.set(db, gateway)
  return gateway
}

async function createGateway(db: TestDatabase): Promise<TestLogin> {
  const login = await db.createLogin('http_gateway', { roles: ['symphony_control', 'symphony_ingest'] })
  await db.queryNoRole('SELECT set_actor_gateway($1, true)', [login.name])
  return login
}

/** Creates a key as an administrator. */
export async function createKey(db: TestDatabase, request: ApiKeyRequest): Promise<{ keyId: string; key: string }> {
  const asAdministrator = { schema: db.schema, query: db.queryNoRole.bind(db) }
  return new ApiKeys({ as: () => asAdministrator }).create(request)
}

export async function openHttpFixture(db: TestDatabase, options: HttpFixtureOptions = {}): Promise<HttpFixture> {
  const { roles, api, port = 0, ...overrides } = options
  let text = ''
  const sink = new Writable({
    write(chunk, _encoding, done) {
      text += String(chunk)
      done()
    },
  })
  const metrics = new Metrics({ version: 'of the tests' })
  const apiRoles = { ...(await apiRolesOf(db)), ...roles }
  const server = buildHttpServer({
    log: pino({ level: 'debug' }, sink),
    accessToken: TOKEN,
    isReady: async () => true,
    metrics: new MetricsEndpoint(metrics.registry, () => readSystemStatus(db.database)),
    ...(api === 'none'
      ? {}
      : {
          api: {
            roles: apiRoles,
            databaseName: 'payments',
            readDatabases: async () => [],
            readStatusSnapshot: async () => ({ alerts: [] }),
            reconcile: (identity, given) =>
              reconcile(apiRoles.control(identity), given, { vault: new FieldVault(new Map()) }),
            ...api,
          },
        }),
    ...overrides,
  })
  const address = await server.listen({ host: '127.0.0.1', port })
  const call = (path: string, init: FixtureRequest = {}) =>
    fetch(`${address}${path}`, { ...init, headers: { authorization: `Bearer ${TOKEN}`, ...init.headers } })
  return {
    address,
    logged: () => text,
    metrics,
    routes: server.routes,
    call,
    post: (body, key) =>
      call('/v1/instructions', {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...(key === undefined ? {} : { 'idempotency-key': key }) },
        body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body),
      }),
    close: () => server.close(),
  }
}

/** Returns the problem in a response. Throws if there is none. */
export async function problemOf(response: Response): Promise<Problem> {
  if (response.headers.get('content-type')?.startsWith('application/problem+json') !== true) {
    throw new Error(`expected a problem, got ${response.headers.get('content-type')}: ${await response.text()}`)
  }
  const problem: Problem = JSON.parse(await response.text())
  if (problem.status !== response.status)
    throw new Error(`status in the problem: expected ${response.status}, got ${problem.status}`)
  return problem
}

export async function bodyOf(response: Response): Promise<Record<string, unknown>> {
  const body: Record<string, unknown> = JSON.parse(await response.text())
  return body
}
