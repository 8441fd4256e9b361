import type { JsonObject } from '../core/index.js'
import type { BreakerState } from '../worker/index.js'
import type { RelayerEvent } from './events.js'

interface BreakerChange {
  readonly atMs: number
  readonly railType: string
  readonly state: BreakerState
}

/** Outcomes that a worker recorded in one interval. */
interface Interval {
  readonly fromMs: number
  dispatched: number
  failed: number
  retried: number
}

/** History in a worker's heartbeat: outcomes of the last hour per 5 minutes, and the last changes of breakers. */
export class WorkerHistory {
  readonly #changes: BreakerChange[] = []
  readonly #intervals: Interval[] = []

  add(event: RelayerEvent, nowMs: number): void {
    if (event.type === 'outbox.breaker') {
      this.#changes.push({ atMs: nowMs, railType: event.railType, state: event.state })
      if (this.#changes.length > CHANGES_MAX) this.#changes.shift()
    } else if (event.type === 'outbox.recorded' || event.type === 'outbox.alreadyRecorded') {
      const interval = this.#intervalAt(nowMs)
      if (event.state === 'DISPATCHED') interval.dispatched += 1
      else if (event.state === 'FAILED') interval.failed += 1
      else interval.retried += 1
    }
  }

  /** Returns ages instead of times, because the process's clock may differ from the database's. */
  report(nowMs: number): JsonObject {
    const secondsAgo = (atMs: number) => Math.round((nowMs - atMs) / 1_000)
    return {
      breakerChanges: this.#changes.map(({ atMs, ...change }) =>
        Object.assign({ secondsAgo: secondsAgo(atMs) }, change),
      ),
      throughput: this.#intervals
        .filter(({ fromMs }) => nowMs - fromMs < INTERVAL_MS * INTERVALS_MAX)
        .map(({ fromMs, ...counts }) => Object.assign({ secondsAgo: secondsAgo(fromMs) }, counts)),
    }
  }

  #intervalAt(nowMs: number): Interval {
    const fromMs = nowMs - (nowMs % INTERVAL_MS)
    const last = this.#intervals.at(-1)
    if (last?.fromMs === fromMs) return last
    const interval = { fromMs, dispatched: 0, failed: 0, retried: 0 }
    this.#intervals.push(interval)
    if (this.#intervals.length > INTERVALS_MAX) this.#intervals.shift()
    return interval
  }
}

const CHANGES_MAX = 20
const INTERVAL_MS = 300_000
const INTERVALS_MAX = 12
