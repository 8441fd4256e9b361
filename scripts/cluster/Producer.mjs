import { setTimeout as sleep } from 'node:timers/promises'
import { enqueueMany } from '../../dist/libs/outbox/index.js'
import { paymentOf } from './payments.mjs'

const BATCH = 250

/** Application that enqueues payments. Repeats each batch under the same keys until the database acknowledges it. */
export class Producer {
  #ingest
  #payments
  acknowledged = 0
  /** Number of calls that failed with disposition `retry` or `unknown`. */
  retries = 0

  constructor(ingest, payments) {
    this.#ingest = ingest
    this.#payments = payments
  }

  /** Enqueues all payments. `mayGoOn`, awaited before each batch, limits the length of the queue. */
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
        // A repeat is safe even if the batch was committed, because the idempotency keys are the same.
        if (error.disposition !== 'retry' && error.disposition !== 'unknown') throw error
        this.retries += 1
        await sleep(250)
      }
    }
  }
}
