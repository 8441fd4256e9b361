import { at, type Time } from './Timeline.js'

/** Types of the outbox model, and rules that depend only on one item. */

export type Completion = 'DISPATCHED' | 'FAILED' | 'RETRYABLE'
export type Decision = 'DISPATCHED' | 'FAILED' | 'RETRY'
export type PauseKind = 'rail' | 'participant' | 'stream' | 'all'
export type Policy = 'continue' | 'halt'
/**
 * Limit of a participant. Both kinds hold every payment: `count` allows 0 payments, `approval` needs two people to
 * release any amount.
 */
export type Limit = 'count' | 'approval'

/** Hold reason of a payment under each limit. */
export const LIMIT_HOLDS: Readonly<Record<Limit, string>> = { count: 'LIMIT_EXCEEDED', approval: 'AMOUNT_APPROVAL' }

/** Retry ceiling in the fuzz, set by OutboxRunner. Sequences of 50 steps rarely reach the real ceiling of 20. */
export const CEILING = 4

export interface Lease {
  readonly token: string
  readonly worker: string
  expires: Time
  mark: 'awaited' | 'begun' | null
}

export interface Attempt {
  readonly state: Completion | 'ZOMBIE_REQUEUE'
  readonly token: string | null
  readonly worker: string | null
  readonly reference: string | null
  readonly action: 'sent' | 'decided' | 'expired' | 'cancelled'
  /** Whether the outcome is unknown after this attempt. */
  readonly unknown: boolean
}

export interface LateReport {
  readonly state: Completion
  readonly reference: string | null
  readonly token: string
}

/** Money that the rail returned. */
export interface Return {
  readonly reference: string
  readonly amount: number
  readonly currency: 'EUR' | 'CHF'
}

/** Amount and currency of every payment in the fuzz. */
export const PAID = { amount: 10, currency: 'EUR' } as const

export interface ItemEvent {
  readonly type: string
  readonly report?: LateReport
  /** Whether the event is the hold of an operator or a limit, which shows no call. */
  readonly isUnsent?: boolean
}

export interface Instruction {
  readonly key: number
  readonly participant: string
  readonly rail: string
  readonly payload: number
  readonly ordered: boolean
  readonly isMessage: boolean
  /** Name of the item that this one replaces. */
  readonly replaces: string | null
  /** Earliest time. Undefined for as soon as possible. */
  readonly notBefore: number | undefined
}

export interface Item extends Omit<Instruction, 'notBefore'> {
  readonly name: string
  /** 0 for the item itself, n for its n-th redrive. */
  readonly redrive: number
  readonly sequence: number
  /**
   * Position among the ordered items of its participant: its sequence number, or the position of the item that it
   * redrives.
   */
  readonly position: number
  /** Order of creation. */
  readonly created: number
  readonly attempts: Attempt[]
  readonly events: ItemEvent[]
  returns: readonly Return[]
  terminal: 'DISPATCHED' | 'FAILED' | null
  due: Time
  lease: Lease | null
  unknown: boolean
  streak: number
  late: LateReport | null
  hold: string | null
}

export interface Pause {
  readonly kind: PauseKind
  readonly name: string
}

export interface Proposal {
  readonly name: string
  readonly item: string
  readonly decision: Decision | 'REDRIVE'
  readonly reference: string | null
  readonly by: string
  status: 'OPEN' | 'APPROVED' | 'WITHDRAWN'
}

export interface Outcome {
  readonly item: string
  readonly token: string
  readonly state: Completion
  readonly reference: string | null
  /** New value, or null to keep the old one. */
  readonly unknown: boolean | null
  readonly hold: string | null
  /** Delay in seconds. Null for the backoff of the database. */
  readonly delaySeconds: number | null
}

/** Returns the reason to hold an item that goes back to the queue, or null if it is not held. */
export function holdReason(
  { state, hold }: Omit<Outcome, 'item' | 'token'>,
  unknown: boolean,
  attemptNo: number,
  mark: Lease['mark'],
  ceiling: number,
): string | null {
  if (hold !== null) return hold
  if (state === 'FAILED') return 'FAILED_WHILE_OUTCOME_UNKNOWN'
  if (attemptNo >= ceiling) return 'RETRY_CEILING'
  return unknown && mark === 'begun' ? 'OUTCOME_UNKNOWN' : null
}

/** Returns the outcome that this token has recorded, if any. */
export function recordedBy(item: Item, token: string): string | undefined {
  const index = item.attempts.findIndex((attempt) => attempt.token === token && attempt.state !== 'ZOMBIE_REQUEUE')
  return index === -1 ? undefined : `already ${index + 1} ${item.attempts[index]!.state}`
}

export function describe({ name, participant, sequence }: Item): string {
  return `${name} ${participant}#${sequence}`
}

/** Returns the evidence that a claim shows for an unknown outcome. */
export function evidence({ unknown, late, attempts }: Item): string {
  if (!unknown && late === null) return ''
  const last = attempts.length === 0 ? 'none' : `${attempts.length} ${attempts.at(-1)!.state}`
  return `${unknown ? ' unknown' : ''} last ${last} late ${late === null ? 'none' : `${late.state} ${late.reference}`}`
}

export function isSameReport(a: LateReport | undefined, b: LateReport): boolean {
  return a?.state === b.state && a.reference === b.reference && a.token === b.token
}

export function byDueTime(a: Item, b: Item): number {
  return at(a.due) - at(b.due) || a.created - b.created
}

/** Whether the item was cancelled. It is never sent again. */
export function isCancelled({ attempts }: Item): boolean {
  return attempts.at(-1)?.action === 'cancelled'
}

/** Whether a late report says that the rail paid the item. */
export function reportedPaid({ events }: Pick<Item, 'events'>): boolean {
  return events.some(({ type, report }) => type === 'TERMINAL_BLOCKED' && report!.state === 'DISPATCHED')
}
