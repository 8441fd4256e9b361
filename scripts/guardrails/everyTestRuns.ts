import type { Guardrail } from './guardrail.js'
import { isTypeScript } from './repository.js'
import { tokensOf } from './typescriptTokens.js'

/** A skipped test checks nothing, and vitest still reports success. */
export const everyTestRuns: Guardrail = {
  name: 'no test is skipped, focused or left for later',
  check: (repository) =>
    repository
      .filter((file) => isTypeScript(file) && file.path.startsWith('tests/'))
      .flatMap((file) => {
        const tokens = tokensOf(file)
        return tokens
          .filter(({ kind, text }, at) => {
            if (kind !== 'word') return false
            const before = tokens[at - 1]?.text
            if (before === '.') return SKIPPING_MEMBERS.has(text)
            return (
              SKIPPING_CALLS.has(text) || (SKIPPING_OPTIONS.has(text) && isTrueOption(tokens[at + 1]?.text, before))
            )
          })
          .map(({ text, line }) => ({ file: file.path, line, message: `"${text}" keeps a test from running` }))
      }),
}

const SKIPPING_MEMBERS = new Set(['skip', 'only', 'todo', 'skipIf', 'runIf', 'fails'])
const SKIPPING_CALLS = new Set(['xit', 'xtest', 'xdescribe', 'fit', 'fdescribe'])
const SKIPPING_OPTIONS = new Set(['skip', 'only', 'todo', 'fails'])

/** Recognizes `{ skip: … }`, the options argument of a test. */
function isTrueOption(after: string | undefined, before: string | undefined): boolean {
  return after === ':' && (before === '{' || before === ',')
}
