import { DatabaseError } from '../db/index.js'
import { sleep } from '../worker/index.js'
import type { OnLeaseEvent } from './events.js'
import type { Lease } from './Lease.js'
import { resolveLeaderOptions, type AcquireOptions, type LeaderOptions } from './options.js'

/** Argument of a leader's function. */
export interface Leadership {
  /** Signal that aborts when the lease is lost, or when `options.signal` asks the function to stop. */
  readonly signal: AbortSignal
  /** Latest fencing token. Every renewal increases it, so read it at each use. */
  readonly fencingToken: bigint
  throwIfLost(): void
}

export type LeaderFunction<T> = (leadership: Leadership) => Promise<T> | T

interface LeaderDependencies {
  readonly leases: { acquire(resource: string, options: AcquireOptions): Promise<Lease | null> }
  readonly onEvent: OnLeaseEvent
}

export async function runAsLeader<T>(
  { leases, onEvent }: LeaderDependencies,
  resource: string,
  lead: LeaderFunction<T>,
  options: LeaderOptions,
): Promise<T | undefined> {
  const { acquire, retryMs, stop } = resolveLeaderOptions(resource, options)
  let failures = 0
  while (!stop.aborted) {
    const lease = await leases.acquire(resource, acquire).catch((error: unknown) => {
      if (!(error instanceof DatabaseError) || error.disposition === 'fatal') throw error
      onEvent({ type: 'lease.fault', resource, during: 'waiting for leadership', error })
      return error
    })
    failures = lease instanceof Error ? failures + 1 : 0
    if (lease === null || lease instanceof Error) {
      await sleep(pauseMs(retryMs, failures), stop)
      continue
    }
    // `stop` may have aborted while the lease was being acquired.
    if (stop.aborted) {
      await lease[Symbol.asyncDispose]()
      break
    }
    const { outcome, lost } = await serve(lease, lead, stop)
    if (!lost) return resultOf(outcome, stop)
    // The lease was lost, so an error of the function is emitted as an event and not thrown.
    if (outcome.status === 'rejected') {
      onEvent({ type: 'lease.interrupted', resource, owner: acquire.owner, error: outcome.reason })
    }
  }
  return undefined
}

interface Term<T> {
  readonly outcome: PromiseSettledResult<T>
  /** Whether the lease was lost before the function ended. */
  readonly lost: boolean
}

async function serve<T>(lease: Lease, lead: LeaderFunction<T>, stop: AbortSignal): Promise<Term<T>> {
  const termEnd = new AbortController()
  const endTerm = () => termEnd.abort(lease.signal.aborted ? lease.signal.reason : stop.reason)
  lease.signal.addEventListener('abort', endTerm, { once: true })
  stop.addEventListener('abort', endTerm, { once: true })
  const leadership: Leadership = {
    signal: termEnd.signal,
    get fencingToken() {
      return lease.fencingToken
    },
    throwIfLost: () => lease.throwIfLost(),
  }
  const [outcome] = await Promise.allSettled([(async () => lead(leadership))()])
  const lost = lease.isLost
  lease.signal.removeEventListener('abort', endTerm)
  stop.removeEventListener('abort', endTerm)
  await lease[Symbol.asyncDispose]()
  return { outcome, lost }
}

function resultOf<T>(outcome: PromiseSettledResult<T>, stop: AbortSignal): T | undefined {
  if (outcome.status === 'fulfilled') return outcome.value
  const error: unknown = outcome.reason
  const isAborted = stop.aborted && (error === stop.reason || (error instanceof Error && error.name === 'AbortError'))
  if (isAborted) return undefined
  throw error
}

/**
 * Returns the delay before the next attempt. The delay doubles with each consecutive failure. A lease held by another
 * owner is not a failure.
 */
function pauseMs(retryMs: number, failures: number): number {
  if (failures === 0) return retryMs
  return Math.max(retryMs, Math.min(retryMs * 2 ** Math.min(failures, 20), RETRY_MAX_MS))
}

/** Maximum delay between attempts while the database fails, unless `retryMs` is longer. */
const RETRY_MAX_MS = 10_000
