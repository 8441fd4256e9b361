// Writes docs/conformance.md, which lists the tests of each scenario of the specification. `npm run conformance` runs
// these tests and writes the page; `npm test` compares the page with its own run.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
export const CONFORMANCE_PAGE = join(root, 'docs', 'conformance.md')

/** Number of scenarios per group. */
const GROUPS = { OUTBOX: 6, INBOX: 5, SCHED: 10, LEASE: 10, SCHEMA: 3, API: 3, FUZZ: 1 }

export const CONFORMANCE_IDS = Object.entries(GROUPS).flatMap(([group, count]) =>
  Array.from({ length: count }, (_, index) => `PRIM-POSTGRES-${group}-${String(index + 1).padStart(3, '0')}`),
)

/** Returns the page for a vitest report. */
export function conformancePage(report) {
  const tests = testsById(report)
  const sections = CONFORMANCE_IDS.map((id) => {
    const lines = (tests.get(id) ?? []).map(
      ({ title, file, passed }) => `- ${passed ? 'passed' : 'FAILED'}: ${title} (\`${file}\`)`,
    )
    return `## ${id}\n\n${lines.length === 0 ? '- no test' : lines.join('\n')}\n`
  })
  return `# Conformance

Scenarios of the specification, each with the tests whose titles begin with its id and their results. \`npm run conformance\`
writes this page from a test run. \`npm test\` fails if the page differs from its own run, if a scenario has no test, or if an id
is unknown.

${sections.join('\n')}`
}

/** Returns the problems of a run as sentences; empty if every scenario has a test and the page is up to date. */
export function conformanceProblems(report, page) {
  const tests = testsById(report)
  const untested = CONFORMANCE_IDS.filter((id) => !tests.has(id)).map((id) => `${id} has no test`)
  const unknown = [...tests.keys()]
    .filter((id) => !CONFORMANCE_IDS.includes(id))
    .map((id) => `${id} is no scenario of the specification`)
  const stale = page === conformancePage(report) ? [] : ['docs/conformance.md is not of this run: npm run conformance']
  return [...untested, ...unknown, ...stale]
}

/** @returns the tests of each id, in an order independent of the run */
function testsById(report) {
  const tests = new Map()
  for (const { name: file, assertionResults } of report.testResults) {
    for (const { ancestorTitles, title, status } of assertionResults) {
      const id = [title, ...ancestorTitles].map(idOf).find((found) => found !== undefined)
      if (id === undefined) continue
      const sentence = [...ancestorTitles, title].map((part) => part.replace(`${id} `, '')).join(' › ')
      tests.set(id, [
        ...(tests.get(id) ?? []),
        { title: sentence, file: relative(root, file), passed: status === 'passed' },
      ])
    }
  }
  for (const list of tests.values()) list.sort((a, b) => compare(a.file, b.file) || compare(a.title, b.title))
  return tests
}

/** Returns the scenario id at the start of a title. A test without one takes the id of its `describe`. */
function idOf(title) {
  return /^PRIM-POSTGRES-[A-Z]+-\d{3}(?= )/.exec(title)?.[0]
}

function compare(a, b) {
  return a < b ? -1 : Number(a > b)
}

function writePage() {
  const scratch = mkdtempSync(join(tmpdir(), 'symphony-conformance-'))
  const reportFile = join(scratch, 'report.json')
  const vitest = createRequire(import.meta.url).resolve('vitest/package.json')
  const words = [
    'run',
    '-t',
    'PRIM-POSTGRES-',
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${reportFile}`,
  ]
  const { status } = spawnSync(process.execPath, [join(dirname(vitest), 'vitest.mjs'), ...words], {
    cwd: root,
    stdio: 'inherit',
  })
  const report = JSON.parse(readFileSync(reportFile, 'utf8'))
  rmSync(scratch, { recursive: true, force: true })
  writeFileSync(CONFORMANCE_PAGE, conformancePage(report))
  process.exitCode = status
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writePage()
