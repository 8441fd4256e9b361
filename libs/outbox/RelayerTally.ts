import type { RelayerEvent } from './events.js'

export interface RelayerCounts {
  readonly claimed: number
  readonly dispatched: number
  readonly failed: number
  readonly retryable: number
  readonly held: number
  readonly released: number
  readonly leasesLost: number
}

export class RelayerTally {
  readonly #counts = { claimed: 0, dispatched: 0, failed: 0, retryable: 0, held: 0, released: 0, leasesLost: 0 }

  get counts(): RelayerCounts {
    return { ...this.#counts }
  }

  add(event: RelayerEvent): void {
    const counts = this.#counts
    const { type } = event
    if (type === 'outbox.claimed') counts.claimed += event.items
    else if (type === 'outbox.released') counts.released += event.items
    else if (type === 'outbox.leaseLost') counts.leasesLost += 1
    else if (type === 'outbox.held') counts.held += 1
    else if (type === 'outbox.recorded' || type === 'outbox.alreadyRecorded') {
      if (event.state === 'DISPATCHED') counts.dispatched += 1
      else if (event.state === 'FAILED') counts.failed += 1
      else counts.retryable += 1
    }
  }
}
