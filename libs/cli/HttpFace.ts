import type { Logger } from 'pino'
import { Registry } from 'prom-client'
import { AppError } from '../core/index.js'
import type { Database } from '../db/index.js'
import { createHttpServer, MetricsPage, type HttpServer, type WebhookSources } from '../http/index.js'
import { OutboxMetrics } from '../observability/index.js'
import { readItems, readOutboxStatus } from '../outbox/index.js'
import { settleWithin } from '../worker/index.js'
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
  readonly metrics: OutboxMetrics
  readonly #server: HttpServer

  constructor({ database, log, accessToken, api, webhooks }: HttpFaceOptions) {
    const registry = new Registry()
    const readonly = database.as('symphony_readonly')
    const ingest = database.as('symphony_ingest')
    this.metrics = new OutboxMetrics(registry)
    this.#server = createHttpServer({
      log,
      accessToken,
      isReady: () => isReady(database),
      metrics: new MetricsPage(registry, () => readOutboxStatus(readonly)),
      ...(api ? { instructions: { ingest, readonly } } : {}),
      ...(webhooks === undefined ? {} : { webhooks: { ingest, sources: webhooks } }),
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
