import type { IconName } from './Icon.js'

export type Tone = 'good' | 'flight' | 'wait' | 'warn' | 'held' | 'unknown' | 'bad'

interface StateStyle {
  readonly word: string
  readonly icon: IconName
  readonly tone: Tone
  readonly meaning: string
}

/** Word, icon and tone of each state, because some readers cannot distinguish colours. */
const STYLES: Readonly<Record<string, StateStyle>> = {
  DUE: style('Due', 'due', 'wait', 'Waits for the next free worker.'),
  SCHEDULED: style('Scheduled', 'scheduled', 'wait', 'Waits for a retry, or for its earliest time.'),
  LEASED: style('In flight', 'flight', 'flight', 'A worker has leased it and dispatches it.'),
  EXPIRED: style(
    'Lease expired',
    'expired',
    'warn',
    'Its worker did not renew the lease. Lease repair or the next claim takes it over.',
  ),
  BLOCKED: style(
    'Blocked',
    'blocked',
    'warn',
    'Waits for the payment before it in its stream, or for the end of a pause.',
  ),
  HELD: style('Held', 'held', 'held', 'No worker sends it until an operator decides.'),
  DISPATCHED: style('Dispatched', 'done', 'good', 'The rail accepted it. This is final.'),
  RETURNED: style('Returned', 'retry', 'warn', 'The rail sent money back after it had accepted the payment.'),
  FAILED: style('Failed', 'failed', 'bad', 'The rail refused it, or it reached the retry ceiling. This is final.'),
  RETRYABLE: style('Retryable', 'retry', 'warn', 'The rail did not pay this time. Symphony tries again.'),
  ZOMBIE_REQUEUE: style('Requeued', 'expired', 'warn', 'Its lease expired before the rail was called.'),
  OUTCOME_UNKNOWN: style(
    'Outcome unknown',
    'unknown',
    'unknown',
    'The rail may have paid, but no answer confirms it. This is neither a success nor a failure.',
  ),
  ACTIVE: style('Active', 'done', 'good', 'Runs as scheduled.'),
  PAUSED: style('Paused', 'held', 'held', 'Nothing is started until it is resumed.'),
  READY: style('Ready', 'due', 'wait', 'Waits to be picked up.'),
  CLAIMED: style('Claimed', 'flight', 'flight', 'A worker is processing it.'),
  DONE: style('Done', 'done', 'good', 'Finished.'),
  ENQUEUED: style('In the outbox', 'done', 'good', 'It became a message of the outbox.'),
  CANCELLED: style('Cancelled', 'failed', 'wait', 'It will not happen.'),
  seen: style('Waiting', 'due', 'wait', 'Waits for a worker of the inbox.'),
  processing: style('Processing', 'flight', 'flight', 'A worker is processing it.'),
  done: style('Done', 'done', 'good', 'Handled, once.'),
  dead: style('Dead', 'failed', 'bad', 'All its attempts failed. An operator can revive it.'),
  RELEASED: style('Released', 'done', 'wait', 'Released by its holder.'),
  open: style('Open', 'failed', 'bad', 'The circuit breaker blocks calls to this rail for a while.'),
  'half-open': style('Half open', 'retry', 'warn', 'One trial call at a time shows whether the rail answers again.'),
  closed: style('Closed', 'done', 'good', 'Calls go through.'),
}

function style(word: string, icon: IconName, tone: Tone, meaning: string): StateStyle {
  return { word, icon, tone, meaning }
}

/** Returns the style of a state. A state unknown to this release is shown by its name. */
export function styleOfState(state: string): StateStyle {
  return STYLES[state] ?? style(state, 'info', 'wait', '')
}

/** Returns the state to show for an attempt. An unknown outcome is neither a retry nor a failure. */
export function shownState({
  state,
  outcomeUnknown,
}: {
  readonly state: string
  readonly outcomeUnknown: boolean
}): string {
  return outcomeUnknown ? 'OUTCOME_UNKNOWN' : state
}
