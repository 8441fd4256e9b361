import { systemClock, type Clock } from '../core/index.js'
import type { Queryable } from '../db/index.js'
import { settleWithin } from '../worker/index.js'
import { unservedOutboxRails, type UnservedRail } from './operate.js'

/** Warning for the sender of a payment. The payment is accepted and committed. */
export interface EnqueueWarning {
  readonly code: 'RAIL_NOT_SERVED'
  readonly message: string
}

interface CheckedRail {
  readonly untilMs: number
  warning?: EnqueueWarning
  /** Query under way, if any. It never rejects. */
  reading?: Promise<void> | undefined
}

/**
 * Warns of rails that no worker has served for a day. A process queries each rail at most once per 10 s, so a busy API
 * runs no extra statement per payment. The payments are already committed, so a failed or slow query gives no warning.
 */
export class RailWarnings {
  readonly #role: Queryable
  readonly #clock: Clock
  readonly #checked = new Map<string, CheckedRail>()

  /** Creates the warnings of a process. The role must be symphony_ingest. */
  constructor(role: Queryable, clock: Clock = systemClock) {
    this.#role = role
    this.#clock = clock
  }

  /** Returns one warning per unserved rail, for the first 1000 different rails. Never rejects. */
  async find(railTypes: Iterable<string>): Promise<EnqueueWarning[]> {
    const rails = [...new Set(railTypes)].slice(0, RAILS_MAX)
    const nowMs = this.#clock.monotonicMs()
    const stale = rails.filter((rail) => (this.#checked.get(rail)?.untilMs ?? nowMs) <= nowMs)
    if (stale.length > 0) this.#read(stale, nowMs + CACHED_MS)
    const checked = rails.flatMap((rail) => this.#checked.get(rail) ?? [])
    const reading = checked.flatMap((rail) => rail.reading ?? [])
    if (reading.length > 0) await settleWithin(Promise.all(reading), READ_WITHIN_MS)
    return checked.flatMap(({ warning }) => warning ?? [])
  }

  #read(rails: readonly string[], untilMs: number): void {
    const fresh = new Map<string, CheckedRail>(rails.map((rail) => [rail, { untilMs }]))
    const reading = this.#fill(fresh)
    // Callers choose the rail names, so the cache is bounded.
    if (this.#checked.size + fresh.size > CACHED_MAX) this.#checked.clear()
    for (const [rail, check] of fresh) {
      check.reading = reading
      this.#checked.set(rail, check)
    }
  }

  async #fill(checks: ReadonlyMap<string, CheckedRail>): Promise<void> {
    try {
      for (const rail of await unservedOutboxRails(this.#role, [...checks.keys()])) {
        const check = checks.get(rail.railType)
        if (check !== undefined) check.warning = describeUnserved(rail)
      }
    } catch {
      // A missing warning is better than an error about a committed payment.
    }
    for (const check of checks.values()) check.reading = undefined
  }
}

function describeUnserved({ railType, servedAt }: UnservedRail): EnqueueWarning {
  const since = servedAt === null ? 'yet' : `since ${servedAt.toISOString()}`
  return {
    code: 'RAIL_NOT_SERVED',
    message:
      `No worker has served the rail ${railType} ${since}; its payments wait. ` +
      'Start a worker with this rail, or check the spelling.',
  }
}

const RAILS_MAX = 1_000
const CACHED_MAX = 10_000
const CACHED_MS = 10_000
const READ_WITHIN_MS = 1_000
