import { readFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { basename } from 'node:path'
import type { Logger } from 'pino'
import { isActorGateway } from '../../access/index.js'
import { SymphonyError, hasCode, parseStrictJson } from '../../core/index.js'
import { withActor, type Database } from '../../db/index.js'
import {
  createHttpServer,
  describeDatabases,
  MetricsEndpoint,
  readOidcOptions,
  readWebhookSources,
  type Api,
  type HttpLimits,
  type HttpServer,
  type StatusSnapshot,
  type OidcOptions,
  type PayloadProtection,
  type WebhookReceiver,
  type WebhookSources,
} from '../../http/index.js'
import { alertRules, AlertWatch, Metrics, type AlertRule } from '../../observability/index.js'
import { readItems, readRailFields } from '../../outbox/index.js'
import { mergeFieldRules, maskPayloadText } from '../../rails/index.js'
import { partsOf, type AnySymphony, type SymphonyParts } from '../../symphony/index.js'
import { settleWithin } from '../../worker/index.js'
import { readSystemStatus } from '../database/readSystemStatus.js'
import type { AlertSettings, ApiSettings, ProcessSettings } from '../settings/settings.js'
import { dashboardFolder, packageVersion } from '../terminal/installation.js'

interface ProcessHttpServerOptions {
  readonly symphony: AnySymphony
  readonly log: Logger
  readonly accessToken: string | undefined
  /** Serve the API and the dashboard, too. */
  readonly api?: ApiServerOptions
  /** Receive the webhooks of these senders. */
  readonly webhooks?: WebhookSources | undefined
}

interface ApiServerOptions {
  /** What the database is called in answers. */
  readonly databaseName: string
  /** Whom the access token stands for. */
  readonly accessTokenOwner: string
  readonly oidc?: OidcOptions | undefined
  readonly limits: HttpLimits
  readonly alertRules: readonly AlertRule[]
}

/** The HTTP server of a process, composed: which role each route acts in, what "ready" means, what is counted. */
export class ProcessHttpServer {
  /** Fed by the workers of this process. */
  readonly metrics = new Metrics({ version: packageVersion() })
  readonly #server: HttpServer

  constructor({ symphony, log, accessToken, api, webhooks }: ProcessHttpServerOptions) {
    const parts = partsOf(symphony)
    const { database } = parts
    const readStatus = () => readSystemStatus(database)
    const watch = new AlertWatch(api?.alertRules)
    const readStatusSnapshot = async (): Promise<StatusSnapshot> => {
      // While the database does not answer, the alerts say so.
      const status = await readStatus().catch(() => undefined)
      return { alerts: await watch.look(status), queue: status?.outbox }
    }
    this.#server = createHttpServer({
      log,
      accessToken,
      isReady: () => isReady(database),
      metrics: new MetricsEndpoint(this.metrics.registry, readStatus),
      version: packageVersion(),
      ...(api === undefined ? {} : apiServerOptions(parts, api, readStatusSnapshot)),
      ...(webhooks === undefined ? {} : { webhooks: this.#receiverOf(database, webhooks) }),
    })
  }

  /** A port that was asked for must be free; the usual one is given up for any other. Resolves with the address. */
  async listen({ host, port }: Pick<ProcessSettings, 'host' | 'port'>, usualPort: number): Promise<string> {
    try {
      return await this.#server.listen({ host, port: port ?? usualPort })
    } catch (error) {
      if (!hasCode(error, 'EADDRINUSE')) throw error
      if (port === undefined) return this.#server.listen({ host, port: 0 })
      throw new SymphonyError('PORT_TAKEN', `Port ${port} of ${host} is in use.`, {
        cause: error,
        remedy: 'Give another --port, or none to have a free one chosen.',
      })
    }
  }

  close(): Promise<void> {
    return this.#server.close()
  }

  #receiverOf(database: Database, sources: WebhookSources): WebhookReceiver {
    return { ingest: database.as('symphony_ingest'), sources, onReceived: this.metrics.inbox.onReceived }
  }
}

function apiServerOptions(
  parts: SymphonyParts,
  { databaseName, accessTokenOwner, oidc, limits, alertRules: rules }: ApiServerOptions,
  readStatusSnapshot: Api['readStatusSnapshot'],
) {
  const folder = dashboardFolder()
  return {
    api: { ...apiOf(parts, { databaseName, readStatusSnapshot }), alertRules: rules },
    accessTokenOwner,
    limits,
    ...(oidc === undefined ? {} : { oidc }),
    ...(folder === undefined ? {} : { dashboardFolder: folder }),
  }
}

interface ApiParts {
  readonly databaseName: string
  readonly readStatusSnapshot: Api['readStatusSnapshot']
}

function apiOf(parts: SymphonyParts, { databaseName, readStatusSnapshot }: ApiParts): Api {
  const { database } = parts
  const control = database.as('symphony_control')
  return {
    roles: {
      ingest: database.as('symphony_ingest'),
      readonly: database.as('symphony_readonly'),
      auditor: database.as('symphony_auditor'),
      auth: database.as('symphony_auth'),
      control: ({ apiKey, owner }) => withActor(control, apiKey === null ? { person: owner } : { apiKey }),
      mayActFor: (people) => isActorGateway(control, people),
    },
    databaseName,
    readDatabases: () => describeDatabases([{ name: databaseName, database }]),
    readStatusSnapshot,
    rails: parts.contracts,
    protection: payloadProtection(parts),
  }
}

function payloadProtection({ contracts, vault }: SymphonyParts): PayloadProtection {
  return {
    encrypt: (role, instructions) => vault.encrypt(role, instructions),
    showerOf: async (role, railType) => {
      const rules = mergeFieldRules(contracts.get(railType)?.fields ?? [], await readRailFields(role, railType))
      return (text) => maskPayloadText(text, rules)
    },
  }
}

/** The cheapest question that needs a connection, the role and the schema: about an item that cannot exist. */
async function isReady(database: Database): Promise<boolean> {
  let answered = false
  const asking = readItems(database.as('symphony_readonly'), { outboxId: NIL_UUID }).then(() => (answered = true))
  await settleWithin(asking, READY_WITHIN_MS)
  return answered
}

const NIL_UUID = '00000000-0000-0000-0000-000000000000'
const READY_WITHIN_MS = 2_000

/** Files that the settings of an API name. The process reads them before it opens anything, so a mistake costs nothing. */
export interface ApiFiles {
  readonly webhooks: WebhookSources | undefined
  readonly oidc: OidcOptions | undefined
}

export async function loadApiFiles({ webhooks, oidc }: ApiSettings): Promise<ApiFiles> {
  return {
    webhooks: webhooks === undefined ? undefined : await loadWebhooksFile(webhooks),
    oidc: oidc === undefined ? undefined : await loadOidcFile(oidc),
  }
}

export function createApiOptions(
  url: string,
  settings: ApiSettings & AlertSettings,
  { oidc }: ApiFiles,
): ApiServerOptions {
  return {
    databaseName: decodeURIComponent(new URL(url).pathname.slice(1)) || 'postgres',
    accessTokenOwner: whoStarted(),
    oidc,
    limits: { requestsPerSecond: settings.requestsPerSecond, streamsMax: settings.streamsMax },
    alertRules: alertRules(settings),
  }
}

/** Returns the owner of the access token: the user of this process, who can read the token's file. */
function whoStarted(): string {
  try {
    return userInfo().username
  } catch {
    // A container's uid need not have a name.
    return `uid-${process.getuid?.() ?? 'unknown'}`
  }
}

/** Reads the trusted identity provider and the meaning of its claims. The file holds no secret. */
async function loadOidcFile(path: string): Promise<OidcOptions> {
  return readOidcOptions(parseStrictJson(await readFlagFile('--oidc', path), { argument: 'oidc' }))
}

/** Reads the senders of webhooks with their secrets. The file is separate, because few people may read it. */
export async function loadWebhooksFile(path: string): Promise<WebhookSources> {
  const name = basename(path)
  return readWebhookSources(name, parseStrictJson(await readFlagFile('--webhooks', path), { argument: name }))
}

async function readFlagFile(flag: string, path: string): Promise<Buffer> {
  try {
    return await readFile(path)
  } catch (error) {
    throw new SymphonyError('FILE_UNREADABLE', `The file that ${flag} names cannot be read: ${path}.`, { cause: error })
  }
}
