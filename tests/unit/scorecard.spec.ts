import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
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

const lineOf = (page: string, id: string) => page.split('\n').find((line) => line.startsWith(`| ${id} |`))

test('the reliability page has one row per scenario, with results and seed or “not run”', async () => {
  const { exitCode, page } = await run(['--only', 'r2', '--seed', '7'], [buildScenario('R2'), buildScenario('R10')])
  expect(exitCode).toBe(0)
  expect(lineOf(page, 'R2')).toMatch(
    /^\| R2 \| what R2 does \| payments 1,000 · drawn 0\.\d+ · seconds [\d.]+ \| the bar of R2 \| met \| full \| 7 \|/,
  )
  expect(lineOf(page, 'R2')).toContain(` | ${process.versions.node} | ${new Date().toISOString().slice(0, 10)} |`)
  expect(lineOf(page, 'R10')).toBe('| R10 | what R10 does |  | the bar of R10 | not run |  |  |  |  |  |')
  expect(page.indexOf('| R2 |')).toBeLessThan(page.indexOf('| R10 |'))
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
  'a scenario with the defect “%s” exits with 1 and prints how to repeat it',
  async (defect) => {
    const { exitCode, output, page } = await run(
      ['--seed', '7', '--payments', '50'],
      [buildScenario('R2', [defect]), buildScenario('R3')],
    )
    expect(exitCode).toBe(1)
    expect(output).toContain('R2  repeat with: npm run chaos -- --only R2 --seed 7 --payments 50')
    expect(lineOf(page, 'R2')).toContain('**not met**')
    // The other scenarios still run.
    expect(lineOf(page, 'R3')).toContain('| holds | 50 payments |')
  },
)

test('a short run keeps the row of a full run, and drops rows of removed scenarios', async () => {
  const full = await run(['--seed', '7'], [buildScenario('R2')])
  const before = `${full.page}| R99 | gone |\n| S1 | another family |\n`
  const { page, output } = await run(['--short', '--seed', '8'], [buildScenario('R2')], before)
  expect(output.join('\n')).toContain('payments 10 ')
  expect(lineOf(page, 'R2')).toBe(lineOf(full.page, 'R2'))
  expect(lineOf(page, 'R99')).toBeUndefined()
  expect(lineOf(page, 'S1')).toBe('| S1 | another family |')
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

test('a cell of the reliability page may contain pipes and line ends', () => {
  const line: ScenarioResult = {
    id: 'R2',
    title: 'a | b',
    bar: 'two\nlines',
    figures: { workerKills: 1_000, worst: 'a | b' },
    defects: [],
    size: 'full',
    seed: 1,
    postgres: '18.4',
    node: '20',
    date: '2026-01-01',
  }
  const page = renderReliabilityPage('', { letter: 'R', scenarios: [line] }, [line])
  expect(lineOf(page, 'R2')?.split(/(?<!\\)\|/)).toHaveLength(12)
  expect(describeFigures(line.figures)).toBe('worker kills 1,000 · worst a | b')
})
