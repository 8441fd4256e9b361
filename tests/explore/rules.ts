import { isCancelled } from '../fuzz/outboxRules.js'
import type { WorldState } from './worldState.js'

/** Rules that must hold in every state. */
export const RULES = [
  /** An item has at most one terminal outcome, and a payment is DISPATCHED at most once. */
  'one outcome',
  /** A `hold` rail is not called again while an earlier call may have paid, unless two people decided so. */
  'no blind resend',
  /** The rails pay a payment at most once, redrives included. */
  'paid once',
  /** Ledger and rail book agree on every ended item, and without further faults every item ends. */
  'nothing lost',
  /** No rail pays a cancelled item. */
  'cancelled stays unpaid',
  /** No item is leased before all earlier items of its stream have ended. */
  'in order',
  /** No item is leased and no marked call begins during a freeze. */
  'frozen',
  /** No held item is leased. */
  'held',
  /** A single person decides only about items that no call can have paid. */
  'two people',
] as const

export type Rule = (typeof RULES)[number]

export interface Violation {
  readonly rule: Rule
  readonly detail: string
}

/** Returns a rule that this state breaks. `World` checks the rules about single steps. */
export function brokenRule({ outbox, book }: WorldState): Violation | null {
  const paidByKey = [0, 0]
  const dispatchedByKey = [0, 0]
  for (const [index, item] of outbox.items.entries()) {
    const { name, key, terminal, attempts } = item
    const { paid } = book[index]!
    paidByKey[key]! += paid
    dispatchedByKey[key]! += Number(terminal === 'DISPATCHED')
    const outcomes = attempts.filter(({ state }) => state === 'DISPATCHED' || state === 'FAILED').length
    if (outcomes > 1) return { rule: 'one outcome', detail: `${name} has ${outcomes} terminal outcomes` }
    if (paid > 0 && isCancelled(item))
      return { rule: 'cancelled stays unpaid', detail: `the rail paid ${name}, which was cancelled` }
    if (paid > 0 && terminal === 'FAILED')
      return { rule: 'nothing lost', detail: `the rail paid ${name}, which ended as FAILED` }
    if (paid === 0 && terminal === 'DISPATCHED')
      return { rule: 'nothing lost', detail: `${name} ended as DISPATCHED, and the rail has not paid it` }
  }
  for (const key of [0, 1]) {
    if (paidByKey[key]! > 1) return { rule: 'paid once', detail: `the rails paid payment ${key + 1} twice` }
    if (dispatchedByKey[key]! > 1) return { rule: 'one outcome', detail: `payment ${key + 1} is DISPATCHED twice` }
  }
  return null
}
