import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { writeSection } from '../../bench/page.mjs'
import { barPlot, linePlot } from '../../bench/plot.mjs'
import { CASES } from '../../bench/scale/cases.mjs'
import { readOptions } from '../../bench/scale/options.mjs'
import { writeReport } from '../../bench/scale/report.mjs'
import { builtPath } from '../support/builtPath.js'

/**
 * The benchmarks run: one round, tiny sizes, ours alone. How fast anything was is not looked at; that is for `npm run bench` and
 * `npm run bench:scale` on a quiet machine.
 */

let folder = ''

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'symphony-bench-smoke-'))
  // The programs use the package as its users do.
  builtPath('')
})

afterAll(() => rm(folder, { recursive: true, force: true }))

describe('the commands', () => {
  test('one round of the benchmark measures every rate of ours, and its share of the floor, without installing a peer', async () => {
    const words = ['--without-peers', '--rounds', '1', '--items', '50', '--only', 'enqueueBatch,drain,enqueue,floor']
    const { ratios, medians } = await benchmark('run.mjs', ...words, '--json')
    expect(Object.keys(medians)).toEqual(['enqueueBatch', 'drain', 'enqueue', 'floor'])
    expect(Object.keys(ratios)).toEqual(['floor'])
    expect(medians.drain.symphony).toBeGreaterThan(0)
  })

  test('growth is measured on a filled queue and a filled ledger that verifies, and each figure stands beside its bound', async () => {
    const { figures, reduced } = await benchmark('scale/run.mjs', '--quick', '--only', 'behind,verify', '--json')
    expect(reduced).toBe(true)
    expect(figures.map((figure: { case: string }) => figure.case)).toEqual(['behind', 'verify'])
    for (const figure of figures) {
      expect(figure).toEqual({
        case: expect.any(String),
        figure: expect.stringMatching(/./),
        bound: expect.stringMatching(/[≤≥]/),
        measured: expect.stringMatching(/\d/),
        ok: expect.any(Boolean),
      })
    }
  })
})

describe('options of the growth benchmark', () => {
  test.each([
    [['--only', 'claim,clam'], '"clam" came'],
    [['--max-rows', '0'], '--max-rows wants a positive whole number; "0" came'],
    [['--seconds', '1.5'], '--seconds wants a positive whole number; "1.5" came'],
    [['--quick', '--max-rows', '10'], '--quick has sizes of its own'],
    [['--fast'], "Unknown option '--fast'"],
    [['claim'], "Unexpected argument 'claim'"],
  ])('%j is refused', (words, says) => {
    expect(() => readOptions(words)).toThrow(says)
  })

  test('a bound on rows leaves out what is larger, and is itself the size where all are', () => {
    const { sizes } = readOptions(['--max-rows', '1000']).sizing
    expect(sizes([500, 1_000, 1_001], [])).toEqual([500, 1_000])
    expect(sizes([2_000, 3_000], [])).toEqual([1_000])
  })

  test('without options every case is measured in full; only less than that is called reduced', () => {
    expect(readOptions([])).toMatchObject({ cases: Object.keys(CASES), reduced: false, write: true })
    expect(readOptions(['--seconds', '600'])).toMatchObject({ reduced: false })
    expect(readOptions(['--seconds', '599'])).toMatchObject({ reduced: true })
    expect(readOptions(['--max-rows', '5'])).toMatchObject({ reduced: true })
    expect(readOptions(['--quick'])).toMatchObject({ reduced: true, write: false })
  })
})

describe('the page', () => {
  test('each command writes its own section and leaves the other as it is', async () => {
    const page = join(folder, 'sections.md')
    await writeSection('scale', 'growth one', page)
    await writeSection('peers', 'peers one', page)
    await writeSection('scale', 'growth two', page)
    const text = await readFile(page, 'utf8')
    expect(text.match(/peers one|growth one|growth two/g)).toEqual(['peers one', 'growth two'])
  })

  test('a case that is measured again replaces its own rows and plots, and no other’s', async () => {
    const target = { page: join(folder, 'benchmarks.md'), folder: join(folder, 'benchmarks') }
    await writeReport([aResult('claim', 'first'), aResult('verify', 'second')], target)
    await writeReport([aResult('claim', 'third')], target)
    const text = await readFile(target.page, 'utf8')
    expect(text).toContain('| figure of claim | ≤ 1 | third | yes | 1 |')
    expect(text).toContain('| figure of verify | ≤ 1 | second | yes | 2 |')
    expect(text).not.toContain('first')
    expect(text).toContain('![About claim](benchmarks/plot-of-claim.svg)')
    expect(await readdir(target.folder)).toEqual(['plot-of-claim.svg', 'plot-of-verify.svg', 'scale.json'])
  })

  test('a plot holds every name and no number that is none', () => {
    const bars = barPlot({ title: 'bars', groups: [{ title: 'rates <', bars: [{ name: 'a & b', value: 0 }] }] })
    expect(bars).toContain('rates &lt;')
    expect(bars).toContain('a &amp; b')
    const lines = linePlot({
      title: 'lines',
      x: { label: 'rows', log: true },
      y: { label: 'ms' },
      series: [
        { name: 'one point', points: [[10, 5]] },
        {
          name: 'flat',
          points: [
            [10, 0],
            [1_000, 0],
          ],
        },
      ],
      bound: { value: 25, label: 'the bound' },
    })
    for (const word of ['one point', 'flat', 'the bound']) expect(lines).toContain(word)
    expect(bars + lines).not.toMatch(/NaN|Infinity|undefined/)
  })
})

function aResult(name: string, measured: string) {
  return {
    name,
    run: `run of ${measured}`,
    reduced: false,
    figures: [{ figure: `figure of ${name}`, bound: '≤ 1', measured, ok: true }],
    plots: { [`plot-of-${name}`]: `<svg><title>About ${name}</title></svg>` },
  }
}

/** Runs a program of bench/ and reads its last line. */
async function benchmark(program: string, ...words: string[]) {
  const path = fileURLToPath(new URL(`../../bench/${program}`, import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [path, ...words, '--no-write'])
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '')
}
