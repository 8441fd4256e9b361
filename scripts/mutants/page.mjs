// Builds and parses the page docs/internals/mutants.md: each mutant with the test that caught it.
import { join } from 'node:path'
import { root } from './plan.mjs'

export const MUTANTS_PAGE = join(root, 'docs', 'internals', 'mutants.md')

const HEADER = '| kind | mutant | file | caught by |\n| --- | --- | --- | --- |'

/**
 * Returns the page after a run. Keeps the results of mutants that did not run, and drops mutants that no longer exist.
 * @param {string} before
 * @param {readonly import('./plan.mjs').Mutant[]} mutants all of them
 * @param {ReadonlyMap<string, string>} verdicts results of the mutants that ran, by `bug`
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
  return `# Mutation tests

Written by \`npm run mutants\`, which applies the mutants of \`tests/mutants/*.json\` one at a time to a copy of the checkout and runs the spec file that must catch each. **${caught} of ${mutants.length} caught.**
A mutant that survives, does not compile or no longer applies fails the run. \`npm test\` also checks that each still applies.

${HEADER}
${lines.join('\n')}
`
}

const NOT_CAUGHT = /\| (?:not run|\*\*.*\*\*) \|$/

/** Returns the `bug` of each mutant that the page lists as caught. */
export function readCaught(page) {
  const lines = page.split('\n').filter((line) => !NOT_CAUGHT.test(line))
  return new Set(linesOf(lines.join('\n')).map((cells) => cells[1]))
}

/** Formats the table cell of a caught mutant. */
export function caughtBy(file, title) {
  return `${cell(title)} (\`${file}\`)`
}

/** Formats the table cell of a mutant that was not caught. */
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
