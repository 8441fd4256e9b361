import * as fc from 'fast-check'
import type { Completion, Decision, Limit, PauseKind, Policy } from './outboxRules.js'

/**
 * A step on the outbox. Workers and people have numbers. Items, leases and proposals are selected by number among those
 * that exist at the time of the step, so a step stays valid when earlier steps are left out.
 */
export type OutboxStep =
  | { readonly do: 'enqueue'; readonly items: readonly EnqueueStep[] }
  | {
      readonly do: 'claim'
      readonly worker: number
      readonly batch: number
      readonly rails: number
      readonly marked: number
      readonly isMessage: boolean | null
    }
  | { readonly do: 'complete'; readonly lease: LeasePick; readonly outcome: OutcomeStep }
  | {
      readonly do: 'completeBatch'
      readonly lease: LeasePick
      readonly outcomes: readonly OutcomeStep[]
      readonly isMessage: boolean | null
    }
  | { readonly do: 'claimMessages'; readonly worker: number; readonly batch: number; readonly rails: number }
  | { readonly do: 'ack' | 'abandon' | 'fail'; readonly lease: LeasePick; readonly count: number }
  | { readonly do: 'freeze' | 'lift' }
  | { readonly do: 'heartbeat'; readonly worker: number }
  | { readonly do: 'seal'; readonly rows: number }
  | { readonly do: 'renew'; readonly lease: LeasePick; readonly seconds: number }
  | { readonly do: 'release' | 'begin' | 'holdLeased'; readonly lease: LeasePick }
  | { readonly do: 'reportLate'; readonly lease: LeasePick; readonly state: Completion; readonly reference: number }
  | { readonly do: 'expire' | 'makeDue'; readonly pick: number }
  | { readonly do: 'repair'; readonly batch: number }
  | { readonly do: 'placeHold' | 'redrive'; readonly person: number; readonly item: ItemPick }
  | { readonly do: 'cancel'; readonly item: ItemPick; readonly byKey: boolean }
  | { readonly do: 'resolve'; readonly person: number; readonly item: ItemPick; readonly decision: Decision }
  | { readonly do: 'approve' | 'withdraw'; readonly person: number; readonly item: ItemPick }
  | {
      readonly do: 'return'
      readonly item: ItemPick
      readonly amount: number
      readonly currency: 'EUR' | 'CHF'
      readonly reference: number
    }
  | { readonly do: 'pause'; readonly kind: PauseKind; readonly which: number }
  | { readonly do: 'resume'; readonly pick: number }
  | { readonly do: 'setPolicy'; readonly which: number; readonly policy: Policy }
  /** Two people set the limit of a participant, or remove it. */
  | { readonly do: 'setLimit'; readonly which: number; readonly limit: Limit | null }
  | { readonly do: 'crash'; readonly worker: number }
  /** Jumps the clock by more than any lease or delay. */
  | { readonly do: 'jump'; readonly forward: boolean }
  | { readonly do: 'nextEvent'; readonly rails: number; readonly isMessage: boolean | null }

export interface EnqueueStep {
  readonly key: number
  readonly ordered: boolean
  readonly future: boolean
  /** Field that differs from the usual content of this key: 0 none, 1 participant, 2 rail, 3 payload, 4 isMessage. */
  readonly variant: number
  /** Selects the item that this one replaces, mostly an ended item of the same participant. Null for none. */
  readonly replaces: ItemPick | null
}

/** Selects a lease of this worker. If `foreign`, another worker presents the lease. */
export interface LeasePick {
  readonly worker: number
  readonly pick: number
  readonly foreign: boolean
}

/** Selects an item that the step can change. If `unfiltered`, selects any item. */
export interface ItemPick {
  readonly pick: number
  readonly unfiltered: boolean
}

export interface OutcomeStep {
  readonly state: Completion
  readonly reference: number
  readonly unknown: boolean | null
  readonly hold: boolean
  readonly delaySeconds: number | null
}

const oneIn = (n: number): fc.Arbitrary<boolean> => fc.nat(n - 1).map((value) => value === 0)
const two = fc.nat(1)
/** Filter for messages or payments, mostly none. */
const isMessage = fc.constantFrom(null, null, true, false)
const worker = fc.nat(2)
const completion = fc.constantFrom('DISPATCHED', 'FAILED', 'RETRYABLE', 'RETRYABLE', 'RETRYABLE')
const lease: fc.Arbitrary<LeasePick> = fc.record({ worker, pick: fc.nat(6), foreign: oneIn(10) })
const item: fc.Arbitrary<ItemPick> = fc.record({ pick: fc.nat(9), unfiltered: oneIn(4) })
const outcome: fc.Arbitrary<OutcomeStep> = fc.record({
  state: completion,
  reference: fc.nat(2),
  unknown: fc.constantFrom(null, null, true, false),
  hold: oneIn(8),
  delaySeconds: fc.constantFrom(0, 0, 0, 7200, null),
})
const enqueue: fc.Arbitrary<EnqueueStep> = fc.record({
  key: fc.nat(11),
  ordered: oneIn(3),
  future: oneIn(8),
  variant: fc.constantFrom(0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4),
  replaces: fc.option(item, { freq: 7 }),
})

function step<K extends OutboxStep['do'], R extends object>(
  weight: number,
  kinds: readonly K[],
  fields: { readonly [F in keyof R]: fc.Arbitrary<R[F]> },
): { readonly weight: number; readonly arbitrary: fc.Arbitrary<{ do: K } & R> } {
  const arbitrary = fc
    .tuple(fc.constantFrom(...kinds), fc.record(fields))
    .map(([kind, rest]) => Object.assign({ do: kind }, rest))
  return { weight: weight * kinds.length, arbitrary }
}

/** Weights of the steps. Items get several attempts, and pauses and holds stay rare, because they prevent attempts. */
export const outboxStep: fc.Arbitrary<OutboxStep> = fc.oneof(
  step(9, ['enqueue'], { items: fc.array(enqueue, { minLength: 1, maxLength: 3, size: 'max' }) }),
  step(20, ['claim'], {
    worker,
    batch: fc.integer({ min: 1, max: 4 }),
    rails: fc.nat(3),
    marked: fc.nat(2),
    isMessage,
  }),
  step(14, ['complete'], { lease, outcome }),
  step(8, ['completeBatch'], {
    lease,
    outcomes: fc.array(outcome, { minLength: 2, maxLength: 3, size: 'max' }),
    isMessage,
  }),
  step(5, ['claimMessages'], { worker, batch: fc.integer({ min: 1, max: 4 }), rails: fc.nat(3) }),
  step(2, ['ack', 'abandon', 'fail'], { lease, count: fc.integer({ min: 1, max: 3 }) }),
  step(1, ['freeze'], {}),
  step(4, ['lift'], {}),
  step(2, ['heartbeat'], { worker }),
  step(1, ['seal'], { rows: fc.constantFrom(1, 10, 10_000) }),
  step(2, ['renew', 'begin'], { lease, seconds: fc.constantFrom(60, 3600) }),
  step(1, ['release', 'holdLeased'], { lease }),
  step(4, ['reportLate'], { lease, state: completion, reference: fc.nat(2) }),
  step(6, ['expire', 'makeDue'], { pick: fc.nat(9) }),
  step(4, ['repair'], { batch: fc.integer({ min: 1, max: 4 }) }),
  step(1, ['placeHold'], { person: two, item }),
  step(3, ['redrive'], { person: two, item }),
  step(6, ['resolve'], { person: two, item, decision: fc.constantFrom('RETRY', 'RETRY', 'FAILED', 'DISPATCHED') }),
  step(5, ['approve'], { person: two, item }),
  step(1, ['withdraw'], { person: two, item }),
  step(3, ['return'], {
    item,
    amount: fc.integer({ min: 1, max: 6 }),
    currency: fc.constantFrom('EUR', 'EUR', 'EUR', 'EUR', 'EUR', 'CHF'),
    reference: fc.nat(3),
  }),
  step(3, ['cancel'], { item, byKey: oneIn(3) }),
  step(1, ['pause'], { kind: fc.constantFrom('rail', 'participant', 'stream', 'all'), which: two }),
  step(3, ['resume'], { pick: fc.nat(5) }),
  step(1, ['setPolicy'], { which: two, policy: fc.constantFrom('continue', 'halt', 'halt') }),
  step(2, ['setLimit'], { which: two, limit: fc.constantFrom('count', 'approval', null, null) }),
  step(1, ['crash'], { worker }),
  step(1, ['jump'], { forward: fc.constantFrom(true, true, false) }),
  step(1, ['nextEvent'], { rails: fc.nat(3), isMessage }),
)
