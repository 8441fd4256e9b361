import type { Attempt, OutboxEvent, Timeline } from '../../../http/index.js'
import { milliseconds } from '../../data/format.js'
import type { IconName } from '../../parts/Icon.js'
import { styleOfState, shownState, type Tone } from '../../parts/states.js'

export interface Entry {
  readonly key: string
  readonly at: string
  readonly title: string
  readonly icon: IconName
  readonly tone: Tone
  readonly actor: string | null
  /** Explanation for a new reader. */
  readonly note: string | null
  readonly facts: readonly (readonly [string, string])[]
}

export function timelineEntries({ item, attempts, events }: Timeline): readonly Entry[] {
  const enqueued: Entry = {
    key: 'enqueued',
    at: item.createdAt,
    title: 'Enqueued',
    icon: 'due',
    tone: 'wait',
    actor: null,
    note: item.redriveOf === null ? 'Committed by the caller.' : 'Sent again by decision of two people.',
    facts: [],
  }
  const rest = [...attempts.map(entryOfAttempt), ...events.filter(isListed).map(entryOfEvent)]
  return [enqueued, ...rest.toSorted((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0))]
}

/** Error code of an attempt row that completed an item by a late outcome, without a new call. */
const LATE_OUTCOME = 'LATE_OUTCOME'

function noteOfAction({ action, errorCode }: Attempt): string {
  if (action === 'inquired') {
    return errorCode === LATE_OUTCOME
      ? 'Nothing was sent: the late answer to an earlier send was used.'
      : 'Nothing was sent: the rail was asked about an earlier send.'
  }
  if (action === 'not_sent') return 'Nothing was sent: the attempt ended before the call.'
  if (action === 'cancelled') return 'Cancelled before it was sent. Nothing was paid, and nothing sends it again.'
  return action === 'decided' ? 'Two people decided; the rail was not called.' : ''
}

function entryOfAttempt(attempt: Attempt): Entry {
  const { attemptNo, state, claimedAt, completedAt, workerId, latencyMs, action } = attempt
  const { word, icon, tone, meaning } = styleOfState(shownState(attempt))
  const expired = state === 'ZOMBIE_REQUEUE' && attempt.outcomeUnknown ? 'lease expired, ' : ''
  return {
    key: `attempt ${attemptNo}`,
    at: completedAt ?? claimedAt ?? '',
    title: action === 'cancelled' ? 'Cancelled' : `Attempt ${attemptNo}: ${expired}${word.toLowerCase()}`,
    icon,
    tone,
    actor: workerId,
    note:
      [noteOfAction(attempt), action === 'sent' || attempt.outcomeUnknown ? meaning : ''].join(' ').trim() || meaning,
    facts: given([
      ['action', action.replace('_', ' ')],
      ['leased', claimedAt],
      [action === 'inquired' ? 'inquiry took' : 'took', latencyMs === null ? null : milliseconds(latencyMs)],
      ['rail reference', attempt.railReference],
      ['rail code', attempt.railCode],
      ['code', attempt.errorCode],
      ['message', attempt.errorMessage],
    ]),
  }
}

interface EventStyle {
  readonly title: string
  readonly icon: IconName
  readonly tone: Tone
  readonly note: string | null
}

const EVENT_STYLES: Readonly<Record<string, EventStyle>> = {
  LATE_OUTCOME: style('Late outcome', 'info', 'flight', 'A worker reported its result after it had lost the lease.'),
  TERMINAL_BLOCKED: style(
    'Another outcome was reported',
    'warning',
    'bad',
    'The recorded outcome does not change. An operator must compare both with the rail.',
  ),
  RETURN_RECORDED: style(
    'Returned',
    'retry',
    'warn',
    'The rail sent money back. The payment stays dispatched; a new payment can replace it.',
  ),
  CONTRADICTION_REVIEWED: style('Contradiction reviewed', 'done', 'good', null),
  HOLD_PLACED: style('Held', 'held', 'held', null),
  NOTE_ADDED: style('Note', 'info', 'wait', null),
  HOLD_RESOLVED: style('Hold resolved', 'done', 'good', null),
  DECISION_PROPOSED: style(
    'Decision proposed',
    'info',
    'held',
    'Another person must approve it; two must after a reconciliation, or for a payment entered above a limit that asks for two.',
  ),
  DECISION_APPROVED: style('First approval', 'info', 'held', 'One more person must approve it.'),
  DECISION_WITHDRAWN: style('Proposal withdrawn', 'failed', 'wait', null),
  REDRIVE_PROPOSED: style('Redrive proposed', 'info', 'held', 'Another person must approve it.'),
  REDRIVE_CREATED: style('Redriven', 'retry', 'flight', 'Sent again as a new payment, which refers to this one.'),
  LEASE_CLAIMED: style('Leased', 'flight', 'flight', null),
  LEASE_RELEASED: style('Lease released', 'due', 'wait', null),
  LEASE_RENEWED: style('Lease renewed', 'flight', 'flight', null),
  LEASE_EXPIRED_REPAIRED: style('Expired lease repaired', 'expired', 'warn', null),
  RESCHEDULED: style('Rescheduled', 'scheduled', 'wait', null),
  BLOCKED: style(
    'Blocked',
    'scheduled',
    'wait',
    'It waits for an earlier payment of its stream, or for the end of a pause.',
  ),
  UNBLOCKED: style('Unblocked', 'due', 'wait', 'No earlier payment of its stream and no pause holds it back.'),
  MARKED_UNKNOWN: style(
    'Outcome marked unknown',
    'warning',
    'unknown',
    'Dispatch was frozen: the rail may have paid it.',
  ),
  DISPATCH_BEGUN: style(
    'Dispatch marked',
    'flight',
    'flight',
    'The call starts now. From here on the rail may have paid.',
  ),
}

function style(title: string, icon: IconName, tone: Tone, note: string | null): EventStyle {
  return { title, icon, tone, note }
}

/** Returns whether the timeline shows an event. Hides ENQUEUED and ATTEMPT_COMPLETED, which repeat ledger rows. */
function isListed({ eventType }: OutboxEvent): boolean {
  return eventType !== 'ENQUEUED' && eventType !== 'ATTEMPT_COMPLETED'
}

function entryOfEvent({ eventNo, eventType, actor, detail, createdAt }: OutboxEvent): Entry {
  const known = EVENT_STYLES[eventType] ?? style(eventType, 'info', 'wait', null)
  return {
    key: `event ${eventNo}`,
    at: createdAt,
    ...known,
    actor,
    facts: factsOf(detail),
  }
}

/** Names of the facts to show first, in this order, because jsonb does not keep the order of names. */
const FACTS_FIRST = [
  'note',
  'decision',
  'reason',
  'state',
  'amount',
  'currency',
  'rail_reference',
  'proposed_by',
  'approved_by',
]

function rank(name: string): number {
  return FACTS_FIRST.includes(name) ? FACTS_FIRST.indexOf(name) : FACTS_FIRST.length
}

function factsOf(detail: OutboxEvent['detail']): Entry['facts'] {
  const entries = Object.entries(detail).filter(isForPeople)
  const sorted = entries.toSorted(([a], [b]) => rank(a) - rank(b) || (a < b ? -1 : 1))
  return given(sorted.map(([name, value]) => [wordsOf(name), textOf(name, value)]))
}

/** Returns whether people see a fact. Hides the hash of a lease token, which only `foldTrail` needs. */
function isForPeople([name]: [string, unknown]): boolean {
  return name !== 'lease_token_hash'
}

/** Returns the label of a fact. A latency has the same label as in an attempt. */
function wordsOf(name: string): string {
  return name === 'latency_ms' ? 'took' : name.replaceAll('_', ' ')
}

/** Formats a value. Times in events are numbers of microseconds. Other values that are not text become JSON. */
function textOf(name: string, value: unknown): string | null {
  if (value === null || value === undefined) return null
  if (name === 'latency_ms' && typeof value === 'number') return milliseconds(value)
  if (name.endsWith('_at') && typeof value === 'number') return new Date(value / 1_000).toISOString()
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function given(facts: readonly (readonly [string, string | null])[]): readonly (readonly [string, string])[] {
  return facts.flatMap(([name, value]) => (value === null ? [] : [[name, value] as const]))
}
