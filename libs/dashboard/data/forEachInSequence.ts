import { problemOf, RequestError, type ShownProblem } from './client.js'
import { pause } from './clock.js'
import { plural } from './format.js'

/**
 * Acts on the items one after the other. A refusal does not stop the others. Throws one error that names the refusals.
 */
export async function forEachInSequence<T>(all: readonly T[], act: (one: T) => Promise<unknown>): Promise<void> {
  const refusals: ShownProblem[] = []
  for (const one of all) {
    const refusal = await refusalOf(() => act(one))
    if (refusal !== undefined) refusals.push(refusal)
  }
  const [first] = refusals
  if (first === undefined) return
  const reasons = new Set(refusals.map(({ code, detail }) => detail ?? code))
  throw new RequestError({
    ...first,
    title: `${refusals.length} of ${all.length} ${plural(refusals.length, 'was', 'were')} refused`,
    detail: `${doneOf(all.length - refusals.length)}${[...reasons].slice(0, REASONS_SHOWN).join('. ')}`,
  })
}

function doneOf(size: number): string {
  return size === 0 ? '' : plural(size, 'The other one is done. ', 'The others are done. ')
}

/** Returns the refusal of one item. Throws errors that would concern every item. */
async function refusalOf(act: () => Promise<unknown>): Promise<ShownProblem | undefined> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await act()
      return undefined
    } catch (error) {
      const problem = problemOf(error)
      if (problem.status === 409 || problem.status === 404 || problem.status === 422) return problem
      // Rate limit: the server refills the bucket within a second.
      if (problem.status !== 429 || attempt === ATTEMPTS_MAX) throw error
      await pause(1_000, new AbortController().signal)
    }
  }
}

const REASONS_SHOWN = 3
const ATTEMPTS_MAX = 5
