import { SymphonyError } from '../core/index.js'

/**
 * Reason for which a lease is no longer held.
 *
 * - `expired`: no renewal succeeded in time, so this process stopped trusting the lease before the database could grant
 *   it to another owner.
 * - `refused`: the database refused a renewal. The lease expired there, or was acquired again by the same owner.
 * - `superseded`: this process acquired it again as the same owner.
 * - `released`: this process released it.
 */
export type LossReason = 'expired' | 'refused' | 'superseded' | 'released'

/**
 * The lease is lost, so the process must no longer act as the holder. This error is the abort reason of the lease's
 * signal.
 */
export class LostLeaseError extends SymphonyError {
  readonly resource: string
  readonly reason: LossReason

  constructor(resource: string, reason: LossReason) {
    super('LOST_LEASE', `the lease on ${resource} ${SENTENCES[reason]}`, {
      remedy: 'Stop the work that needs the lease; acquire the lease again to continue.',
    })
    this.resource = resource
    this.reason = reason
  }
}

const SENTENCES: Readonly<Record<LossReason, string>> = {
  expired: 'could not be renewed in time',
  refused: 'is no longer held: the database refused its renewal',
  superseded: 'was acquired again by the same owner',
  released: 'was released',
}
