import type { GlyphName } from './Glyph.js'

export type Tone = 'good' | 'flight' | 'wait' | 'warn' | 'held' | 'unknown' | 'bad'

export interface StateLook {
  readonly word: string
  readonly glyph: GlyphName
  readonly tone: Tone
  /** What it means, for whoever meets it the first time. */
  readonly meaning: string
}

/** Every state the product knows, each with a word, a glyph and a tone: never a colour alone. */
const LOOKS: Readonly<Record<string, StateLook>> = {
  DUE: look('Due', 'due', 'wait', 'Waits for the next free worker.'),
  SCHEDULED: look('Scheduled', 'scheduled', 'wait', 'Waits for its time: a retry, or a date it was given.'),
  LEASED: look('In flight', 'flight', 'flight', 'A worker holds its lease and is at the rail.'),
  EXPIRED: look(
    'Lease expired',
    'expired',
    'warn',
    'Its worker did not come back. Repair, or the next claim, takes it over.',
  ),
  BLOCKED: look(
    'Blocked',
    'blocked',
    'warn',
    'Waits for the payment before it in its stream, or for the end of a pause.',
  ),
  HELD: look('Held', 'held', 'held', 'Nobody may send it until a person decides.'),
  DISPATCHED: look('Dispatched', 'done', 'good', 'The rail accepted it. This is final.'),
  FAILED: look('Failed', 'failed', 'bad', 'The rail refused it, or its attempts were spent. This is final.'),
  RETRYABLE: look('Retryable', 'retry', 'warn', 'The rail did not pay this time. Symphony tries again.'),
  ZOMBIE_REQUEUE: look('Requeued', 'expired', 'warn', 'Its lease expired before the rail was called.'),
  OUTCOME_UNKNOWN: look(
    'Outcome unknown',
    'unknown',
    'unknown',
    'The rail may have paid, and no answer says so. It is neither a success nor a failure.',
  ),
  ACTIVE: look('Active', 'done', 'good', 'Runs as scheduled.'),
  PAUSED: look('Paused', 'held', 'held', 'Nothing is started until it is resumed.'),
  READY: look('Ready', 'due', 'wait', 'Waits to be picked up.'),
  CLAIMED: look('Claimed', 'flight', 'flight', 'Somebody is at it.'),
  DONE: look('Done', 'done', 'good', 'Finished.'),
  ENQUEUED: look('In the outbox', 'done', 'good', 'It is a message of the outbox now.'),
  CANCELLED: look('Cancelled', 'failed', 'wait', 'It will not happen.'),
  seen: look('Waiting', 'due', 'wait', 'Waits for a worker of the inbox.'),
  processing: look('Processing', 'flight', 'flight', 'A worker is at it.'),
  done: look('Done', 'done', 'good', 'Handled, once.'),
  dead: look('Dead', 'failed', 'bad', 'Its attempts were spent. It can be revived.'),
  RELEASED: look('Released', 'done', 'wait', 'Given back by its holder.'),
  open: look('Open', 'failed', 'bad', 'The breaker keeps calls away from this rail for a while.'),
  'half-open': look('Half open', 'retry', 'warn', 'A few calls are let through, to see whether the rail is back.'),
  closed: look('Closed', 'done', 'good', 'Calls go through.'),
}

function look(word: string, glyph: GlyphName, tone: Tone, meaning: string): StateLook {
  return { word, glyph, tone, meaning }
}

/** A state from a later release is shown as it is called. */
export function lookOf(state: string): StateLook {
  return LOOKS[state] ?? look(state, 'info', 'wait', '')
}

/** Returns the state to show for an attempt: an unknown outcome is no retry and no failure. */
export function shownState({
  state,
  outcomeUnknown,
}: {
  readonly state: string
  readonly outcomeUnknown: boolean
}): string {
  return outcomeUnknown ? 'OUTCOME_UNKNOWN' : state
}
