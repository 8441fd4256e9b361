// Applies mutants one at a time to a copy of this checkout and runs the tests that must catch each: `npm run mutants`,
// or `npm run mutants -- WORD …` for mutants whose bug, kind, id or file contains one of the words. A mutant that
// survives or no longer applies fails the run. Writes the test that caught each mutant to docs/internals/mutants.md.
//
//   --at-once N    uses N copies in parallel (default 1)
//   --open         skips mutants that the page lists as caught, to continue an interrupted run
import { spawn, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { parseArgs } from 'node:util'
import { caughtBy, MUTANTS_PAGE, mutantsPage, notCaught, readCaught } from './mutants/page.mjs'
import { isBuilt, readMutants, root, staleness } from './mutants/plan.mjs'

const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs')
const RUN_MS_MAX = 300_000
const copies = []
process.on('exit', () => copies.forEach((copy) => rmSync(copy, { recursive: true, force: true })))

const { values, positionals: words } = parseArgs({
  options: { 'at-once': { type: 'string', default: '1' }, open: { type: 'boolean', default: false } },
  allowPositionals: true,
})
const mutants = readMutants()
const known = values.open ? readCaught(readPage()) : new Set()
const chosen = mutants.filter(({ bug, kind, id = '', file }) => {
  const text = `${bug} ${kind} ${id} ${file}`
  return !known.has(bug) && (words.length === 0 || words.some((word) => text.includes(word)))
})
const verdicts = new Map()
const waiting = [...chosen]
await Promise.all(Array.from({ length: Number(values['at-once']) }, () => testInOneCopy()))
keepPage()
const caught = [...verdicts.values()].filter(({ isCaught }) => isCaught).length
process.stdout.write(`\nmutants: ${caught} of ${chosen.length} caught\n`)
process.exitCode = caught === chosen.length && chosen.length > 0 ? 0 : 1

async function testInOneCopy() {
  const copy = copyCheckout()
  for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
    const verdict = await testMutant(copy, mutant)
    verdicts.set(mutant.bug, verdict)
    process.stdout.write(`${mutant.id ?? mutant.kind}: ${mutant.bug}  (${mutant.file})  ${verdict.text}\n`)
    // Writes the page after each mutant, so that an interrupted run keeps its results.
    keepPage()
  }
}

/** Copies the tracked and untracked files and dist/, so that only the changed source is rebuilt. */
function copyCheckout() {
  const copy = mkdtempSync(join(tmpdir(), 'symphony-mutants-'))
  copies.push(copy)
  const { stdout } = spawnSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: root })
  for (const file of stdout.toString().split('\0').filter(Boolean)) {
    if (!existsSync(join(root, file))) continue
    mkdirSync(dirname(join(copy, file)), { recursive: true })
    cpSync(join(root, file), join(copy, file))
  }
  if (existsSync(join(root, 'dist'))) cpSync(join(root, 'dist'), join(copy, 'dist'), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
  return copy
}

async function testMutant(copy, mutant) {
  const stale = staleness(mutant)
  if (stale !== undefined) return missed(`STALE: ${stale}`)
  const target = join(copy, mutant.file)
  const original = readFileSync(target, 'utf8')
  writeFileSync(
    target,
    original.replace(mutant.find, () => mutant.replace),
  )
  try {
    // A test that fails because the build failed would not have caught the mutant.
    if (isBuilt(mutant) && (await run(copy, [join('scripts', 'build.mjs')])) !== 0) return missed('DOES NOT COMPILE')
    const failed = await firstFailure(copy, mutant)
    if (failed === undefined) return missed('SURVIVED')
    return { isCaught: true, text: `caught by: ${failed.title}`, cell: caughtBy(failed.file, failed.title) }
  } finally {
    writeFileSync(target, original)
  }
}

function missed(reason) {
  return { isCaught: false, text: reason, cell: notCaught(reason) }
}

/** Returns the first failed test; undefined if none failed, also if none ran because a file does not parse. */
async function firstFailure(copy, { id, test }) {
  const reportFile = join(copy, 'report.json')
  rmSync(reportFile, { force: true })
  const only = id === undefined ? ['--bail=1'] : ['-t', id]
  await run(copy, [vitest, 'run', test, ...only, '--reporter=json', `--outputFile.json=${reportFile}`])
  if (!existsSync(reportFile)) return undefined
  const { testResults } = JSON.parse(readFileSync(reportFile, 'utf8'))
  const failures = testResults.flatMap(({ name, assertionResults }) =>
    assertionResults
      .filter(({ status, fullName }) => status === 'failed' && (id === undefined || fullName.includes(id)))
      .map(({ fullName }) => ({ file: relative(copy, name), title: fullName })),
  )
  return failures[0]
}

/** @returns {Promise<number | null>} exit code; null if the process was killed or did not start */
function run(cwd, args) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, args, { cwd, stdio: 'ignore', timeout: RUN_MS_MAX })
    child.once('exit', resolve)
    child.once('error', () => resolve(null))
  })
}

function keepPage() {
  const cells = new Map([...verdicts].map(([bug, { cell }]) => [bug, cell]))
  writeFileSync(MUTANTS_PAGE, mutantsPage(readPage(), mutants, cells))
}

function readPage() {
  return existsSync(MUTANTS_PAGE) ? readFileSync(MUTANTS_PAGE, 'utf8') : ''
}
