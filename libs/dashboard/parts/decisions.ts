import type { OutboxItem, Proposal } from '../../http/index.js'

export interface DecisionWords {
  readonly meaning: string
  /** Words after a verb and a colon on a button. */
  readonly short: string
  readonly effect: string
}

export const DECISIONS: Readonly<Record<Proposal['decision'], DecisionWords>> = {
  RETRY: {
    meaning: 'Send it again',
    short: 'send again',
    effect: 'A worker sends the payment again. If the rail has paid it already, it pays twice.',
  },
  DISPATCHED: {
    meaning: 'It was paid',
    short: 'it was paid',
    effect: 'The payment ends as dispatched. Nothing is sent. This is final.',
  },
  FAILED: {
    meaning: 'It was not paid and will not be',
    short: 'it was not paid',
    effect: 'The payment ends as failed. Nothing is sent. This is final.',
  },
  REDRIVE: {
    meaning: 'Redrive it as a new payment',
    short: 'redrive',
    effect: 'A worker sends the payment again, as a new one. If the rail has paid it already, it pays twice.',
  },
}

/** Approvers of a payment that a person enters. The API does not return how many a proposal needs. */
export const APPROVERS = 'Another person must approve it, or two above a limit that asks for two.'

const FIRST_SEND: DecisionWords = {
  meaning: 'Send it',
  short: 'send',
  effect: 'A worker sends the payment to its rail.',
}

/**
 * Returns the words of a decision. A retry of a payment without an attempt has other words, because it is the first
 * send.
 */
export function wordsOfDecision(
  decision: Proposal['decision'],
  item: Pick<OutboxItem, 'lastAttemptNo'> | undefined,
): DecisionWords {
  return decision === 'RETRY' && item?.lastAttemptNo === null ? FIRST_SEND : DECISIONS[decision]
}
