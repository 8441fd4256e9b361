import * as fc from 'fast-check'
import type { ClaimPick } from './AssumedClaims.js'
import type { Delivery, Kind } from './schedulerModel.js'

/** A step on the scheduler. A number selects a job, or a timer, run or claim among those that exist. */
export type SchedulerStep =
  | { readonly do: 'schedule'; readonly topic: number; readonly delivery: Delivery; readonly future: boolean }
  | { readonly do: 'cancel'; readonly pick: number }
  | {
      readonly do: 'claim'
      readonly kind: Kind
      readonly worker: number
      readonly batch: number
      /** 0 for all topics, otherwise the number of one topic. */
      readonly topics: number
    }
  | { readonly do: 'enqueueDue'; readonly kind: Kind; readonly batch: number }
  | {
      readonly do: 'ack' | 'fail' | 'abandon'
      readonly kind: Kind
      readonly claims: ClaimPick
      readonly retry: RetryStep
    }
  | {
      readonly do: 'define'
      readonly job: number
      readonly cron: number
      readonly topic: number
      readonly delivery: Delivery
      readonly future: boolean
    }
  | { readonly do: 'pauseJob' | 'trigger' | 'deleteJob'; readonly job: number }
  | { readonly do: 'resumeJob' | 'postpone'; readonly job: number; readonly stale: boolean }
  | {
      readonly do: 'createRuns'
      readonly job: number
      readonly stale: boolean
      readonly occurrences: readonly OccurrenceStep[]
    }
  | { readonly do: 'dueJobs'; readonly batch: number }
  | { readonly do: 'expire' | 'makeDue' | 'exhaustAttempts' | 'makeJobDue'; readonly pick: number }
  | { readonly do: 'purge'; readonly kind: Kind }
  | { readonly do: 'nextEvent'; readonly outboxOnly: boolean }
  | { readonly do: 'crash'; readonly worker: number }
  | { readonly do: 'jump'; readonly forward: boolean }

export interface RetryStep {
  readonly error: boolean
  readonly delaySeconds: number
}

/** Occurrence in the past, in the future, or one that the job already had. */
export type OccurrenceStep = 'past' | 'future' | 'repeated'

const oneIn = (n: number): fc.Arbitrary<boolean> => fc.nat(n - 1).map((value) => value === 0)
const job = fc.nat(1)
const two = fc.nat(1)
const worker = fc.nat(1)
const batch = fc.integer({ min: 1, max: 4 })
const kind: fc.Arbitrary<Kind> = fc.constantFrom('timer', 'run', 'run')
const delivery: fc.Arbitrary<Delivery> = fc.constantFrom('claim', 'claim', 'outbox')
const claims: fc.Arbitrary<ClaimPick> = fc.record({
  worker,
  picks: fc.array(fc.nat(6), { minLength: 1, maxLength: 3, size: 'max' }),
  foreign: oneIn(10),
})
const retry: fc.Arbitrary<RetryStep> = fc.record({ error: fc.boolean(), delaySeconds: fc.constantFrom(0, 0, 7200) })
const occurrence: fc.Arbitrary<OccurrenceStep> = fc.constantFrom('past', 'past', 'past', 'future', 'repeated')
const is = <K extends SchedulerStep['do']>(...kinds: readonly K[]): fc.Arbitrary<K> => fc.constantFrom(...kinds)

export const schedulerStep: fc.Arbitrary<SchedulerStep> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: is('schedule'), topic: two, delivery, future: oneIn(4) }) },
  { weight: 2, arbitrary: fc.record({ do: is('cancel'), pick: fc.nat(9) }) },
  { weight: 16, arbitrary: fc.record({ do: is('claim'), kind, worker, batch, topics: fc.nat(2) }) },
  { weight: 5, arbitrary: fc.record({ do: is('enqueueDue'), kind, batch }) },
  { weight: 14, arbitrary: fc.record({ do: is('ack', 'fail', 'abandon', 'abandon'), kind, claims, retry }) },
  { weight: 6, arbitrary: fc.record({ do: is('define'), job, cron: two, topic: two, delivery, future: fc.boolean() }) },
  { weight: 5, arbitrary: fc.record({ do: is('pauseJob', 'trigger', 'trigger', 'trigger', 'deleteJob'), job }) },
  { weight: 4, arbitrary: fc.record({ do: is('resumeJob', 'resumeJob', 'postpone'), job, stale: oneIn(4) }) },
  {
    weight: 8,
    arbitrary: fc.record({
      do: is('createRuns'),
      job,
      stale: oneIn(5),
      occurrences: fc.array(occurrence, { maxLength: 2, size: 'max' }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: is('dueJobs'), batch }) },
  {
    weight: 8,
    arbitrary: fc.record({ do: is('expire', 'expire', 'makeDue', 'exhaustAttempts', 'makeJobDue'), pick: fc.nat(9) }),
  },
  { weight: 2, arbitrary: fc.record({ do: is('purge'), kind }) },
  { weight: 2, arbitrary: fc.record({ do: is('nextEvent'), outboxOnly: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: is('crash'), worker }) },
  { weight: 2, arbitrary: fc.record({ do: is('jump'), forward: fc.constantFrom(true, true, false) }) },
)
