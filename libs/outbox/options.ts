import {
  SymphonyError,
  BATCH_SIZE,
  boundedInteger,
  createWorkerId,
  definedOptions,
  LEASE_SECONDS,
  requiredId,
  requiredText,
} from '../core/index.js'
import type { LoadedRail } from '../rails/index.js'

export interface RelayerOptions {
  /** Name of this process in leases and in the ledger. @default host, pid and a UUID made at start */
  readonly workerId?: string
  /**
   * Seconds from a claim or renewal to the expiry of the lease. With a longer lease, the items of a crashed worker wait
   * longer. A shorter lease needs more renewals, and leaves a call less time before another worker may inquire about
   * it. @default 60
   */
  readonly leaseSeconds?: number
  /** Maximum number of items per claim. @default 50 */
  readonly batchSize?: number
  /**
   * Maximum number of concurrent calls over all rails without their own `concurrency`. A rail with its own
   * `concurrency` has separate slots, at most this number, so a slow rail takes none from the others. @default 10
   */
  readonly concurrency?: number
  /** Maximum time between two polls. @default 500 */
  readonly pollMs?: number
  /** Whether to LISTEN for notifications. Without it, only polling finds due items. @default true */
  readonly listen?: boolean
  /** Whether to poll. Without it, only notifications and due times start a claim. For tests. @default true */
  readonly poll?: boolean
  /** Time within which notifications count as one. @default 30 */
  readonly debounceMs?: number
  /** Whether to renew the leases of items that wait or whose call takes long. @default true */
  readonly renewLeases?: boolean
  /** Time that a stop waits for running calls before it aborts them. @default 25000 */
  readonly shutdownMs?: number
  /** Consecutive failures that open a rail's circuit breaker. @default 5 */
  readonly breakerFailures?: number
  /**
   * Time for which an open breaker admits no call. It doubles after each failed trial, at most sixteenfold. @default
   * 5000
   */
  readonly breakerOpenMs?: number
  /** Time between two heartbeats of the worker. @default 10000 */
  readonly heartbeatMs?: number
  /**
   * File that keeps the database's last known heartbeat for the next worker, which detects a restore by it. One file
   * serves one database, on a disk that is not restored with it. @default none: the record ends with the process
   */
  readonly epochFile?: string
  /**
   * Role in which handlers write through `tx`: the application's own, with rights to its tables and to none of
   * Symphony's. The login must be a member of it and of symphony_executor. @default the login
   */
  readonly handlerRole?: string
}

type Optional = 'epochFile' | 'handlerRole'

export type ResolvedRelayerOptions = Required<Omit<RelayerOptions, Optional>> & Pick<RelayerOptions, Optional>

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

/**
 * Margin by which a lease must outlive a call. Otherwise a second worker could inquire while the first call still runs.
 */
export const LEASE_MARGIN_MS = 2_000

/** PostgreSQL's limit for a role name, in bytes. */
const ROLE_LENGTH_MAX = 63

export class RelayerOptionError extends SymphonyError {
  constructor(message: string, remedy: string) {
    super('INVALID_RELAYER_OPTION', message, { remedy })
  }
}

/** Fills in defaults. Refuses options with which a payment could be made twice, or an item never be found. */
export function resolveRelayerOptions(
  given: RelayerOptions,
  rails: readonly Pick<LoadedRail, 'type' | 'timeoutMs' | 'onUnknown'>[],
): ResolvedRelayerOptions {
  const options = { ...DEFAULTS, workerId: createWorkerId(), ...definedOptions(given) }
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
  const { handlerRole } = options
  if (handlerRole !== undefined && requiredText('handlerRole', handlerRole, ROLE_LENGTH_MAX).startsWith('symphony_')) {
    // In a role of Symphony a handler could complete payments.
    throw new RelayerOptionError(
      `handlerRole: ${handlerRole} is a role of Symphony`,
      'Give the role that owns or may write the tables of the application.',
    )
  }
  if (!options.listen && !options.poll) {
    throw new RelayerOptionError(
      'listen and poll are both off, so the worker would find no items',
      'Turn one of them on.',
    )
  }
  if (rails.length === 0)
    throw new RelayerOptionError('no rail is loaded', 'Give at least one rail, for example with --rails FILE.')
  for (const { type, timeoutMs, onUnknown } of rails) {
    // Without renewal, a lease could end while its call still runs. A second worker could then pay too. An inquiry may
    // take the time of a call, and the call after it needs its own.
    const [work, workMs] = onUnknown === 'inquire' ? ['an inquiry and a call', 2 * timeoutMs] : ['a call', timeoutMs]
    if (!options.renewLeases && options.leaseSeconds * 1_000 <= workMs + LEASE_MARGIN_MS) {
      throw new RelayerOptionError(
        `rail ${type}: a lease of ${options.leaseSeconds} s does not outlive ${work} of up to ${workMs} ms ` +
          `by more than ${LEASE_MARGIN_MS} ms`,
        `Set leaseSeconds above ${(workMs + LEASE_MARGIN_MS) / 1_000}, or shorten the rail's timeoutMs, or turn renewLeases on.`,
      )
    }
  }
  return options
}
