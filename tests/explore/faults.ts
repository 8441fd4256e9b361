import { OutboxModel } from '../fuzz/outboxModel.js'
import {
  isCancelled,
  type Completion,
  type Decision,
  type Item,
  type Lease,
  type Outcome,
} from '../fuzz/outboxRules.js'
import type { Rule } from './rules.js'
import type { Step } from './steps.js'
import { World, WORLD_CEILING } from './World.js'
import { FUTURE, type RailPolicy } from './worldState.js'

/** A seeded fault: one guard of the model or of the workers is missing. The exploration must find it. */
export interface Fault {
  readonly name: string
  /** Rule that the fault breaks first. */
  readonly rule: Rule
  /** Number of steps in the shortest trace. */
  readonly steps: number
  /** Policies of the rails of the two payments. */
  readonly rails: readonly [RailPolicy, RailPolicy]
  readonly model?: new (ceiling: number) => OutboxModel
  readonly world?: typeof World
}

export function faultyWorld({ rails, model: Model = OutboxModel, world: TheWorld = World }: Fault): World {
  return new TheWorld(rails, false, new Model(WORLD_CEILING))
}

const isExpired = (model: OutboxModel, item: Item): boolean => model.stateOf(item) === 'EXPIRED'

export const FAULTS: readonly Fault[] = [
  {
    name: 'people decide about a payment that has ended',
    rule: 'one outcome',
    steps: 4,
    rails: ['hold', 'inquire'],
    model: class extends OutboxModel {
      protected override requirePending(): void {}
    },
    world: class extends World {
      override mayRun(step: Step): boolean {
        return step.do === 'hold' ? this.state.outbox.items[step.item]?.hold === null : super.mayRun(step)
      }
    },
  },
  {
    name: 'a completion is accepted without a lease',
    rule: 'one outcome',
    steps: 7,
    rails: ['hold', 'inquire'],
    model: class extends OutboxModel {
      override complete(worker: string, outcome: Outcome): string {
        const item = this.items.find(({ name }) => name === outcome.item)!
        item.lease ??= { token: outcome.token, worker, expires: FUTURE, mark: null }
        return super.complete(worker, outcome)
      }
    },
  },
  {
    name: 'a worker calls a hold rail without a dispatch mark',
    rule: 'two people',
    steps: 6,
    rails: ['hold', 'inquire'],
    world: class extends World {
      protected override needsMark(): boolean {
        return false
      }
    },
  },
  {
    name: 'a worker resends an unknown outcome on a hold rail',
    rule: 'no blind resend',
    steps: 8,
    rails: ['hold', 'inquire'],
    world: class extends World {
      protected override holdsUnknown(): boolean {
        return false
      }
    },
  },
  {
    name: 'the end of a freeze marks no outcome as unknown',
    rule: 'cancelled stays unpaid',
    steps: 6,
    rails: ['hold', 'inquire'],
    model: class extends OutboxModel {
      protected override markFrozen(): void {}
    },
  },
  {
    name: 'an expired lease leaves the outcome known',
    rule: 'cancelled stays unpaid',
    steps: 6,
    rails: ['inquire', 'resend'],
    model: class extends OutboxModel {
      protected override mayHaveCalled(): boolean {
        return false
      }
    },
  },
  {
    name: 'a redrive is made while the first item is pending',
    rule: 'paid once',
    steps: 2,
    rails: ['resend', 'hold'],
    model: class extends OutboxModel {
      protected override requireRedrivable(): void {}
    },
    world: class extends World {
      override mayRun(step: Step): boolean {
        if (step.do !== 'redrive') return super.mayRun(step)
        const { items, proposals } = this.state.outbox
        return items[step.item]?.terminal === null && items.length === 2 && proposals.length === 0
      }
    },
  },
  {
    name: 'a renewal is granted after the lease was taken over',
    rule: 'paid once',
    steps: 8,
    rails: ['inquire', 'resend'],
    model: class extends OutboxModel {
      override renew(): string {
        return 'renewed'
      }
    },
  },
  {
    name: 'the retry ceiling fails an unknown outcome',
    rule: 'nothing lost',
    steps: 6,
    rails: ['resend', 'hold'],
    model: class extends OutboxModel {
      protected override recordedState(
        outcome: Omit<Outcome, 'item' | 'token'>,
        unknown: boolean,
        attemptNo: number,
      ): Completion {
        return super.recordedState(outcome, unknown && attemptNo < WORLD_CEILING, attemptNo)
      }
    },
  },
  {
    name: 'a cancelled payment still blocks its stream',
    rule: 'nothing lost',
    steps: 1,
    rails: ['hold', 'inquire'],
    model: class extends OutboxModel {
      override isBlocked(item: Item): boolean {
        return super.isBlocked(item) || this.items.some((other) => other.position < item.position && isCancelled(other))
      }
    },
  },
  {
    name: 'cancel ignores an expired lease',
    rule: 'cancelled stays unpaid',
    steps: 5,
    rails: ['resend', 'hold'],
    model: class extends OutboxModel {
      override whyNotCancellable(item: Item): string | undefined {
        return super.whyNotCancellable(isExpired(this, item) ? { ...item, lease: null } : item)
      }
    },
  },
  {
    name: 'cancel ignores a live lease',
    rule: 'cancelled stays unpaid',
    steps: 4,
    rails: ['hold', 'inquire'],
    model: class extends OutboxModel {
      override whyNotCancellable(item: Item): string | undefined {
        return super.whyNotCancellable(isExpired(this, item) ? item : { ...item, lease: null })
      }
    },
  },
  {
    name: 'cancel ignores an unknown outcome',
    rule: 'cancelled stays unpaid',
    steps: 5,
    rails: ['inquire', 'resend'],
    model: class extends OutboxModel {
      override whyNotCancellable(item: Item): string | undefined {
        return super.whyNotCancellable({ ...item, unknown: false })
      }
    },
  },
  {
    name: 'cancel ignores a freeze',
    rule: 'cancelled stays unpaid',
    steps: 5,
    rails: ['hold', 'inquire'],
    model: class extends OutboxModel {
      override whyNotCancellable(item: Item): string | undefined {
        return super.whyNotCancellable({ ...item, created: this.items.length })
      }
    },
  },
  {
    name: 'an ordered payment does not wait for the one before it',
    rule: 'in order',
    steps: 2,
    rails: ['hold', 'inquire'],
    model: class extends OutboxModel {
      override isBlocked(): boolean {
        return false
      }
    },
  },
  {
    name: 'a claim passes a freeze',
    rule: 'frozen',
    steps: 2,
    rails: ['hold', 'inquire'],
    model: class extends OutboxModel {
      protected override get isFrozen(): boolean {
        return false
      }
    },
  },
  {
    name: 'a claim leases a held payment',
    rule: 'held',
    steps: 2,
    rails: ['hold', 'inquire'],
    model: class extends OutboxModel {
      protected override isOpen(item: Item): boolean {
        return super.isOpen({ ...item, hold: null })
      }

      override stateOf(item: Item): string {
        return super.stateOf({ ...item, hold: null })
      }
    },
  },
  {
    name: 'one person both proposes and approves',
    rule: 'two people',
    steps: 3,
    rails: ['hold', 'inquire'],
    model: class extends OutboxModel {
      protected override requireSecondPerson(): void {}
    },
  },
  {
    name: 'one person decides to retry an unknown outcome',
    rule: 'two people',
    steps: 5,
    rails: ['hold', 'inquire'],
    model: class extends OutboxModel {
      protected override needsTwoPeople(_item: Item, decision: Decision): boolean {
        return decision !== 'RETRY'
      }
    },
  },
  {
    name: 'the dispatch mark of an expired lease is ignored',
    rule: 'two people',
    steps: 5,
    rails: ['hold', 'inquire'],
    model: class extends OutboxModel {
      protected override mayHaveCalled({ mark }: Lease): boolean {
        return mark === null
      }
    },
  },
]
