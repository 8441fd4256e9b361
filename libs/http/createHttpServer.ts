import { pino, type Logger } from 'pino'
import { isActorGateway } from '../access/index.js'
import type { Clock } from '../core/index.js'
import { withActor, type Actor, type Database } from '../db/index.js'
import { ALERT_RULES, AlertWatch, Metrics, type AlertRule } from '../observability/index.js'
import { DestinationHash, DestinationHasher, readItems, readRailFields } from '../outbox/index.js'
import { maskPayloadText, mergeFieldRules } from '../rails/index.js'
import { reconcile, RECONCILE_TIMEOUT_MS } from '../reconciliation/index.js'
import {
  databasesOf,
  partsOf,
  readSystemStatus,
  type AnyFleet,
  type AnySymphony,
  type SymphonyParts,
} from '../symphony/index.js'
import { settleWithin } from '../worker/index.js'
import type { Identity } from './access/Identity.js'
import type { OidcOptions } from './access/oidcOptions.js'
import type { Api, PayloadProtection } from './Api.js'
import { buildHttpServer, type HttpServer } from './buildHttpServer.js'
import { dashboardFolder } from './DashboardFiles.js'
import type { HttpLimits } from './limits.js'
import { MetricsEndpoint } from './routes/health.js'
import { describeDatabases } from './routes/overview.js'
import type { WebhookSources } from './webhookSources.js'

export interface HttpServerOptions {
  /**
   * Symphony created with a `url`. Its rails validate, encrypt and mask payloads. Its login needs the roles in which
   * the routes query the database.
   */
  readonly symphony: AnySymphony
  /** Fleet whose databases the dashboard lists. @default only the database of the Symphony */
  readonly fleet?: AnyFleet
  /** Whether to serve the API and the dashboard. Health and metrics are always served. @default true */
  readonly api?: boolean
  /** Bearer token with every scope. @default only keys and identity providers */
  readonly accessToken?: string
  /** Person of the access token in two-person decisions. @default 'access-token' */
  readonly accessTokenOwner?: string
  /** Identity provider whose tokens are also accepted, and at which people sign in to the dashboard. */
  readonly oidc?: OidcOptions
  /** Senders of webhooks, by source. Their messages go to the inbox. @default none */
  readonly webhooks?: WebhookSources
  /**
   * Secret of at least 32 bytes that hashes destinations for search. Every API of a database needs the same secret.
   * @default no search by destination
   */
  readonly searchKey?: string
  readonly limits?: HttpLimits
  /** @default ALERT_RULES */
  readonly alertRules?: readonly AlertRule[]
  /** Metrics to serve. @default new metrics, which count the events of the Symphony and of the fleet */
  readonly metrics?: Metrics
  /** @default no log */
  readonly log?: Logger
  /** Release in the OpenAPI document. @default '0.0.0' */
  readonly version?: string
  /** Clock for rate limits and caches. @default the system's */
  readonly clock?: Clock
}

/** Creates the HTTP server of a Symphony without listening. Close the server before the Symphony. */
export function createHttpServer(options: HttpServerOptions): HttpServer {
  const { symphony, fleet, accessToken, accessTokenOwner, oidc, webhooks, limits, version, clock } = options
  const { api = true, alertRules = ALERT_RULES, log = pino({ level: 'silent' }) } = options
  const parts = partsOf(symphony)
  const { database } = parts
  const metrics = options.metrics ?? countEvents(new Metrics({ version: version ?? '0.0.0' }), symphony, fleet)
  const readStatus = () => readSystemStatus(database)
  const folder = api ? dashboardFolder() : undefined
  const hash = !api || options.searchKey === undefined ? undefined : new DestinationHash(options.searchKey)
  const server = buildHttpServer({
    log,
    accessToken,
    isReady: () => isReady(database),
    metrics: new MetricsEndpoint(metrics.registry, readStatus),
    ...(api
      ? {
          api: {
            ...apiOf(parts, fleet),
            readStatusSnapshot: snapshots(readStatus, alertRules),
            alertRules,
            ...(hash === undefined ? {} : { destinationHash: hash }),
          },
        }
      : {}),
    ...(webhooks === undefined
      ? {}
      : {
          webhooks: { ingest: database.as('symphony_ingest'), sources: webhooks, onReceived: metrics.inbox.onReceived },
        }),
    ...(accessTokenOwner === undefined ? {} : { accessTokenOwner }),
    ...(oidc === undefined ? {} : { oidc }),
    ...(folder === undefined ? {} : { dashboardFolder: folder }),
    ...(limits === undefined ? {} : { limits }),
    ...(version === undefined ? {} : { version }),
    ...(clock === undefined ? {} : { clock }),
  })
  if (hash === undefined) return server
  const report = ({ error }: { readonly error: unknown }) => log.warn({ err: error }, 'search_fault')
  return withHasher(server, new DestinationHasher(database.as('symphony_control'), hash, report))
}

/** Starts and stops the hasher with the server. Searches by destination need its hashes. */
function withHasher(server: HttpServer, hasher: DestinationHasher): HttpServer {
  return {
    routes: server.routes,
    listen: async (address) => {
      const listening = await server.listen(address)
      await hasher.start()
      return listening
    },
    close: async () => {
      await settleWithin(hasher.stop(), HASHER_STOP_MS)
      await server.close()
    },
  }
}

const HASHER_STOP_MS = 1_000

/** Counts the events of the Symphony and of the fleet, without counting a member of the fleet twice. */
function countEvents(metrics: Metrics, symphony: AnySymphony, fleet: AnyFleet | undefined): Metrics {
  fleet?.events.on('*', metrics.onEvent)
  const { database } = partsOf(symphony)
  const isOfFleet = fleet !== undefined && databasesOf(fleet).members.some((member) => member.database === database)
  if (!isOfFleet) symphony.events.on('*', metrics.onEvent)
  return metrics
}

function snapshots(
  readStatus: () => ReturnType<typeof readSystemStatus>,
  rules: readonly AlertRule[],
): Api['readStatusSnapshot'] {
  const watch = new AlertWatch(rules)
  return async () => {
    // Without an answer of the database the status is undefined, which raises an alert.
    const status = await readStatus().catch(() => undefined)
    return { alerts: await watch.evaluate(status), queue: status?.outbox }
  }
}

function apiOf(parts: SymphonyParts, fleet: AnyFleet | undefined): Omit<Api, 'readStatusSnapshot'> {
  const { database, databaseName: name, contracts, vault } = parts
  const control = database.as('symphony_control')
  const ingest = database.as('symphony_ingest')
  return {
    roles: {
      ingest,
      ingestFor: (identity) => withActor(ingest, actorOf(identity)),
      readonly: database.as('symphony_readonly'),
      auditor: database.as('symphony_auditor'),
      auth: database.as('symphony_auth'),
      control: (identity) => withActor(control, actorOf(identity)),
      mayActFor: (people) => isActorGateway(control, people),
    },
    databaseName: name,
    readDatabases: () => describeDatabases(fleet === undefined ? [{ name, database }] : databasesOf(fleet).members),
    rails: contracts,
    protection: payloadProtection(parts),
    reconcile: async (identity, options) => {
      // Opens connections with a longer statement timeout, because a comparison may take minutes.
      const patient = database.reopen({ statementTimeoutMs: RECONCILE_TIMEOUT_MS })
      try {
        const role = withActor(patient.as('symphony_control'), actorOf(identity))
        return await reconcile(role, options, { rail: contracts.get(options.rail), vault })
      } finally {
        await patient.close()
      }
    },
  }
}

function actorOf({ apiKey, owner }: Pick<Identity, 'owner' | 'apiKey'>): Actor {
  return apiKey === null ? { person: owner } : { apiKey }
}

function payloadProtection({ contracts, vault }: SymphonyParts): PayloadProtection {
  return {
    encrypt: (role, instructions) => vault.encrypt(role, instructions),
    maskFor: async (role, railType) => {
      const rules = mergeFieldRules(contracts.get(railType)?.fields ?? [], await readRailFields(role, railType))
      return (text) => maskPayloadText(text, rules)
    },
  }
}

/**
 * Returns whether the database answers within READY_WITHIN_MS. Reads an item that cannot exist: a cheap query that
 * needs connection, role and schema.
 */
async function isReady(database: Database): Promise<boolean> {
  let answered = false
  const asking = readItems(database.as('symphony_readonly'), { outboxId: NIL_UUID }).then(() => (answered = true))
  await settleWithin(asking, READY_WITHIN_MS)
  return answered
}

const NIL_UUID = '00000000-0000-0000-0000-000000000000'
const READY_WITHIN_MS = 2_000
