import { Counter, type Registry } from 'prom-client'
import type { InboxWorkerEvent } from '../inbox/index.js'
import { faultsCounter } from './faultsCounter.js'

/** What a receiver of messages was told about one. */
export interface ReceivedMessage {
  readonly created: boolean
  readonly contentDiffers: boolean
}

/** The inbox's metrics: what this process received and handled. How much waits is read from the database (`registryOfStatus`). */
export class InboxMetrics {
  readonly #received: Counter<'result'>
  readonly #handled: Counter
  readonly #abandoned: Counter
  readonly #died: Counter
  readonly #handlerMissing: Counter
  readonly #fenceLost: Counter
  readonly #takeovers: Counter
  readonly #faults: Counter<'during'>

  constructor(registry: Registry) {
    const registers = [registry]
    const counter = (name: string, help: string) => new Counter({ name, help, registers })
    this.#received = new Counter({
      name: 'inbox_received_total',
      help: 'Messages that came in: new, duplicate, or conflict for a known one with other content.',
      labelNames: ['result'],
      registers,
    })
    this.#handled = counter('inbox_handled_total', 'Messages handled, together with what their handlers wrote.')
    this.#abandoned = counter('inbox_abandoned_total', 'Attempts that failed; the message is due again later.')
    this.#died = counter('inbox_died_total', 'Messages declared dead: by their handler, or after their last attempt.')
    this.#handlerMissing = counter(
      'inbox_handler_missing_total',
      'Messages given back because no handler here knows their topic.',
    )
    this.#fenceLost = counter(
      'inbox_fence_lost_total',
      'Claims that had ended before their work did. A race, not an error.',
    )
    this.#takeovers = counter('inbox_takeovers_total', 'Messages claimed again because the claim before had expired.')
    this.#faults = faultsCounter(registry)
    for (const result of ['new', 'duplicate', 'conflict']) this.#received.inc({ result }, 0)
  }

  readonly onReceived = ({ created, contentDiffers }: ReceivedMessage): void => {
    this.#received.inc({ result: created ? 'new' : contentDiffers ? 'conflict' : 'duplicate' })
  }

  readonly onEvent = (event: InboxWorkerEvent): void => {
    switch (event.type) {
      case 'claimed':
        return this.#takeovers.inc(event.takeovers)
      case 'done':
        return this.#handled.inc()
      case 'retried':
        return this.#abandoned.inc()
      case 'died':
        return this.#died.inc()
      case 'handlerMissing':
        return this.#handlerMissing.inc()
      case 'fenceLost':
        return this.#fenceLost.inc()
      case 'fault':
        return this.#faults.inc({ during: event.during })
      case 'notBegun':
        return this.#faults.inc({ during: 'calling a handler' })
      case 'notified':
      case 'listening':
    }
  }
}
