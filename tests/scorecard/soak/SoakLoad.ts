import { setTimeout as delay } from 'node:timers/promises'
import type { Random } from '../../../libs/cli/commands/demo/seededRandom.js'
import { Inbox, type InboxMessage } from '../../../libs/inbox/index.js'
import { createOrUpdateJob } from '../../../libs/scheduler/index.js'
import { ORDERS_TOPIC } from '../orders.js'
import type { OrderShop } from '../OrderShop.js'
import { buildPayment } from '../payments.js'
import type { RelayScenario } from '../RelayScenario.js'
import { retryUntilSuccess } from '../waitUntil.js'
import { JOBS_TOPIC } from './soakRails.js'

export const PAYMENTS_PER_SECOND = 100
const TICKS_PER_SECOND = 10
/** Payments per tick. One half reports its outcome to a topic. */
const PAYMENTS_PER_TICK = PAYMENTS_PER_SECOND / TICKS_PER_SECOND
const MESSAGES_PER_TICK = 2
/** One of this many messages is sent again later. */
const REPEATED_ONE_OF = 5
/**
 * Longest duration of the load on a machine that is too slow for its rate: `factor` times the planned one, plus
 * `slackSeconds`.
 */
const DURATION_MAX = { factor: 1.2, slackSeconds: 120 }
/** Maximum delay that the load makes up after an outage of the server. It skips the ticks of a longer delay. */
const BEHIND_MS_MAX = 1_000

interface SoakLoadOptions {
  readonly scenario: RelayScenario
  readonly shop: OrderShop
  readonly random: Random
  /** Number of payments after which the load ends. A machine that is too slow enqueues fewer. */
  readonly payments: number
  /** Number of jobs that are due every second. */
  readonly jobs: number
}

/** Clients with a steady rate: payments, outcome messages, inbox messages, and jobs that are due every second. */
export class SoakLoad {
  readonly #options: SoakLoadOptions
  readonly #inbox: Inbox
  #isOver = false
  #endsAtMs = Infinity
  #running: Promise<unknown> = Promise.resolve()
  payments = 0
  messages = 0

  constructor(options: SoakLoadOptions) {
    this.#options = options
    this.#inbox = new Inbox(options.scenario.db.database)
  }

  /** Starts the load. `finished` resolves after the last payment. */
  async start(): Promise<void> {
    const { scenario, jobs, payments } = this.#options
    const { factor, slackSeconds } = DURATION_MAX
    this.#endsAtMs = performance.now() + ((payments / PAYMENTS_PER_SECOND) * factor + slackSeconds) * 1_000
    const control = scenario.db.as('symphony_control')
    for (let job = 1; job <= jobs; job += 1) {
      await createOrUpdateJob(control, {
        name: `soak-${job}`,
        cron: '* * * * * *',
        topic: JOBS_TOPIC,
        payload: { job },
        missedRuns: 'all',
      })
    }
    const paying = this.#repeat(() => this.#pay()).finally(() => (this.#isOver = true))
    this.#running = Promise.all([paying, this.#repeat(() => this.#send())])
    // `finished` reports the error.
    this.#running.catch(() => {})
  }

  async finished(): Promise<void> {
    await this.#running
  }

  /** Calls the action at a steady rate until it returns false. */
  async #repeat(action: () => Promise<boolean>): Promise<void> {
    for (let next = performance.now(); await action();) {
      next = Math.max(next + 1_000 / TICKS_PER_SECOND, performance.now() - BEHIND_MS_MAX)
      await delay(Math.max(0, next - performance.now()))
    }
  }

  async #pay(): Promise<boolean> {
    const { scenario, shop, random, payments } = this.#options
    const count = Math.min(PAYMENTS_PER_TICK, payments - this.payments)
    if (count <= 0 || performance.now() > this.#endsAtMs) return false
    const built = Array.from({ length: count }, (_, index) => buildPayment(this.payments + index + 1, random))
    const half = Math.ceil(count / 2)
    const orders = built.slice(0, half).map((payment) => ({
      payment: { ...payment, outcomeTopic: ORDERS_TOPIC },
      intervention: undefined,
      afterMs: 0,
    }))
    await shop.enqueue(orders)
    if (count > half) await scenario.enqueue(built.slice(half))
    this.payments += count
    return true
  }

  async #send(): Promise<boolean> {
    if (this.#isOver) return false
    const numbers = Array.from({ length: MESSAGES_PER_TICK }, (_, index) => this.messages + index + 1)
    const batch = numbers.flatMap((number) =>
      number % REPEATED_ONE_OF === 0 ? [buildMessage(number), buildMessage(number - 3)] : [buildMessage(number)],
    )
    await retryUntilSuccess('an enqueue of inbox messages', () => this.#inbox.enqueueMany(batch))
    this.messages += numbers.length
    return true
  }
}

function buildMessage(number: number): InboxMessage {
  return { source: 'soak', messageId: String(number), topic: 'effect', payload: { number } }
}
