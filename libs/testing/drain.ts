import { AppError, boundedInteger, InvalidArgumentError } from '../core/index.js'
import type { Database } from '../db/index.js'
import { OutboxRelayer, type RelayerCounts } from '../outbox/index.js'
import { loadRails, type Rail } from '../rails/index.js'
import type { TestDatabase } from './TestDatabase.js'

export interface DrainOptions {
  /**
   * Go on through time: where nothing is due but something will be, move on to that moment. Retries, delayed payments and
   * leases that others left behind are then worked off too. Needs a `TestDatabase`. @default false
   */
  readonly throughTime?: boolean
  /** Rounds at the most; a test that needs more has a loop in it. @default 200 */
  readonly roundsMax?: number
}

const ROUNDS = Object.freeze({ min: 1, max: 100_000 })

/** Carries everything that is due to these rails, and returns what it came to when a round has found nothing more. */
export async function drain(
  target: TestDatabase | Database,
  rails: readonly Rail[],
  options: DrainOptions = {},
): Promise<RelayerCounts> {
  const roundsMax = boundedInteger('roundsMax', options.roundsMax ?? 200, ROUNDS)
  const database = 'database' in target ? target.database : target
  const traveller = options.throughTime === true ? requireTestDatabase(target) : undefined
  const loaded = loadRails(rails)
  // No rest for a rail that fails on purpose: a breaker would end the drain before its work is done.
  const relayer = new OutboxRelayer(database, loaded, { listen: false, breakerFailures: 1_000 })
  let total: RelayerCounts | undefined
  let idleRounds = 0
  try {
    for (let round = 0; round < roundsMax; round += 1) {
      const counts = await relayer.runOnce()
      total = total === undefined ? counts : sum(total, counts)
      idleRounds = counts.claimed > 0 ? 0 : idleRounds + 1
      if (idleRounds === 0) continue
      if (traveller === undefined) return total
      const moved = await traveller.advanceToNextEvent([...loaded.keys()])
      // Something may have become due between the round and the question: one more round finds it.
      if (moved === null && idleRounds > 1) return total
    }
  } finally {
    await relayer.stop()
  }
  throw new DrainUnfinishedError(roundsMax)
}

function requireTestDatabase(target: TestDatabase | Database): TestDatabase {
  if ('database' in target) return target
  throw new InvalidArgumentError('throughTime', 'expected a TestDatabase to move the time of, got another database')
}

function sum(a: RelayerCounts, b: RelayerCounts): RelayerCounts {
  return {
    claimed: a.claimed + b.claimed,
    dispatched: a.dispatched + b.dispatched,
    failed: a.failed + b.failed,
    retryable: a.retryable + b.retryable,
    held: a.held + b.held,
    released: a.released + b.released,
    leasesLost: a.leasesLost + b.leasesLost,
  }
}

/** Work was left after the last round. */
export class DrainUnfinishedError extends AppError {
  constructor(rounds: number) {
    super('DRAIN_UNFINISHED', `after ${rounds} rounds there was still something to do`, {
      remedy: 'Look for an item that is enqueued again and again, or raise roundsMax.',
    })
  }
}
