import { randomUUID } from 'node:crypto'
import { loadRail, type LoadedRail, type Rail, type RailRequest } from '../../libs/rails/index.js'

/** A payload that every rail with the default checks accepts. */
export const PAYABLE = Object.freeze({ amount: '10.00', currency: 'EUR', destination: 'DE89370400440532013000' })

export function railRequest(given: Partial<RailRequest> = {}): RailRequest {
  const { reference = randomUUID() } = given
  return {
    reference,
    compactReference: reference.replaceAll('-', ''),
    instructionId: 'instruction-1',
    participantId: 'bank-1',
    sequenceId: 9_007_199_254_740_993n,
    idempotencyKey: 'key-1',
    attempt: 1,
    payload: PAYABLE,
    notAfter: new Date(Date.now() + 60_000),
    ...given,
  }
}

export function railOf(dispatch: Rail['dispatch'], given: object = {}): LoadedRail {
  return loadRail({ type: 'test', onUnknown: 'hold', dispatch, ...given })
}

/** Loads a rail that returns this answer. */
export function answering(answer: unknown, given: object = {}): LoadedRail {
  return loadRail({ type: 'test', onUnknown: 'hold', dispatch: () => answer, ...given })
}
