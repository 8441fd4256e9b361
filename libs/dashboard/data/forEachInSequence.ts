import { problemOf, type ShownProblem } from './client.js'
import { pause } from './clock.js'

export interface Refusal<T> {
  readonly one: T
  readonly problem: ShownProblem
}

/** Result of a bulk action so far. Items without a result were not tried, except the next one if there is a failure. */
export interface BulkResult<T> {
  readonly done: readonly T[]
  readonly refused: readonly Refusal<T>[]
  /** Problem of the next item that would affect every item, and ended the bulk action. */
  readonly failure?: ShownProblem
}

/**
 * Acts on the items one after another, with one request each. A refusal does not stop the others. `stop` ends the
 * action after the current request.
 */
export async function forEachInSequence<T>(
  all: readonly T[],
  act: (one: T) => Promise<unknown>,
  stop: AbortSignal,
  onProgress: (result: BulkResult<T>) => void,
): Promise<BulkResult<T>> {
  const done: T[] = []
  const refused: Refusal<T>[] = []
  for (const one of all) {
    if (stop.aborted) break
    const problem = await problemIn(() => act(one), stop)
    if (problem === undefined) done.push(one)
    else if (isAboutOne(problem)) refused.push({ one, problem })
    else return { done, refused, failure: problem }
    onProgress({ done, refused })
  }
  return { done, refused }
}

async function problemIn(act: () => Promise<unknown>, stop: AbortSignal): Promise<ShownProblem | undefined> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await act()
      return undefined
    } catch (error) {
      const problem = problemOf(error)
      // Rate limit: waits until the server has refilled the bucket.
      if (problem.status !== 429 || attempt === ATTEMPTS_MAX || stop.aborted) return problem
      await pause(1_000, stop)
    }
  }
}

function isAboutOne({ status }: ShownProblem): boolean {
  return status === 409 || status === 404 || status === 422
}

const ATTEMPTS_MAX = 5
