import { execFileSync } from 'node:child_process'

/** Folders whose changes make a result stale. */
const SOURCES = ['libs', 'schema', 'embedded']

/** Returns the abbreviated hash of HEAD, followed by `+` if the sources were changed since. */
export function commitOf(): string {
  const isChanged = git('status', '--porcelain', '--', ...SOURCES) !== ''
  return `${git('rev-parse', '--short=8', 'HEAD')}${isChanged ? '+' : ''}`
}

/** Returns why a result of this commit no longer holds for HEAD, or undefined if it does. */
export function whyStale(commit: string | undefined): string | undefined {
  if (commit === undefined) return 'no commit'
  if (commit.endsWith('+')) return `changed sources on ${commit.slice(0, -1)}`
  const commits = Number(git('rev-list', '--count', `${commit}..HEAD`, '--', ...SOURCES))
  return commits === 0 ? undefined : `${commits} commits in ${SOURCES.join(', ')} since ${commit}`
}

function git(...words: string[]): string {
  try {
    return execFileSync('git', words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    // A packed copy has no history, and a shallow clone not all of it.
    return 'unknown'
  }
}
