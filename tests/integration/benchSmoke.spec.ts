import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startContender } from '../../bench/contenderProcess.mjs'
import { writeSection } from '../../bench/page.mjs'
import { barPlot, linePlot } from '../../bench/plot.mjs'
import { writeReport as writePeers } from '../../bench/report.mjs'
import { CASES } from '../../bench/scale/cases.mjs'
import { readOptions } from '../../bench/scale/options.mjs'
import { writeReport } from '../../bench/scale/report.mjs'
import { summarise } from '../../bench/summary.mjs'

/**
 * Runs the benchmarks once with tiny sizes and without peers. No test asserts a time: `npm run bench` and
 * `npm run bench:scale` measure on a quiet machine.
 */

let folder = ''

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'symphony-bench-smoke-'))
})

afterAll(() => rm(folder, { recursive: true, force: true }))

describe('the benchmark programs', () => {
  test('measure rates and CPU of Symphony in one round without installing a peer', async () => {
    const words = ['--without-peers', '--rounds', '1', '--items', '50', '--only', 'enqueueBatch,drain,enqueue,floor']
    const { ratios, medians, cpu } = await benchmark('run.mjs', ...words, '--json')
    expect(Object.keys(medians)).toEqual(['enqueueBatch', 'drain', 'enqueue', 'floor'])
    expect(Object.keys(ratios)).toEqual(['floor'])
    expect(medians.drain.symphony).toBeGreaterThan(0)
    expect(Object.keys(cpu)).toEqual(['enqueueBatch', 'drain', 'enqueue', 'payment'])
    const parts = existsSync('/proc/self/schedstat') ? ['server', 'node'] : ['node']
    for (const { symphony } of Object.values<{ symphony: Record<string, number> }>(cpu)) {
      expect(Object.keys(symphony)).toEqual(parts)
      expect(Object.values(symphony).every((us) => us > 0)).toBe(true)
    }
  })

  test('print the required and the actual Node.js version if a compared program exits at its start', async () => {
    const module = new URL('data:text/javascript,process.exit(3)')
    const contender = { name: 'newer', module, key: undefined, engine: '>=99' }
    await expect(startContender(contender, 'postgres://localhost/none')).rejects.toThrow(
      `newer exited with 3 during a task. It declares Node.js >=99; this is ${process.version}.`,
    )
  })

  test('measure the growth of queue and ledger, and print each result with its bound', async () => {
    const { figures, reduced } = await benchmark(
      'scale/run.mjs',
      '--quick',
      '--only',
      'unclaimableRows,verify',
      '--json',
    )
    expect(reduced).toBe(true)
    expect(figures.map((figure: { case: string }) => figure.case)).toEqual(['unclaimableRows', 'verify'])
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

describe('the benchmark summary', () => {
  test('compares Symphony with peers without a key, and batch enqueue also with pg-boss with a key', () => {
    expect(summarise([buildRound()], CONTENDERS).ratios).toEqual({
      floor: 0.5,
      enqueueBatch: 0.5,
      drain: 0.5,
      enqueue: 0.5,
      enqueueBatchKeyed: 0.8,
      latencyP50: 2,
      latencyP99: 2,
      sustained: 0.5,
    })
  })

  test('gives the median CPU time per item; the time of a payment is batch enqueue plus drain', () => {
    const { cpu } = summarise([buildRound(), buildRound(), buildRound({ serverUs: 900 })], CONTENDERS)
    expect(cpu).toMatchObject({
      drain: { symphony: { server: 10, node: 5 } },
      payment: { symphony: { server: 20, node: 10 } },
    })
    expect(Object.keys(cpu.payment)).toEqual(CONTENDERS.map(({ name }) => name))
    expect(cpu).toHaveProperty('enqueue', expect.not.objectContaining({ 'pg-boss, id': expect.anything() }))
  })

  test('omits the CPU time of the server if schedstat is missing', () => {
    const { cpu } = summarise([buildRound({ serverUs: undefined })], CONTENDERS)
    expect(cpu.payment['symphony']).toEqual({ node: 10 })
  })
})

describe('options of the growth benchmark', () => {
  test.each([
    [['--only', 'claim,clam'], 'got "clam"'],
    [['--max-rows', '0'], '--max-rows: expected a positive whole number, got "0"'],
    [['--seconds', '1.5'], '--seconds: expected a positive whole number, got "1.5"'],
    [['--quick', '--max-rows', '10'], '--quick has fixed sizes'],
    [['--fast'], "Unknown option '--fast'"],
    [['claim'], "Unexpected argument 'claim'"],
  ])('are refused with a reason if they are invalid: %j', (words, message) => {
    expect(() => readOptions(words)).toThrow(message)
  })

  test('include --max-rows, which limits the sizes that are measured', () => {
    const { sizes } = readOptions(['--max-rows', '1000']).sizing
    expect(sizes([500, 1_000, 1_001], [])).toEqual([500, 1_000])
    expect(sizes([2_000, 3_000], [])).toEqual([1_000])
  })

  test('default to every case in full size; a smaller run is marked as reduced', () => {
    expect(readOptions([])).toMatchObject({ cases: Object.keys(CASES), reduced: false, write: true })
    expect(readOptions(['--seconds', '600'])).toMatchObject({ reduced: false })
    expect(readOptions(['--seconds', '599'])).toMatchObject({ reduced: true })
    expect(readOptions(['--max-rows', '5'])).toMatchObject({ reduced: true })
    expect(readOptions(['--quick'])).toMatchObject({ reduced: true, write: false })
  })
})

describe('the benchmark page', () => {
  test('keeps the section on peers when the growth benchmark writes its section', async () => {
    const page = join(folder, 'sections.md')
    await writeSection('scale', 'growth one', page)
    await writeSection('peers', 'peers one', page)
    await writeSection('scale', 'growth two', page)
    const text = await readFile(page, 'utf8')
    expect(text.match(/peers one|growth one|growth two/g)).toEqual(['peers one', 'growth two'])
  })

  test('has a section on peers with goals, one row per peer and one column per PostgreSQL version', async () => {
    const target = { page: join(folder, 'peers.md'), folder: join(folder, 'peers') }
    const settings = { rounds: 1, items: 100 }
    const contenders = Object.fromEntries(CONTENDERS.map(({ name }) => [name, { version: '1', setting: 'as is' }]))
    const main = { version: '18', ...summarise([buildRound()], CONTENDERS) }
    const debian = { version: '15 (Debian)', ...summarise([buildRound({ serverUs: undefined })], CONTENDERS) }
    await writePeers({ main, debian, settings, contenders }, target)
    const text = await readFile(target.page, 'utf8')
    expect(text).toContain("| Symphony's result | goal | PostgreSQL 18 | PostgreSQL 15 (Debian) |")
    expect(text).toContain('| enqueue in batches ÷ the faster pg-boss with a key | ≥ 1 | 0.8, missed | 0.8, missed |')
    expect(text).toContain('| CPU per payment in the server, enqueue in batches + drain, µs | ≤ 77 | 20, met |  |')
    expect(text).toContain('| enqueue in batches of 1,000 | pg-boss, id | 125 | 10 | 5 | 125 |  | 5 |')
    expect(text).toContain('This system has no schedstat')
    await writePeers({ main, debian: undefined, settings, contenders }, target)
    const alone = await readFile(target.page, 'utf8')
    expect(alone).toContain('| enqueue in batches of 1,000 | pg-boss, id | 125 | 10 | 5 |\n')
    expect(alone + text).not.toMatch(/NaN|Infinity|undefined/)
    expect(await readdir(target.folder)).toEqual(['peers.json', 'peers.svg'])
  })

  test('shows the medians and the spread of the latest three comparable runs with peers', async () => {
    const target = { page: join(folder, 'runs.md'), folder: join(folder, 'runs') }
    const contenders = Object.fromEntries(CONTENDERS.map(({ name }) => [name, { version: '1', setting: 'as is' }]))
    for (const [items, rate] of [
      [100, 900],
      [100, 300],
      [50, 700],
      [100, 400],
      [100, 500],
    ] as const) {
      const round = buildRound()
      const main = {
        version: '18',
        ...summarise(
          [{ ...round, drain: { ...round.drain, symphony: { ...round.drain.symphony, rate } } }],
          CONTENDERS,
        ),
      }
      await writePeers({ main, debian: undefined, settings: { rounds: 1, items }, contenders }, target)
    }
    // Each run removes runs that are not comparable with it: the run with 50 items removed the first two runs, and the
    // next run removed that one.
    const text = await readFile(target.page, 'utf8')
    expect(text).toContain('| drain a backlog ÷ the faster peer | ≥ 1.25 | 2.5 (2 to 2.5), met |')
    expect(text).toContain('| drain a backlog: claim → no-op rail → recorded | symphony | 500 (400 to 500) | 10 | 5 |')
  })

  test('shows the median and the spread of the latest three runs of each growth case', async () => {
    const target = { page: join(folder, 'benchmarks.md'), folder: join(folder, 'benchmarks') }
    await writeReport([buildResult('claim', '0.9'), buildResult('verify', '1,000 (fast)')], target)
    for (const measured of ['1,200 ms', '1,300 ms', '990 ms']) {
      await writeReport([buildResult('claim', measured)], target)
    }
    const text = await readFile(target.page, 'utf8')
    expect(text).toContain('| figure of claim | ≤ 1 | 1,200 ms | 990 to 1,300 | yes | 2, 3, 4 |')
    expect(text).toContain('| figure of verify | ≤ 1 | 1,000 (fast) |  | yes | 1 |')
    expect(text).not.toContain('0.9')
    expect(text).toContain('![About claim](benchmarks/plot-of-claim.svg)')
    expect(await readdir(target.folder)).toEqual(['plot-of-claim.svg', 'plot-of-verify.svg', 'scale.json'])
  })

  test('drops earlier runs of a growth case that ran on another machine', async () => {
    const target = { page: join(folder, 'machines.md'), folder: join(folder, 'machines') }
    await writeReport([{ ...buildResult('claim', '0.9'), machine: 'another' }], target)
    await writeReport([buildResult('claim', '0.1')], target)
    expect(await readFile(target.page, 'utf8')).toContain('| figure of claim | ≤ 1 | 0.1 |  | yes | 1 |')
  })

  test('has plots with every name escaped and without NaN, Infinity or undefined', () => {
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

const CONTENDERS = [
  { name: 'symphony' },
  { name: 'graphile-worker', peer: 'graphile-worker' },
  { name: 'graphile-worker, jobKey', peer: 'graphile-worker', key: 'jobKey' },
  { name: 'pg-boss', peer: 'pg-boss' },
  { name: 'pg-boss, id', peer: 'pg-boss', key: 'id' },
  { name: 'pg-boss, singletonKey', peer: 'pg-boss', key: 'singletonKey' },
]

/** Builds a round in which every ratio would differ if keyed peers counted as unkeyed ones. */
function buildRound({ serverUs }: { serverUs?: number | undefined } = { serverUs: 10 }) {
  const rate = (value: number) => ({ rate: value, serverUs, nodeUs: 5 })
  const all = {
    symphony: rate(100),
    'graphile-worker': rate(200),
    'graphile-worker, jobKey': rate(999),
    'pg-boss': rate(150),
    'pg-boss, id': rate(125),
    'pg-boss, singletonKey': rate(110),
  }
  return {
    enqueueBatch: all,
    drain: all,
    enqueue: { symphony: rate(100), 'graphile-worker': rate(200), 'pg-boss': rate(150) },
    latency: { symphony: { p50: 2, p99: 8 }, 'graphile-worker': { p50: 1, p99: 9 }, 'pg-boss': { p50: 3, p99: 4 } },
    sustained: {
      symphony: { rate: 10, rssMiB: 100 },
      'graphile-worker': { rate: 5, rssMiB: 100 },
      'pg-boss': { rate: 20, rssMiB: 100 },
    },
    floor: { floor: 200 },
  }
}

function buildResult(name: string, measured: string) {
  return {
    name,
    run: `run of ${measured}`,
    machine: 'a machine',
    reduced: false,
    figures: [{ figure: `figure of ${name}`, bound: '≤ 1', measured, ok: true }],
    plots: { [`plot-of-${name}`]: `<svg><title>About ${name}</title></svg>` },
  }
}

/** Runs a program of bench/ and parses its last line. */
async function benchmark(program: string, ...words: string[]) {
  const path = fileURLToPath(new URL(`../../bench/${program}`, import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, [path, ...words, '--no-write'])
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '')
}
