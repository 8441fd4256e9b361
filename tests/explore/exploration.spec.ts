import { expect, test } from 'vitest'
import { commitSeed } from '../support/commitSlice.js'
import { seededRandom } from '../../libs/cli/commands/demo/seededRandom.js'
import { explore } from './explore.js'
import { FAULTS, faultyWorld } from './faults.js'
import { StateSet } from './StateSet.js'
import { RULES } from './rules.js'
import { STEPS } from './steps.js'
import { buildWorlds, WORLD_CEILING, type World } from './World.js'
import { decodeState, encodeState, type WorldState } from './worldState.js'

test('the outbox model breaks no rule in any state that six steps can reach', () => {
  const { found, states, depth } = explore(buildWorlds(), 6)
  expect(found).toBeNull()
  expect(depth).toBe(6)
  expect(states).toBeGreaterThan(10_000)
})

test.for(FAULTS.map((fault) => [fault.name, fault] as const))(
  'the exploration finds the seeded fault: %s',
  ([, fault]) => {
    const { found } = explore([faultyWorld(fault)], fault.steps)
    expect(found).toMatchObject({ rule: fault.rule, steps: fault.steps })
    expect(found!.trace.length).toBeGreaterThanOrEqual(fault.steps)
  },
)

test('every rule of the exploration is broken by at least one seeded fault', () => {
  expect(new Set(FAULTS.map(({ rule }) => rule))).toEqual(new Set(RULES))
})

test('the trace of a violation describes each step in plain English, with its worker if any', () => {
  const fault = FAULTS.find(({ name }) => name.startsWith('a worker resends'))!
  expect(explore([faultyWorld(fault)], fault.steps).found).toEqual({
    rule: 'no blind resend',
    detail: 'item1 was sent again although an earlier call may have paid it',
    steps: 8,
    trace: [
      'worker 1 claims item 1',
      'worker 1 starts its call to the hold rail for item 1',
      'worker 1 sends the request for item 1; the rail pays',
      'an older copy of the database, without leases and outcomes, is restored, and dispatch freezes',
      'an operator lifts the freeze',
      'worker 2 claims item 1, whose outcome is unknown',
      'worker 2 starts its call to the hold rail for item 1',
      'worker 2 sends the request for item 1; the rail pays',
    ],
  })
})

test('a state that was encoded and decoded has the same next states, on random walks', () => {
  const random = seededRandom(`walks ${commitSeed()}`)
  for (const world of [...buildWorlds(), ...buildWorlds(), ...buildWorlds()]) {
    let state: WorldState = decodeState(encodeState(world.state, WORLD_CEILING).key)
    for (let length = 0; length < 40; length += 1) {
      const { key } = encodeState(state, WORLD_CEILING)
      const next = successors(world, state)
      expect(encodeState(decodeState(key), WORLD_CEILING).key).toBe(key)
      expect(new Set(successors(world, decodeState(key)).map(({ key: reached }) => reached))).toEqual(
        new Set(next.map(({ key: reached }) => reached)),
      )
      state = next[Math.floor(random() * next.length)]!.state
    }
  }
})

test('StateSet stores each state once, with the steps that led to it', () => {
  const set = new StateSet()
  const numbers = Array.from({ length: 100_000 }, (_, index) => set.add(`state ${index}`, index - 1, index % 50))
  expect(numbers.every((number, index) => number === index)).toBe(true)
  expect(set.add('state 77777', 5, 1)).toBe(-1)
  expect(set.size).toBe(100_000)
  expect(set.pathTo(3)).toEqual({ root: 0, steps: [1, 2, 3] })
})

function successors(world: World, state: WorldState): { readonly key: string; readonly state: WorldState }[] {
  return STEPS.flatMap((step) => {
    world.load(state)
    if (!world.mayRun(step) || world.run(step) === false) return []
    return [{ key: encodeState(world.state, WORLD_CEILING).key, state: world.state }]
  })
}
