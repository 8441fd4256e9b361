import { SymphonyError, BATCH_SIZE, boundedInteger, createWorkerId, LEASE_SECONDS, requiredId } from '../core/index.js'

export interface RelayerOptions {
  /** Names this process in leases and in the ledger. @default host, pid and a UUID made at start */
  readonly workerId?: string
  /**
   * How long a lease lasts without renewal. Longer: a crashed worker's items wait longer. Shorter: more renewals, and less time
   * for a call to end before another worker may ask about it. @default 60
   */
  readonly leaseSeconds?: number
  /** Items per claim at the most. @default 50 */
  readonly batchSize?: number
  /**
   * Calls at once in this process, over all rails that set no `concurrency` of their own. One that does has that many slots
   * beside these (at most this many), so that it takes none from the others, however slow it is. @default 10
   */
  readonly concurrency?: number
  /** How long to wait at the most before looking for work unasked. @default 500 */
  readonly pollMs?: number
  /** Whether to LISTEN for notifications. Without it, polling alone finds the work. @default true */
  readonly listen?: boolean
  /** Whether to poll. Without it, only notifications and due times do; for tests of that path. @default true */
  readonly poll?: boolean
  /** Notifications within this time count as one. @default 30 */
  readonly debounceMs?: number
  /** Whether a call that takes long renews its lease. @default true */
  readonly renewLeases?: boolean
  /** How long a stop waits for calls in progress before it aborts them. @default 25000 */
  readonly shutdownMs?: number
  /** Failures in a row after which a rail gets a rest. @default 5 */
  readonly breakerFailures?: number
  /** How long that rest is at first; it doubles, at most sixteenfold. @default 5000 */
  readonly breakerOpenMs?: number
  /** How often the worker reports itself. @default 10000 */
  readonly heartbeatMs?: number
  /**
   * File that keeps the last known heartbeat of the database for the next worker, which detects a restore by it. One file
   * serves one database, on a disk that is not restored with it. @default none: the record ends with the process
   */
  readonly epochFile?: string
}

export type ResolvedRelayerOptions = Required<Omit<RelayerOptions, 'epochFile'>> & Pick<RelayerOptions, 'epochFile'>

const DEFAULTS = Object.freeze({
  leaseSeconds: 60,
  batchSize: 50,
  concurrency: 10,
  pollMs: 500,
  listen: true,
  poll: true,
  debounceMs: 30,
  renewLeases: true,
  shutdownMs: 25_000,
  breakerFailures: 5,
  breakerOpenMs: 5_000,
  heartbeatMs: 10_000,
})

/** A lease must outlive the call by this much, or a second worker could be asking while the first is still told. */
export const LEASE_MARGIN_MS = 2_000

export class RelayerOptionError extends SymphonyError {
  constructor(message: string, remedy: string) {
    super('INVALID_RELAYER_OPTION', message, { remedy })
  }
}

/** Fills in defaults, and refuses what could pay twice or never end. */
export function resolveRelayerOptions(
  given: RelayerOptions,
  rails: readonly { readonly type: string; readonly timeoutMs: number }[],
): ResolvedRelayerOptions {
  const options = { ...DEFAULTS, workerId: given.workerId ?? createWorkerId(), ...given }
  requiredId('workerId', options.workerId)
  boundedInteger('leaseSeconds', options.leaseSeconds, LEASE_SECONDS)
  boundedInteger('batchSize', options.batchSize, BATCH_SIZE)
  boundedInteger('concurrency', options.concurrency, { min: 1, max: 1_000 })
  boundedInteger('pollMs', options.pollMs, { min: 10, max: 60_000 })
  boundedInteger('debounceMs', options.debounceMs, { min: 0, max: 1_000 })
  boundedInteger('shutdownMs', options.shutdownMs, { min: 0, max: 600_000 })
  boundedInteger('breakerFailures', options.breakerFailures, { min: 1, max: 1_000 })
  boundedInteger('breakerOpenMs', options.breakerOpenMs, { min: 10, max: 600_000 })
  boundedInteger('heartbeatMs', options.heartbeatMs, { min: 100, max: 600_000 })
  if (!options.listen && !options.poll) {
    throw new RelayerOptionError('listen and poll are both off: nothing would ever find work', 'Turn one of them on.')
  }
  if (rails.length === 0)
    throw new RelayerOptionError('no rail is loaded', 'Give at least one rail, for example with --rails FILE.')
  for (const { type, timeoutMs } of rails) {
    // Without renewal, a lease that ends before the call does would let a second worker pay.
    if (!options.renewLeases && options.leaseSeconds * 1_000 <= timeoutMs + LEASE_MARGIN_MS) {
      throw new RelayerOptionError(
        `rail ${type}: a lease of ${options.leaseSeconds} s does not outlive a call of up to ${timeoutMs} ms ` +
          `by more than ${LEASE_MARGIN_MS} ms`,
        `Set leaseSeconds above ${(timeoutMs + LEASE_MARGIN_MS) / 1_000}, or shorten the rail's timeoutMs, or turn renewLeases on.`,
      )
    }
  }
  return options
}
