import { createHash } from 'node:crypto'
import { ArgumentRangeError, InvalidArgumentError, rejectUnknownKeys } from '../../core/index.js'
import type { RailRequest } from '../types.js'

export const SIMULATED_BEHAVIOURS = [
  /** Pays and answers. */
  'success',
  /** Refuses permanently. */
  'terminal',
  /** Refuses temporarily. */
  'retryable',
  /** Takes `slowMs`, then pays. Does not pay if the call is aborted meanwhile. */
  'slow',
  /** Pays and never answers. */
  'timeoutAfterPaying',
  /** Delivers the request twice, like a proxy that repeats requests: two payments, unless the rail is idempotent. */
  'duplicate',
  /** Pays, and answers with an invalid text. */
  'garbage',
  /** Refuses the connection, so nothing is sent. */
  'refused',
] as const

export type SimulatedBehaviour = (typeof SIMULATED_BEHAVIOURS)[number]

/** Weights of the behaviours: `{ success: 8, retryable: 2 }`. */
export type BehaviourWeights = Readonly<Partial<Record<SimulatedBehaviour, number>>>

/** Chooses the behaviour of a request. The same seed, reference and attempt give the same choice in every process. */
export type ChooseBehaviour = (request: RailRequest) => SimulatedBehaviour | undefined

/**
 * Creates the chooser. `payload.simulate` takes precedence: a behaviour, or a list with one per attempt (the last
 * repeats). Otherwise the weights decide. The choice is undefined if `simulate` names no behaviour.
 */
export function behaviourChooser(behaviour: SimulatedBehaviour | BehaviourWeights, seed: string): ChooseBehaviour {
  const weights = readWeights(typeof behaviour === 'string' ? { [behaviour]: 1 } : behaviour)
  const total = weights.reduce((sum, [, weight]) => sum + weight, 0)
  return (request) => {
    const script = request.payload['simulate']
    if (script !== undefined) return readScript(script, request.attempt)
    let place = chance(seed, 'behaviour', request) * total
    return weights.find(([, weight]) => (place -= weight) < 0)?.[0]
  }
}

/** Returns a number from 0 to below 1, the same for the same arguments. */
export function chance(seed: string, purpose: string, { reference, attempt }: RailRequest): number {
  const digest = createHash('sha256')
    .update(JSON.stringify([seed, purpose, reference, attempt]))
    .digest()
  return digest.readUIntBE(0, 6) / 2 ** 48
}

function readScript(script: unknown, attempt: number): SimulatedBehaviour | undefined {
  const word: unknown = Array.isArray(script) ? script[Math.min(attempt, script.length) - 1] : script
  return SIMULATED_BEHAVIOURS.find((known) => known === word)
}

function readWeights(given: BehaviourWeights): [SimulatedBehaviour, number][] {
  if (typeof given !== 'object' || given === null) {
    throw new InvalidArgumentError('behaviour', 'expected a behaviour, or weights by behaviour')
  }
  rejectUnknownKeys(given, SIMULATED_BEHAVIOURS, (key) => `behaviour.${key}`)
  const weights: [SimulatedBehaviour, number][] = []
  for (const behaviour of SIMULATED_BEHAVIOURS) {
    const weight = given[behaviour] ?? 0
    if (!Number.isFinite(weight) || weight < 0) {
      throw new ArgumentRangeError(`behaviour.${behaviour}`, `expected a weight of zero or more, got ${weight}`)
    }
    if (weight > 0) weights.push([behaviour, weight])
  }
  if (weights.length === 0) throw new ArgumentRangeError('behaviour', 'expected at least one weight above zero')
  return weights
}
