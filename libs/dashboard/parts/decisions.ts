import type { Proposal } from '../../http/index.js'

interface DecisionWords {
  readonly meaning: string
  /** Text on a button, after a verb and a colon. */
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
