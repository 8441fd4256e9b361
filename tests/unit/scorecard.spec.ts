import { execFileSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { commitOf, sqlWithoutComments } from '../scorecard/commits.js'
import { readOptions } from '../scorecard/options.js'
import { describeFigures, renderReliabilityPage, type ScenarioResult } from '../scorecard/reliabilityPage.js'
import { runScorecard } from '../scorecard/runScorecard.js'
import { defineScenario, type Scenario } from '../scorecard/Scenario.js'

function buildScenario(id: string, defects: readonly string[] = []): Scenario {
  return defineScenario({
    id,
    title: `what ${id} does`,
    bar: `the bar of ${id}`,
    sizes: { full: { payments: 1_000 }, short: { payments: 10 } },
    run: async (fixture, { payments }) => {
      if (defects.includes('breaks off')) throw new Error('no fixture is left')
      return { figures: { payments, drawn: fixture.random() }, defects }
    },
  })
}

/** Runs the command and returns its exit code, output and page. */
async function run(words: readonly string[], scenarios: readonly Scenario[], pageBefore = '') {
  const folder = await mkdtemp(join(tmpdir(), 'scorecard-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const page = join(folder, 'page.md')
  await writeFile(page, pageBefore)
  const output: string[] = []
  const exitCode = await runScorecard([...words, '--page', page], {
    family: 'chaos',
    scenarios,
    print: (text) => output.push(text),
    printJson: (line) => output.push(line),
  })
  return { exitCode, output, page: await readFile(page, 'utf8') }
}

const sectionOf = (page: string, id: string) => page.split(/^(?=## )/m).find((text) => text.startsWith(`## ${id}\n`))

test('the reliability page has a section per scenario, with results and commit or “not run”', async () => {
  const { exitCode, page } = await run(['--only', 'r2', '--seed', '7'], [buildScenario('R2'), buildScenario('R10')])
  expect(exitCode).toBe(0)
  const today = new Date().toISOString().slice(0, 10)
  const ran = `full size, seed 7, commit ${commitOf()}, Node.js ${process.versions.node}, ${today}`
  expect(sectionOf(page, 'R2')?.trimEnd().split('\n')).toEqual([
    '## R2',
    '',
    'what R2 does',
    '',
    '- **Bar:** the bar of R2',
    '- **Verdict:** met',
    expect.stringMatching(/^- \*\*Counted:\*\* payments 1,000 · drawn 0\.\d+ · seconds [\d.]+$/),
    `- **Run:** ${ran}`,
    expect.stringMatching(/^- \*\*Machine:\*\* \d+ cores \(.+\), \d+ GiB$/),
  ])
  expect(page).toContain(`| [R2](#r2) | met | ${ran} |\n| [R10](#r10) | not run |  |\n`)
  expect(sectionOf(page, 'R10')).toBe('## R10\n\nwhat R10 does\n\n- **Bar:** the bar of R10\n- **Verdict:** not run\n')
  expect(page.indexOf('## R2')).toBeLessThan(page.indexOf('## R10'))
})

const ran = (id: string, commit: string, bar = `the bar of ${id}`) =>
  `## ${id}\n- **Bar:** ${bar}\n- **Run:** full size, seed 1, commit ${commit}, Node.js 20, 2026-01-01\n`

test('--stale lists results of no, an unknown, a changed or an older commit, or of another bar', async () => {
  const scenarios = ['R1', 'R2', 'R3', 'R4', 'R5', 'R6'].map((id) => buildScenario(id))
  const head = commitOf().replace('+', '')
  const first = execFileSync('git', ['rev-list', '--max-parents=0', 'HEAD'], { encoding: 'utf8' }).slice(0, 8)
  const before = [
    '## R1\n',
    ran('R2', head),
    ran('R3', `${head}+`),
    ran('R4', first),
    ran('R5', 'unknown'),
    ran('R6', head, 'a lower bar'),
  ].join('\n')
  const { exitCode, output, page } = await run(['--stale'], scenarios, before)
  expect(exitCode).toBe(1)
  expect(page).toBe(before)
  expect(output.join('\n').split('\n')).toEqual([
    'R1   no commit',
    `R3   changed sources on ${head}`,
    expect.stringMatching(new RegExp(`^R4 {3}code changed since ${first}: (libs|schema|embedded)/\\S+$`)),
    'R5   unknown is not in the history of this checkout',
    'R6   another bar',
  ])
  const fresh = await run(['--stale', '--only', 'R2'], scenarios, before)
  expect(fresh).toMatchObject({ exitCode: 0, output: ['All 1 results are of these sources.'] })
})

test.each([
  ['a line comment', `SELECT 1 -- it's one\n  AS one`, 'SELECT 1 AS one'],
  ['a block comment', 'SELECT /* one\n*/ 1', 'SELECT 1'],
  ['a COMMENT ON statement', `SELECT 1;\nCOMMENT ON TABLE t IS 'it''s; a' ' table';\nSELECT 2;`, 'SELECT 1; SELECT 2;'],
])('a change of %s in SQL makes no result stale', (_, sql, code) => {
  expect(sqlWithoutComments(sql)).toBe(code)
})

test('sqlWithoutComments keeps string literals that look like comments', () => {
  expect(sqlWithoutComments(`SELECT 'a  --b', '/* c */'`)).toBe(`SELECT 'a  --b', '/* c */'`)
})

test('the last line of --json has the verdict and all results, the same for the same seed', async () => {
  const verdicts = await Promise.all(
    ['7', '7', '8'].map(async (seed) => {
      const { output } = await run(['--json', '--seed', seed], [buildScenario('R2')])
      const verdict: { ok: boolean; figures: { R2: { drawn: number; payments: number } } } = JSON.parse(
        output.at(-1) ?? '',
      )
      return verdict
    }),
  )
  expect(verdicts[0]).toMatchObject({ ok: true, figures: { R2: { payments: 1_000 } } })
  const drawn = verdicts.map(({ figures }) => figures.R2.drawn)
  expect(drawn[1]).toBe(drawn[0])
  expect(drawn[2]).not.toBe(drawn[0])
})

test.each([['broken'], ['breaks off']])(
  'a run with the defect “%s” exits with 1 and prints how to repeat the scenario',
  async (defect) => {
    const { exitCode, output, page } = await run(
      ['--seed', '7', '--payments', '50'],
      [buildScenario('R2', [defect]), buildScenario('R3')],
    )
    expect(exitCode).toBe(1)
    expect(output).toContain('R2  repeat with: npm run chaos -- --only R2 --seed 7 --payments 50')
    expect(sectionOf(page, 'R2')).toContain('- **Verdict:** **not met**: ')
    // The other scenarios still run.
    expect(sectionOf(page, 'R3')).toMatch(/\*\*Verdict:\*\* holds\n[^]*\*\*Run:\*\* 50 payments, seed 7,/)
  },
)

test('a short run keeps results of full runs and of the S scenarios, and removes unknown ids', async () => {
  const full = await run(['--seed', '7'], [buildScenario('R2')])
  const before = `${full.page}\n## R99\n\ngone\n\n## S1\n\nanother family\n`
  const { page, output } = await run(['--short', '--seed', '8'], [buildScenario('R2')], before)
  expect(output.join('\n')).toContain('payments 10 ')
  expect(sectionOf(page, 'R2')?.trim()).toBe(sectionOf(full.page, 'R2')?.trim())
  expect(sectionOf(page, 'R99')).toBeUndefined()
  expect(sectionOf(page, 'S1')).toBe('## S1\n\nanother family\n')
})

test.each([
  [['--only', 'R9'], '--only: no chaos scenario is named R9; there are R2'],
  [['--only', 'R2,,'], '--only: expected ids separated by commas, got "R2,,"'],
  [['--seed', '-1'], 'ambiguous'],
  [['--seed', 'x'], '--seed: expected a whole number from 0 to 2147483647, got "x"'],
  [['--payments', '0'], '--payments: expected a whole number from 1 to 100000000, got "0"'],
  [['--frob'], `Unknown option '--frob'`],
  [['R2'], 'Unexpected argument'],
])('the arguments %j are refused with a message, and no scenario runs', async (words, message) => {
  const { exitCode, output, page } = await run(words, [buildScenario('R2')])
  expect(exitCode).toBe(2)
  expect(output.join('\n')).toContain(message)
  expect(page).toBe('')
})

test('readOptions draws a new seed each time if none is given', () => {
  const seeds = new Set(Array.from({ length: 5 }, () => readOptions([]).seed))
  expect(seeds.size).toBeGreaterThan(1)
})

test('a text with line ends or pipes breaks neither its section nor the table', () => {
  const result: ScenarioResult = {
    id: 'R2',
    title: 'a | b',
    bar: 'two\nlines',
    figures: { workerKills: 1_000, worst: 'a | b' },
    defects: ['a | b\n\n## c'],
    size: 'full',
    seed: 1,
    commit: 'a|b',
    postgres: '18.4',
    node: '20',
    machine: '2 cores',
    date: '2026-01-01',
  }
  const page = renderReliabilityPage('', { letter: 'R', scenarios: [result] }, [result])
  const row = page.split('\n').find((line) => line.startsWith('| [R2]'))
  expect(row?.split(/(?<!\\)\|/)).toHaveLength(5)
  expect(sectionOf(page, 'R2')).toContain('- **Bar:** two lines\n- **Verdict:** **not met**: a | b ## c\n')
  expect(describeFigures(result.figures)).toBe('worker kills 1,000 · worst a | b')
})
