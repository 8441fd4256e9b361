import * as fc from 'fast-check'
import { commitSeed } from '../support/commitSlice.js'
import { stepSequence } from './stepSequence.js'

/** Something that is played against its model. */
export interface FuzzSubject<S> {
  readonly name: 'outbox' | 'inbox' | 'scheduler' | 'lease'
  readonly step: fc.Arbitrary<S>
  /** Rejects at the first difference between the database and the model. */
  readonly play: (steps: readonly S[]) => Promise<void>
}

export interface FuzzSettings {
  readonly runs: number
  readonly seed: number
  readonly path?: string | undefined
}

export interface FuzzReport {
  readonly failed: boolean
  readonly runs: number
  readonly seed: number
  /** Null when nothing was found. */
  readonly path: string | null
  /** The shortest sequence found that still fails. */
  readonly steps: readonly unknown[]
  /** What to read about it, and how to see it again; null when nothing was found. */
  readonly difference: string | null
}

export const STEPS_PER_SEQUENCE = 50
/** Ten thousand sequences take their time; what hangs is found by the timeouts of the sessions. */
export const FUZZ_TIMEOUT_MS = 3 * 3_600_000

/** How many sequences `npm test` plays in all, and which part of them is whose: the outbox has most to go wrong. */
const RUNS = 500
const SHARES = { outbox: 0.4, inbox: 0.2, scheduler: 0.2, lease: 0.2 } as const

/** What scripts/fuzz.mjs asked for; without it, the short run from the seed of this commit. */
export function fuzzSettings(name: FuzzSubject<unknown>['name']): FuzzSettings {
  const runs = numberFrom('SYMPHONY_FUZZ_RUNS') ?? RUNS
  const share = process.env['SYMPHONY_FUZZ_ONLY'] === name ? 1 : SHARES[name]
  return {
    runs: Math.max(1, Math.round(runs * share)),
    seed: numberFrom('SYMPHONY_FUZZ_SEED') ?? commitSeed(),
    path: process.env['SYMPHONY_FUZZ_PATH'],
  }
}

function numberFrom(variable: string): number | undefined {
  const text = process.env[variable]
  return text === undefined ? undefined : Number(text)
}

/** Plays random sequences until one fails, and then shorter ones as long as they fail too. */
export async function fuzz<S>({ name, step, play }: FuzzSubject<S>, settings: FuzzSettings): Promise<FuzzReport> {
  const details = await fc.check(fc.asyncProperty(stepSequence(step, STEPS_PER_SEQUENCE), play), {
    numRuns: settings.runs,
    seed: settings.seed,
    // A path leads to one sequence, which is already as short as it gets.
    ...(settings.path === undefined ? {} : { path: settings.path, endOnFailure: true }),
  })
  const steps = details.counterexample?.[0] ?? []
  const report = {
    failed: details.failed,
    runs: details.numRuns,
    seed: details.seed,
    path: details.counterexamplePath,
    steps,
  }
  if (!details.failed) {
    process.stdout.write(`fuzz of the ${name}: ${details.numRuns} sequences from seed ${details.seed}, no difference\n`)
    return { ...report, difference: null }
  }
  const { errorInstance: error } = details
  const lines = [
    `${name}: the database and its model differ in sequence ${details.numRuns} of seed ${details.seed}.`,
    `Replay: npm run fuzz -- --only ${name} --seed ${details.seed} --path ${details.counterexamplePath}`,
    ...steps.map((given, index) => `  ${index + 1}. ${JSON.stringify(given)}`),
    error instanceof Error ? (error.stack ?? error.message) : String(error),
  ]
  return { ...report, difference: lines.join('\n') }
}
