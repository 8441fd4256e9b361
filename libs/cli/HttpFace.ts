import type { Logger } from 'pino'
import { AppError } from '../core/index.js'
import type { Database } from '../db/index.js'
import { createHttpServer, MetricsPage, type HttpServer, type WebhookSources } from '../http/index.js'
import { AlertWatch, Metrics, registryOfStatus } from '../observability/index.js'
import { readItems } from '../outbox/index.js'
import { settleWithin } from '../worker/index.js'
import { packageVersion } from './packageVersion.js'
import { readSystemStatus } from './readSystemStatus.js'
import type { ProcessSettings } from './settings.js'

export interface HttpFaceOptions {
  readonly database: Database
  readonly log: Logger
  readonly accessToken: string | undefined
  /** Serve the API, too. */
  readonly api: boolean
  /** Receive the webhooks of these senders. */
  readonly webhooks?: WebhookSources
}

/** The HTTP server of a process, composed: which role each route acts in, what "ready" means, what is counted. */
export class HttpFace {
  /** Fed by the workers of this process. */
  readonly metrics = new Metrics({ version: packageVersion() })
  /** For the API and the dashboard. While the database does not answer, that is what it says. */
  readonly alerts: AlertWatch
  readonly #server: HttpServer

  constructor({ database, log, accessToken, api, webhooks }: HttpFaceOptions) {
    const readonly = database.as('symphony_readonly')
    const ingest = database.as('symphony_ingest')
    const readStatus = () => readSystemStatus(database)
    this.alerts = new AlertWatch(async () => {
      const status = await readStatus().catch(() => undefined)
      return [this.metrics.registry, ...(status === undefined ? [] : [registryOfStatus(status)])]
    })
    this.#server = createHttpServer({
      log,
      accessToken,
      isReady: () => isReady(database),
      metrics: new MetricsPage(this.metrics.registry, readStatus),
      ...(api ? { instructions: { ingest, readonly } } : {}),
      ...(webhooks === undefined
        ? {}
        : { webhooks: { ingest, sources: webhooks, onReceived: this.metrics.inbox.onReceived } }),
    })
  }

  /** A port that was asked for must be free; the usual one is given up for any other. Resolves with the address. */
  async listen({ host, port }: Pick<ProcessSettings, 'host' | 'port'>, usualPort: number): Promise<string> {
    try {
      return await this.#server.listen({ host, port: port ?? usualPort })
    } catch (error) {
      if (!isPortTaken(error)) throw error
      if (port === undefined) return this.#server.listen({ host, port: 0 })
      throw new AppError('PORT_TAKEN', `Port ${port} of ${host} is in use.`, {
        cause: error,
        remedy: 'Give another --port, or none to have a free one chosen.',
      })
    }
  }

  close(): Promise<void> {
    return this.#server.close()
  }
}

/** The cheapest question that needs a connection, the role and the schema: about an item that cannot exist. */
async function isReady(database: Database): Promise<boolean> {
  let answered = false
  const asking = readItems(database.as('symphony_readonly'), { outboxId: NIL_UUID }).then(() => (answered = true))
  await settleWithin(asking, READY_WITHIN_MS)
  return answered
}

function isPortTaken(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'EADDRINUSE'
}

const NIL_UUID = '00000000-0000-0000-0000-000000000000'
const READY_WITHIN_MS = 2_000
