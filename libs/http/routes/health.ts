import type { Registry } from 'prom-client'
import { Type } from '#typebox'
import { createStatusRegistry, type SystemStatus } from '../../observability/index.js'
import type { Route } from './route.js'

interface Health {
  /** Returns whether this process can work. Must answer within seconds. */
  readonly isReady: () => Promise<boolean>
  readonly metrics: MetricsEndpoint
}

const Verdict = Type.Object({ status: Type.Enum(['ok', 'unavailable']) }, { additionalProperties: false })

export function healthRoutes({ isReady, metrics }: Health): readonly Route[] {
  const open = { method: 'GET', tag: 'health', access: 'open', participants: 'filtered', problems: [] } as const
  return [
    {
      ...open,
      path: '/healthz',
      summary: 'Shows that the process runs.',
      answers: { 200: { description: 'The process runs.', schema: Verdict } },
      example: { status: 200, answer: { status: 'ok' } },
      handle: async () => ({ status: 'ok' }),
    },
    {
      ...open,
      path: '/readyz',
      summary: 'Shows whether the process can work now.',
      answers: {
        200: { description: 'The process is ready.', schema: Verdict },
        503: { description: 'The database does not answer.', schema: Verdict },
      },
      example: { status: 200, answer: { status: 'ok' } },
      handle: async (_request, reply) => {
        if (!(await isReady())) void reply.code(503)
        return { status: reply.statusCode === 503 ? 'unavailable' : 'ok' }
      },
    },
    {
      ...open,
      path: '/metrics',
      summary: 'Counters of this process and gauges of the queue.',
      access: 'read',
      participants: 'refused',
      answers: { 200: { description: 'Prometheus text.', contentType: 'text/plain' } },
      example: { status: 200, answer: 'outbox_pending_depth{kind="payment"} 3\n' },
      handle: async (_request, reply) => {
        const page = await metrics.read()
        return reply.type(metrics.contentType).serializer(String).send(page)
      },
    },
  ]
}

/**
 * Counters of this process and gauges of the database, for Prometheus. Omits the gauges while the database does not
 * answer, because an old or zero depth would mislead alerts.
 */
export class MetricsEndpoint {
  readonly contentType: string
  readonly #counters: Registry
  readonly #readStatus: () => Promise<SystemStatus>

  constructor(counters: Registry, readStatus: () => Promise<SystemStatus>) {
    this.contentType = counters.contentType
    this.#counters = counters
    this.#readStatus = readStatus
  }

  async read(): Promise<string> {
    return [await this.#counters.metrics(), await this.#gauges()].join('\n')
  }

  async #gauges(): Promise<string> {
    try {
      return await createStatusRegistry(await this.#readStatus()).metrics()
    } catch {
      return ''
    }
  }
}
