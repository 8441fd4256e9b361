import { StateSet } from './StateSet.js'
import { describeStep } from './describeStep.js'
import { heal, type StepListener } from './heal.js'
import type { Violation } from './rules.js'
import { STEPS } from './steps.js'
import { WORLD_CEILING, type World } from './World.js'
import { decodeState, encodeState, type WorldState } from './worldState.js'

export interface Exploration {
  /** Number of states found, including the initial ones. */
  readonly states: number
  /** Number of steps that were tried and not refused. */
  readonly steps: number
  /** Number of steps up to which every reachable state was visited. */
  readonly depth: number
  /** First violation found, which has the shortest trace. */
  readonly found: Finding | null
}

export interface Finding extends Violation {
  /** Number of steps before the violation, or before `heal` found it. */
  readonly steps: number
  /** The steps in plain English. */
  readonly trace: readonly string[]
}

/**
 * Visits every state that is reachable from the worlds in at most `depthMax` steps, breadth first, and checks the rules
 * in each. Also calls `heal` in each state: without further faults, every payment must end. Stops at the first
 * violation, so its trace is a shortest one. A rule broken inside `heal` is reported only if no ordinary step breaks a
 * rule.
 */
export function explore(
  worlds: readonly World[],
  depthMax: number,
  onDepth: (depth: number, states: number) => void = () => {},
): Exploration {
  const { stackTraceLimit } = Error
  // A refused step throws an error. Building its stack trace would cost more than the step.
  Error.stackTraceLimit = 0
  try {
    return new Search(worlds).run(depthMax, onDepth)
  } finally {
    Error.stackTraceLimit = stackTraceLimit
  }
}

interface Frontier {
  readonly keys: string[]
  /** Number that the set of seen states gave to each key. */
  readonly numbers: number[]
  /** Index of the world of each key. */
  readonly worlds: number[]
}

class Search {
  readonly #worlds: readonly World[]
  readonly #roots: readonly string[]
  readonly #seen = new StateSet()
  readonly #healed = new StateSet()
  #steps = 0
  /** First rule broken inside `heal`. */
  #whileHealing: Finding | null = null

  constructor(worlds: readonly World[]) {
    this.#worlds = worlds
    this.#roots = worlds.map(({ state }) => keyOf(state))
  }

  run(depthMax: number, onDepth: (depth: number, states: number) => void): Exploration {
    let frontier = emptyFrontier()
    for (const [index, key] of this.#roots.entries()) push(frontier, key, this.#seen.add(key, -1, 0), index)
    let depth = 0
    let found: Finding | null = null
    onDepth(0, this.#seen.size)
    for (; depth < depthMax && frontier.keys.length > 0 && found === null; depth += 1) {
      const next = emptyFrontier()
      found = this.#expandAll(frontier, next, depth + 1 < depthMax)
      frontier = next
      onDepth(depth + 1, this.#seen.size)
    }
    return { states: this.#seen.size, steps: this.#steps, depth, found: found ?? this.#whileHealing }
  }

  /** @param keeps whether to collect the reached states in `next`, to expand them later */
  #expandAll({ keys, numbers, worlds }: Frontier, next: Frontier, keeps: boolean): Finding | null {
    for (const [index, key] of keys.entries()) {
      const world = this.#worlds[worlds[index]!]!
      const state = decodeState(key)
      for (const [number, step] of STEPS.entries()) {
        world.look(state)
        if (!world.mayRun(step)) continue
        world.load(state)
        const result = world.run(step)
        if (result === false) continue
        this.#steps += 1
        if (result !== true) return this.#describe(result, numbers[index]!, number, false)
        const reached = keyOf(world.state)
        const found = this.#seen.add(reached, numbers[index]!, number)
        if (found === -1) continue
        const broken = heal(world, (healed) => this.#healed.add(keyOf(healed), -1, 0) === -1)
        if (broken?.rule === 'nothing lost') return this.#describe(broken, numbers[index]!, number, true)
        if (broken !== null) this.#whileHealing ??= this.#describe(broken, numbers[index]!, number, true)
        if (keeps) push(next, reached, found, worlds[index]!)
      }
    }
    return null
  }

  /** Runs the steps again to describe each. A worker has the same number in the whole trace. */
  #describe({ rule, detail }: Violation, before: number, last: number, isHealed: boolean): Finding {
    const { root, steps } = this.#seen.pathTo(before)
    const world = this.#worlds[root]!
    let key = this.#roots[root]!
    let isSwapped = false
    const trace: string[] = []
    const tell: StepListener = (step, job) => void trace.push(describeStep(step, job, world.state, isSwapped))
    for (const number of [...steps, last]) {
      const step = STEPS[number]!
      const state = decodeState(key)
      world.load(state)
      world.run(step)
      tell(step, 'worker' in step ? state.jobs[step.worker] : null)
      const reached = encodeState(world.state, WORLD_CEILING)
      key = reached.key
      isSwapped = isSwapped !== reached.swapped
    }
    if (isHealed) {
      trace.push('from here on, nothing new fails')
      world.load(decodeState(key))
      heal(world, () => false, tell)
    }
    return { rule, detail, steps: steps.length + 1, trace }
  }
}

function keyOf(state: WorldState): string {
  return encodeState(state, WORLD_CEILING).key
}

function emptyFrontier(): Frontier {
  return { keys: [], numbers: [], worlds: [] }
}

function push({ keys, numbers, worlds }: Frontier, key: string, number: number, world: number): void {
  keys.push(key)
  numbers.push(number)
  worlds.push(world)
}
