import type { Decision } from '../fuzz/outboxRules.js'
import type { Violation } from './rules.js'
import type { Step } from './steps.js'
import type { World } from './World.js'
import type { Job, WorldState } from './worldState.js'

/** Called after each step, with the job that the step's worker had before. */
export type StepListener = (step: Step, before: Job | null) => void

/**
 * First crashes both workers, lets their leases expire and lifts the freeze. Then lets one worker and two people finish
 * every payment of a world without further faults. Returns a violation if a payment does not end.
 *
 * @param isKnown whether an earlier call has already finished this state
 */
export function heal(
  world: World,
  isKnown: (state: WorldState) => boolean,
  onStep: StepListener = () => {},
): Violation | null {
  return new Healing(world, onStep).run(isKnown)
}

class Healing {
  readonly #world: World
  readonly #onStep: StepListener
  #violation: Violation | null = null

  constructor(world: World, onStep: StepListener) {
    this.#world = world
    this.#onStep = onStep
  }

  run(isKnown: (state: WorldState) => boolean): Violation | null {
    const world = this.#world
    this.#endFaults()
    if (isKnown(world.state)) return this.#violation
    for (let tries = 0; tries < TRIES_MAX && this.#violation === null; tries += 1) {
      const pending = world.state.outbox.items.filter(({ terminal }) => terminal === null)
      const head = pending.toSorted((left, right) => left.position - right.position)[0]
      if (head === undefined) return null
      // A failed payment pauses the stream of a participant with the policy `halt`.
      this.#try({ do: 'resume' })
      if (head.hold === null) this.#dispatch()
      else this.#decide(world.state.outbox.items.indexOf(head))
    }
    return this.#violation ?? { rule: 'nothing lost', detail: 'a payment does not end, although no fault is left' }
  }

  #endFaults(): void {
    for (const worker of [0, 1] as const) this.#try({ do: 'crash', worker })
    for (let item = 0; item < this.#world.state.outbox.items.length; item += 1) {
      this.#try({ do: 'expire', item })
      this.#try({ do: 'withdraw', item })
    }
    this.#try({ do: 'repair' })
    this.#try({ do: 'lift' })
  }

  #dispatch(): void {
    this.#try({ do: 'claim', worker: 0 })
    this.#try({ do: 'start', worker: 0 })
    const job = this.#world.state.jobs[0]
    const isRefused = job !== null && this.#world.state.book[job.item]!.refused
    this.#try({ do: 'send', worker: 0, rail: isRefused ? 'refuses' : 'pays' })
    this.#try({ do: 'record', worker: 0 })
  }

  #decide(item: number): void {
    const isPaid = this.#world.state.book[item]!.paid > 0
    const decisions: readonly Decision[] = isPaid ? ['DISPATCHED'] : ['RETRY', 'FAILED']
    for (const decision of decisions) {
      if (!this.#try({ do: 'decide', item, decision })) continue
      if (this.#world.state.outbox.proposals.every(({ status }) => status !== 'OPEN')) return
      if (this.#try({ do: 'approve', item, person: 1 })) return
      this.#try({ do: 'withdraw', item })
    }
  }

  /** Runs a step if it is possible. Stores the first rule that a step breaks. */
  #try(step: Step): boolean {
    if (!this.#world.mayRun(step)) return false
    const before = 'worker' in step ? this.#world.state.jobs[step.worker] : null
    const result = this.#world.run(step)
    if (result === false) return false
    this.#onStep(step, before)
    if (result !== true) this.#violation ??= result
    return true
  }
}

const TRIES_MAX = 20
