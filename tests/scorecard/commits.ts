import { execFileSync } from 'node:child_process'

const UNKNOWN = 'unknown'
/** Folders whose changes make a result stale. */
const SOURCES = ['libs', 'schema', 'embedded']

/** Returns the abbreviated hash of HEAD, followed by `+` if the sources were changed since; `unknown` without git. */
export function commitOf(): string {
  const head = git('rev-parse', '--short=8', 'HEAD')
  return head === UNKNOWN || git('status', '--porcelain', '--', ...SOURCES) === '' ? head : `${head}+`
}

/** Returns why a result of this commit no longer holds for HEAD, or undefined if it does. */
export function whyStale(commit: string | undefined): string | undefined {
  if (commit === undefined) return 'no commit'
  if (commit.endsWith('+')) return `changed sources on ${commit.slice(0, -1)}`
  const commits = git('rev-list', '--count', `${commit}..HEAD`, '--', ...SOURCES)
  if (commits === UNKNOWN) return `${commit} is not in the history of this checkout`
  return commits === '0' ? undefined : `${commits} commits in ${SOURCES.join(', ')} since ${commit}`
}

function git(...words: string[]): string {
  try {
    return execFileSync('git', words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    // A packed copy has no history, and a shallow clone not all of it.
    return UNKNOWN
  }
}
