import * as fc from 'fast-check'
import { commitSeed } from '../support/commitSlice.js'
import { stepSequence } from './stepSequence.js'

/** A subject that is compared with its model. */
export interface FuzzSubject<S> {
  readonly name: 'outbox' | 'inbox' | 'scheduler' | 'lease'
  readonly step: fc.Arbitrary<S>
  /** Rejects at the first difference between the database and the model. */
  readonly run: (steps: readonly S[]) => Promise<void>
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
  /** Path of the failing sequence. Null if none failed. */
  readonly path: string | null
  /** Shortest failing sequence found. */
  readonly steps: readonly unknown[]
  /** Difference and the command to repeat it. Null if none failed. */
  readonly difference: string | null
}

export const STEPS_PER_SEQUENCE = 50
/** Time limit, long because 10,000 sequences take hours. Session timeouts end a call that hangs. */
export const FUZZ_TIMEOUT_MS = 3 * 3_600_000

/** Total number of sequences in `npm test`, and the share of each subject. The outbox is the most complex. */
const RUNS = 150
const SHARES = { outbox: 0.4, inbox: 0.2, scheduler: 0.2, lease: 0.2 } as const

/** Returns the settings of scripts/fuzz.mjs, or a short run with the seed of this commit. */
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

/** Runs random sequences until one fails, then shortens it while it still fails. */
export async function fuzz<S>({ name, step, run }: FuzzSubject<S>, settings: FuzzSettings): Promise<FuzzReport> {
  const details = await fc.check(fc.asyncProperty(stepSequence(step, STEPS_PER_SEQUENCE), run), {
    numRuns: settings.runs,
    seed: settings.seed,
    // A path names a sequence that is already shortened, so it is not shortened again.
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
