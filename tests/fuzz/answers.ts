import { DatabaseError } from '../../libs/db/index.js'

/** Refusal by the model, with the answers that the database may give. */
export class Refusal extends Error {
  readonly answers: readonly string[]

  constructor(...answers: string[]) {
    super(answers.join(' or '))
    this.answers = answers
  }
}

/** Result of a step that found nothing to act on. The database was not called and need not be compared. */
export const NOTHING_DONE: string[] = []

/** Calls the model and then the database. Returns the difference of their answers, each of which may be a refusal. */
export async function compareAnswers(
  expect: () => string | string[],
  ask: () => Promise<string | string[]>,
  describeRefusal: (error: DatabaseError) => string = (error) => error.sqlstate ?? error.message,
): Promise<string[]> {
  let expected: readonly string[]
  try {
    expected = [describeAnswer(expect())]
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    expected = error.answers.map((answer) => `refused ${answer}`)
  }
  let actual: string
  try {
    actual = describeAnswer(await ask())
  } catch (error) {
    if (!(error instanceof DatabaseError)) throw error
    actual = `refused ${describeRefusal(error)}`
  }
  return expected.includes(actual) ? [] : [`answered: ${actual}\nexpected: ${expected.join('\nor: ')}`]
}

function describeAnswer(answer: string | string[]): string {
  return typeof answer === 'string' ? answer : `[${answer.join('; ')}]`
}

/** Returns `item1: hold_reason is null, expected RETRY_CEILING` for each unequal pair of expected and actual. */
export function fieldDifferences(
  name: string,
  fields: Readonly<Record<string, readonly [unknown, unknown]>>,
): string[] {
  return Object.entries(fields).flatMap(([field, [expected, actual]]) =>
    expected === actual ? [] : [`${name}: ${field} is ${String(actual)}, expected ${String(expected)}`],
  )
}

export function refuseDifferences(where: string, differences: readonly string[]): void {
  if (differences.length > 0) throw new Error(`${where}:\n${differences.join('\n')}`)
}
