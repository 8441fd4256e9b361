import { wasHeldByWorker, wasSent, type OutboxState } from '../fuzz/outboxModel.js'
import {
  isCancelled,
  type Attempt,
  type Item,
  type ItemEvent,
  type Lease,
  type LateReport,
  type Proposal,
} from '../fuzz/outboxRules.js'

/** Policy of a rail for unknown outcomes. In this world a rail has the name of its policy. */
export type RailPolicy = 'hold' | 'inquire' | 'resend'

/** Answer that a worker records. It determines the recorded state and the new value of outcome_unknown. */
export type Answer = 'paid' | 'unknown' | 'refused' | 'refusedForAll' | 'busy' | 'busyForAll'

/** Leased item that a worker processes. */
export interface Job {
  /** Index of the item. */
  readonly item: number
  readonly token: string
  /** `claimed`: nothing sent yet. `sending`: the request is on its way. `answered`: the answer is not recorded yet. */
  readonly phase: 'claimed' | 'sending' | 'answered'
  /** Whether the worker still trusts its lease by its own clock. Without trust it sends nothing. */
  readonly trusted: boolean
  /** Whether the claim returned the item with an unknown outcome. */
  readonly unknown: boolean
  readonly paidLate: boolean
  readonly repeatedExpiry: boolean
  /** Whether an inquiry has shown that no earlier call paid or will pay. */
  readonly settled: boolean
  readonly answer: Answer | null
}

/** Facts that the rail knows about one item, outside the database. */
export interface BookEntry {
  /** Number of payments that the rail made under this reference. */
  paid: number
  /** Whether the rail has refused this reference for good. */
  refused: boolean
  /** Whether a call to a `hold` rail may have paid. A recorded answer or two people end this doubt. */
  uncertain: boolean
}

export interface WorldState {
  outbox: OutboxState
  /** Work of each of the two workers. Null for an idle worker. */
  jobs: [Job | null, Job | null]
  book: BookEntry[]
}

export const WORKERS = ['w0', 'w1'] as const
export const PARTICIPANT = 'p'
/** Times of this world. The clock is always 0, so a time is either past or future. */
export const PAST = -1
export const FUTURE = 1

/**
 * Encodes a state, so that equal texts mean equal futures. Four things make the text smaller than the state:
 *
 * - Workers are interchangeable, because no rule reads their names except to compare them. The worker with the greater
 *   text of its work comes first. If both texts are equal, the smaller text of the whole state is used. `swapped`
 *   is true if the second worker comes first.
 * - Tokens that no worker remembers are not named. No worker can present them again.
 * - Of the events, the text keeps late outcomes, and the hold of a worker before any attempt. Of the attempts, it keeps
 *   their number (at most one beyond the retry ceiling), the remembered tokens and the last terminal outcome. No rule
 *   reads the rest.
 * - A hold has no reason, because without limits no rule reads it.
 */
export function encodeState(state: WorldState, ceiling: number): { readonly key: string; readonly swapped: boolean } {
  const [first = '', second = ''] = state.jobs.map(encodeJob)
  if (first > second || (first === '' && second === '')) return { key: encode(state, 0, 1, ceiling), swapped: false }
  const crossed = encode(state, 1, 0, ceiling)
  if (first < second) return { key: crossed, swapped: true }
  const straight = encode(state, 0, 1, ceiling)
  return crossed < straight ? { key: crossed, swapped: true } : { key: straight, swapped: false }
}

function encode({ outbox, jobs, book }: WorldState, first: 0 | 1, second: 0 | 1, ceiling: number): string {
  const a = jobs[first]?.token
  const b = jobs[second]?.token
  const nameOf = (token: string | null): string => {
    if (token === null) return '-'
    if (token === a) return 'a'
    return token === b ? 'b' : '-'
  }
  const { freeze, pauses, policies } = outbox
  let text = `${policies.size}${pauses.size}${freeze === null ? '.' : `${freeze.items}${Number(freeze.marked)}`}`
  for (const [index, item] of outbox.items.entries()) {
    const open = outbox.proposals.find(({ item: name, status }) => name === item.name && status === 'OPEN')
    const { paid, refused, uncertain } = book[index]!
    text += `|${item.rail[0]}${item.key}${item.position}${open === undefined ? '.' : open.decision[2]}`
    text += `${paid}${Number(refused) + 2 * Number(uncertain)}${encodeItem(item, nameOf, ceiling)}`
  }
  return `${text}|${encodeJob(jobs[first])}|${encodeJob(jobs[second])}`
}

function encodeItem(item: Item, nameOf: (token: string | null) => string, ceiling: number): string {
  const { terminal, hold, unknown, streak, late, lease, attempts, events } = item
  const marks = attempts.length === 0 && wasHeldByWorker(item) ? 'rw' : '.h'
  const held = marks[Number(hold !== null)]!
  const remembered = attempts.map(({ token }) => nameOf(token)).filter((name) => name !== '-')
  const reports = events.flatMap(({ type, report }) => {
    if (report === undefined) return []
    const name = nameOf(report.token)
    const mark = type === 'LATE_OUTCOME' ? 'l' : 'x'
    return name === '-' && (mark === 'l' || report.state !== 'DISPATCHED') ? [] : [`${mark}${report.state[0]}${name}`]
  })
  const rest = `${distinct(remembered)},${distinct(reports)}`
  if (terminal !== null) return `${letterOfEnded(item, terminal)}${held}${rest}`
  const leased =
    lease === null
      ? ''
      : `${nameOf(lease.token)}${at(lease) === PAST ? 'p' : 'f'}${lease.mark === null ? 'n' : lease.mark[0]}`
  const count = Math.min(attempts.length, ceiling + 1)
  return `P${held}${rest},${count}${Number(unknown)}${Math.min(streak, 3)}${late === null ? '.' : late.state[0]}${leased}`
}

/**
 * Returns C for a cancelled item that was never sent, and c for one that was; N for an item that people failed before it
 * was sent. The difference matters, because a redrive is refused if a later item of its stream was sent.
 */
function letterOfEnded(item: Item, terminal: string): string {
  if (isCancelled(item)) return item.attempts.length === 1 ? 'C' : 'c'
  return wasSent(item) ? terminal[0]! : 'N'
}

function encodeJob(job: Job | null): string {
  if (job === null) return ''
  const { item, phase, trusted, unknown, paidLate, repeatedExpiry, settled, answer } = job
  if (phase === 'claimed')
    return `${item}c${Number(trusted) + 2 * Number(unknown) + 4 * Number(paidLate)}${Number(repeatedExpiry)}`
  if (phase === 'sending') return `${item}s${Number(settled)}`
  return `${item}a${ANSWERS.indexOf(answer!)}`
}

const ANSWERS: readonly Answer[] = ['paid', 'unknown', 'refused', 'refusedForAll', 'busy', 'busyForAll']

function distinct(names: readonly string[]): string {
  return names.length < 2 ? names.join('') : [...new Set(names)].toSorted().join('')
}

function at({ expires }: Lease): number {
  return Number(expires)
}

/** Decodes a state. Workers, tokens and old attempts get new names; see `encodeState`. */
export function decodeState(key: string): WorldState {
  const parts = key.split('|')
  const second = parts.pop()!
  const first = parts.pop()!
  const head = parts.shift()!
  const outbox: OutboxState = {
    items: [],
    proposals: [],
    pauses: new Map(head[1] === '1' ? [[`stream:${PARTICIPANT}`, { kind: 'stream', name: PARTICIPANT }]] : []),
    policies: new Map(head[0] === '1' ? [[PARTICIPANT, 'halt']] : []),
    limits: new Map(),
    scopes: new Map(),
    tokens: 0,
    freeze: head[2] === '.' ? null : { items: Number(head[2]), marked: head[3] === '1' },
  }
  const book: BookEntry[] = []
  for (const [index, part] of parts.entries()) {
    const item = decodeItem(part, index)
    outbox.items.push(item)
    if (part[3] !== '.') outbox.proposals.push(decodeProposal(part[3]!, item))
    const flags = Number(part[5])
    book.push({ paid: Number(part[4]), refused: flags % 2 === 1, uncertain: flags >= 2 })
  }
  return { outbox, jobs: [decodeJob(first, 'a'), decodeJob(second, 'b')], book }
}

function decodeItem(part: string, index: number): Item {
  const [remembered, reports, live] = part.slice(8).split(',')
  const ended = part[6]!
  const attempts: Attempt[] = Array.from(remembered!, (token) => attempt('ZOMBIE_REQUEUE', token, 'expired'))
  const item: Item = {
    key: Number(part[1]),
    participant: PARTICIPANT,
    rail: RAILS[part[0]!]!,
    payload: 0,
    ordered: true,
    isMessage: false,
    replaces: null,
    name: `item${index + 1}`,
    redrive: index < 2 ? 0 : 1,
    sequence: index + 1,
    position: Number(part[2]),
    created: index,
    attempts,
    returns: [],
    events: (reports!.match(/.../g) ?? []).map(decodeReport),
    terminal: null,
    due: PAST,
    lease: null,
    unknown: false,
    streak: 0,
    late: null,
    hold: part[7] === '.' || part[7] === 'r' ? null : 'held',
  }
  if (part[7] === 'r' || part[7] === 'w') item.events.push({ type: 'HOLD_PLACED' })
  if (ended !== 'P') {
    item.terminal = ended === 'D' ? 'DISPATCHED' : 'FAILED'
    if (ended === 'c') attempts.push(attempt('RETRYABLE', '-', 'sent'))
    const action = ended.toUpperCase() === 'C' ? 'cancelled' : ended === 'N' ? 'decided' : 'sent'
    attempts.push(attempt(item.terminal, '-', action))
    return item
  }
  while (attempts.length < Number(live![0])) attempts.push(attempt('RETRYABLE', '-', 'sent'))
  item.unknown = live![1] === '1'
  item.streak = Number(live![2])
  item.late = live![3] === '.' ? null : lateReport(COMPLETIONS[live![3]!]!, '-')
  if (live!.length > 4) {
    const token = live![4]!
    const mark = live![6] === 'n' ? null : live![6] === 'a' ? 'awaited' : 'begun'
    item.lease = { token, worker: workerOf(token), expires: live![5] === 'p' ? PAST : FUTURE, mark }
  }
  return item
}

const RAILS: Readonly<Record<string, RailPolicy>> = { h: 'hold', i: 'inquire', r: 'resend' }
const COMPLETIONS: Readonly<Record<string, LateReport['state']>> = { D: 'DISPATCHED', F: 'FAILED', R: 'RETRYABLE' }
/** Decisions by their third letter: the first is not unique. */
const DECISIONS: Readonly<Record<string, Proposal['decision']>> = {
  S: 'DISPATCHED',
  I: 'FAILED',
  T: 'RETRY',
  D: 'REDRIVE',
}

function workerOf(token: string): string {
  if (token === '-') return 'gone'
  return token === 'a' ? WORKERS[0] : WORKERS[1]
}

function attempt(state: Attempt['state'], token: string, action: Attempt['action']): Attempt {
  return { state, token, worker: workerOf(token), reference: referenceFor(state), action, unknown: false }
}

function lateReport(state: LateReport['state'], token: string): LateReport {
  return { state, reference: referenceFor(state), token }
}

function decodeReport(text: string): ItemEvent {
  return {
    type: text[0] === 'l' ? 'LATE_OUTCOME' : 'TERMINAL_BLOCKED',
    report: lateReport(COMPLETIONS[text[1]!]!, text[2]!),
  }
}

/** Returns the rail's reference of a success. A rail gives one item one reference, so its text does not matter. */
export function referenceFor(state: Attempt['state']): string | null {
  return state === 'DISPATCHED' ? 'reference' : null
}

function decodeProposal(letter: string, item: Item): Proposal {
  const decision = DECISIONS[letter]!
  const reference = decision === 'DISPATCHED' ? referenceFor(decision) : null
  return { name: `of ${item.name}`, item: item.name, decision, reference, by: 'person0', status: 'OPEN' }
}

function decodeJob(text: string, token: string): Job | null {
  if (text === '') return null
  const item = Number(text[0])
  const flags = Number(text[2])
  const idle = { trusted: false, unknown: false, paidLate: false, repeatedExpiry: false, settled: false, answer: null }
  if (text[1] === 's') return { ...idle, item, token, phase: 'sending', settled: flags === 1 }
  if (text[1] === 'a') return { ...idle, item, token, phase: 'answered', answer: ANSWERS[flags]! }
  return {
    ...idle,
    item,
    token,
    phase: 'claimed',
    trusted: flags % 2 === 1,
    unknown: (flags & 2) !== 0,
    paidLate: flags >= 4,
    repeatedExpiry: text[3] === '1',
  }
}
