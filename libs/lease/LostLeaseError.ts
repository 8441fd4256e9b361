import { SymphonyError } from '../core/index.js'

/**
 * Why a lease is not held any more.
 *
 * - `expired`: it could not be renewed in time, and this process stopped trusting it before the database gives it away.
 * - `refused`: the database said so. It expired there, or somebody acquired it as the same owner.
 * - `superseded`: this process acquired it again as the same owner.
 * - `released`: this process gave it back.
 */
export type LossReason = 'expired' | 'refused' | 'superseded' | 'released'

/** Whoever meets this must not act as the holder any more. It is also the reason with which the lease's signal aborts. */
export class LostLeaseError extends SymphonyError {
  readonly resource: string
  readonly reason: LossReason

  constructor(resource: string, reason: LossReason) {
    super('LOST_LEASE', `the lease on ${resource} ${SENTENCES[reason]}`, {
      remedy: 'Stop what needs the lease; acquire it again to go on.',
    })
    this.resource = resource
    this.reason = reason
  }
}

const SENTENCES: Readonly<Record<LossReason, string>> = {
  expired: 'could not be renewed in time',
  refused: 'is not ours any more, says the database',
  superseded: 'was acquired again by the same owner',
  released: 'was released',
}
