// docs/internals/mutants.md: which bug was planted where, and which test caught it.
import { join } from 'node:path'
import { root } from './plan.mjs'

export const MUTANTS_PAGE = join(root, 'docs', 'internals', 'mutants.md')

const HEADER = '| kind | the bug | planted in | caught by |\n| --- | --- | --- | --- |'

/**
 * The page after a run. Lines of mutants that were not part of it stay as they were; those of mutants that are gone, go.
 * @param {string} before
 * @param {readonly import('./plan.mjs').Mutant[]} mutants all of them
 * @param {ReadonlyMap<string, string>} verdicts of those that were planted, by their bugs
 */
export function mutantsPage(before, mutants, verdicts) {
  const known = new Map(linesOf(before).map((cells) => [cells[1], cells[3]]))
  const lines = mutants
    .toSorted((one, other) => one.kind.localeCompare(other.kind) || one.bug.localeCompare(other.bug))
    .map((mutant) => {
      const verdict = verdicts.get(mutant.bug) ?? known.get(cell(mutant.bug)) ?? 'not run'
      return `| ${cell(mutant.kind)} | ${cell(mutant.bug)} | \`${mutant.file}\` | ${verdict} |`
    })
  const caught = lines.filter((line) => !NOT_CAUGHT.test(line)).length
  return `# Planted bugs

Written by \`npm run mutants\`, which plants the bugs of \`tests/mutants/*.json\` one at a time in a copy of the checkout and runs the one spec file that must notice. **${caught} of ${mutants.length} caught.**
A bug that no longer fits the code, that does not compile, or that nobody notices fails the run; that each still fits is also checked by every \`npm test\`.

${HEADER}
${lines.join('\n')}
`
}

const NOT_CAUGHT = /\| (?:not run|\*\*.*\*\*) \|$/

/** The bugs that a page says are caught. */
export function readCaught(page) {
  const lines = page.split('\n').filter((line) => !NOT_CAUGHT.test(line))
  return new Set(linesOf(lines.join('\n')).map((cells) => cells[1]))
}

/** What a verdict of "caught" looks like on the page. */
export function caughtBy(file, title) {
  return `${cell(title)} (\`${file}\`)`
}

/** What one that was not caught looks like. */
export function notCaught(reason) {
  return `**${cell(reason)}**`
}

function linesOf(page) {
  return page
    .split('\n')
    .filter((line) => line.startsWith('| ') && !HEADER.includes(line))
    .map((line) =>
      line
        .split(/(?<!\\)\|/)
        .slice(1, -1)
        .map((text) => text.trim()),
    )
}

function cell(text) {
  return text.replaceAll('|', '\\|').replaceAll('\n', ' ')
}
