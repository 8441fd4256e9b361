import * as fc from 'fast-check'
import type { ClaimPick } from './AssumedClaims.js'
import type { Mark } from './inboxModel.js'

/** A step on the inbox. A number selects a message, or a claim among those that a worker believes to hold. */
export type InboxStep =
  | { readonly do: 'enqueue'; readonly messages: readonly MessageStep[] }
  | { readonly do: 'sight'; readonly message: MessageStep; readonly withContent: boolean }
  | { readonly do: 'claim'; readonly worker: number; readonly batch: number; readonly attemptsMax: number }
  | { readonly do: 'ack' | 'fail' | 'abandon'; readonly claims: ClaimPick; readonly retry: RetryStep }
  | { readonly do: 'mark'; readonly key: number; readonly to: Mark }
  | { readonly do: 'revive'; readonly pick: number; readonly unfiltered: boolean }
  | { readonly do: 'expire' | 'makeDue'; readonly pick: number }
  | { readonly do: 'purge' | 'nextEvent' }
  | { readonly do: 'crash'; readonly worker: number }
  | { readonly do: 'jump'; readonly forward: boolean }

export interface MessageStep {
  /** One of eight keys: two sources with four ids each. */
  readonly key: number
  /** Content, mostly 0. Another value is different content under the same key. */
  readonly payload: number
  readonly topic: number
  readonly future: boolean
}

export interface RetryStep {
  readonly error: boolean
  readonly delaySeconds: number | null
  readonly costsAttempt: boolean
}

const oneIn = (n: number): fc.Arbitrary<boolean> => fc.nat(n - 1).map((value) => value === 0)
const key = fc.nat(7)
const worker = fc.nat(2)
const rarelyOther = fc.constantFrom(0, 0, 0, 0, 0, 1)
const message: fc.Arbitrary<MessageStep> = fc.record({
  key,
  payload: rarelyOther,
  topic: rarelyOther,
  future: oneIn(6),
})
const claims: fc.Arbitrary<ClaimPick> = fc.record({
  worker,
  picks: fc.array(fc.nat(6), { minLength: 1, maxLength: 3, size: 'max' }),
  foreign: oneIn(10),
})
const retry: fc.Arbitrary<RetryStep> = fc.record({
  error: fc.boolean(),
  delaySeconds: fc.constantFrom(0, 0, 0, 7200, null),
  costsAttempt: fc.constantFrom(true, true, true, false),
})
const is = <K extends InboxStep['do']>(...kinds: readonly K[]): fc.Arbitrary<K> => fc.constantFrom(...kinds)

export const inboxStep: fc.Arbitrary<InboxStep> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      do: is('enqueue'),
      messages: fc.array(message, { minLength: 1, maxLength: 3, size: 'max' }),
    }),
  },
  { weight: 6, arbitrary: fc.record({ do: is('sight'), message, withContent: fc.boolean() }) },
  {
    weight: 18,
    arbitrary: fc.record({
      do: is('claim'),
      worker,
      batch: fc.integer({ min: 1, max: 4 }),
      attemptsMax: fc.integer({ min: 2, max: 3 }),
    }),
  },
  { weight: 18, arbitrary: fc.record({ do: is('ack', 'fail', 'abandon', 'abandon', 'abandon'), claims, retry }) },
  { weight: 8, arbitrary: fc.record({ do: is('mark'), key, to: fc.constantFrom('processing', 'done', 'dead') }) },
  { weight: 4, arbitrary: fc.record({ do: is('revive'), pick: fc.nat(9), unfiltered: oneIn(4) }) },
  { weight: 8, arbitrary: fc.record({ do: is('expire', 'makeDue'), pick: fc.nat(9) }) },
  { weight: 4, arbitrary: fc.record({ do: is('purge', 'nextEvent') }) },
  { weight: 1, arbitrary: fc.record({ do: is('crash'), worker }) },
  { weight: 2, arbitrary: fc.record({ do: is('jump'), forward: fc.constantFrom(true, true, false) }) },
)
