import { setTimeout as sleep } from 'node:timers/promises'
import { enqueueMany } from '../../dist/libs/outbox/index.js'
import { paymentOf } from './payments.mjs'

const BATCH = 250

/**
 * An application that knows what it wants paid: each batch is one transaction, made again under the same keys until it was
 * answered. What was acknowledged is never sent again.
 */
export class Producer {
  #ingest
  #payments
  acknowledged = 0
  /** Calls that were not answered, or refused for the time being. */
  retries = 0

  constructor(ingest, payments) {
    this.#ingest = ingest
    this.#payments = payments
  }

  /** `mayGoOn` keeps the queue a queue: it resolves when there is room for more. */
  async run(mayGoOn = async () => {}) {
    while (this.acknowledged < this.#payments) {
      await mayGoOn()
      const count = Math.min(BATCH, this.#payments - this.acknowledged)
      const first = this.acknowledged + 1
      await this.#retryUntilSuccess(Array.from({ length: count }, (_, index) => paymentOf(first + index)))
      this.acknowledged += count
    }
  }

  async #retryUntilSuccess(batch) {
    for (;;) {
      try {
        return await enqueueMany(batch, { tx: this.#ingest })
      } catch (error) {
        // Whoever does not know whether it was done does it again: the same key is the same payment.
        if (error.disposition !== 'retry' && error.disposition !== 'unknown') throw error
        this.retries += 1
        await sleep(250)
      }
    }
  }
}
