import { execFileSync } from 'node:child_process'
import { tokensOf } from '../../scripts/guardrails/typescriptTokens.js'

const UNKNOWN = 'unknown'
/** Folders whose code makes a result stale when it changes. */
const SOURCES = ['libs', 'schema', 'embedded']

/** Returns the abbreviated hash of HEAD, followed by `+` if the sources were changed since; `unknown` without git. */
export function commitOf(): string {
  const head = git('rev-parse', '--short=8', 'HEAD')
  return head === UNKNOWN || git('status', '--porcelain', '--', ...SOURCES) === '' ? head : `${head}+`
}

/** Returns why a result of this commit no longer holds for HEAD, or undefined if it does. Ignores changed comments. */
export function whyStale(commit: string | undefined): string | undefined {
  if (commit === undefined) return 'no commit'
  if (commit.endsWith('+')) return `changed sources on ${commit.slice(0, -1)}`
  const compared = git('diff', '--name-only', '--no-renames', commit, 'HEAD', '--', ...SOURCES)
  if (compared === UNKNOWN) return `${commit} is not in the history of this checkout`
  const changed = compared.split('\n').find((path) => path !== '' && codeOf(path, commit) !== codeOf(path, 'HEAD'))
  return changed === undefined ? undefined : `code changed since ${commit}: ${changed}`
}

/** Returns the code of a file without its comments; an empty text for a file without code. */
function codeOf(path: string, commit: string): string {
  const text = git('show', `${commit}:${path}`)
  if (/\.(ts|tsx|mjs)$/.test(path))
    return JSON.stringify(tokensOf({ path, text }).map(({ kind, text: of }) => [kind, of]))
  // The snapshot contains digests of functions with their comments.
  if (path.endsWith('.sql')) return path.endsWith('snapshot.sql') ? '' : sqlWithoutComments(text)
  return /\.(md|json)$/.test(path) ? '' : text
}

/** Removes comments and COMMENT ON statements, and joins white space outside of string literals. */
export function sqlWithoutComments(sql: string): string {
  return sql
    .replaceAll(/('(?:[^']|'')*')|(?:\s|--[^\n]*|\/\*[^]*?\*\/)+/g, (_, literal = ' ') => literal)
    .replaceAll(/ ?COMMENT ON (?:[^';]|'(?:[^']|'')*')*;/g, '')
    .trim()
}

function git(...words: string[]): string {
  try {
    return execFileSync('git', words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    // A packed copy has no history, and a shallow clone not all of it.
    return UNKNOWN
  }
}
