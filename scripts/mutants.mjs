// Plants bugs, one at a time, in a copy of this checkout, and runs the tests that must notice: `npm run mutants`, or
// `npm run mutants -- WORD …` for those whose id or file contains a word. A bug that nobody notices fails the run.
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const mutantsFolder = join(root, 'tests', 'mutants')
const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs')
const RUN_MS_MAX = 300_000
const copy = mkdtempSync(join(tmpdir(), 'symphony-mutants-'))
process.on('exit', () => rmSync(copy, { recursive: true, force: true }))

const words = process.argv.slice(2)
const mutants = readMutants().filter(
  ({ id, file }) => words.length === 0 || words.some((word) => `${id} ${file}`.includes(word)),
)
copyCheckout()
const survivors = mutants.filter((mutant) => !isCaught(mutant))
process.stdout.write(`\nmutants: ${mutants.length - survivors.length} of ${mutants.length} caught\n`)
process.exitCode = survivors.length === 0 && mutants.length > 0 ? 0 : 1

/** A mutant is { id, file, find, replace, test }: a text of a file, what to put in its place, and the spec that must fail. */
function readMutants() {
  const files = readdirSync(mutantsFolder).filter((name) => name.endsWith('.json'))
  return files.toSorted().flatMap((name) => JSON.parse(readFileSync(join(mutantsFolder, name), 'utf8')))
}

function copyCheckout() {
  const { stdout } = spawnSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: root })
  for (const file of stdout.toString().split('\0').filter(Boolean)) {
    mkdirSync(dirname(join(copy, file)), { recursive: true })
    cpSync(join(root, file), join(copy, file))
  }
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
}

function isCaught({ id, file, find, replace, test }) {
  const target = join(copy, file)
  const original = readFileSync(target, 'utf8')
  if (original.split(find).length !== 2) return verdict(id, file, 'STALE: its text is not there exactly once', false)
  writeFileSync(
    target,
    original.replace(find, () => replace),
  )
  try {
    const reportFile = join(copy, 'report.json')
    rmSync(reportFile, { force: true })
    const run = ['run', test, '-t', id, '--reporter=json', `--outputFile.json=${reportFile}`]
    spawnSync(process.execPath, [vitest, ...run], { cwd: copy, stdio: 'ignore', timeout: RUN_MS_MAX })
    const failed = readFailed(reportFile, id)
    return failed === undefined ? verdict(id, file, 'SURVIVED', false) : verdict(id, file, `caught by: ${failed}`, true)
  } finally {
    writeFileSync(target, original)
  }
}

/** The first test of this id that failed. A run that could not even begin, as of a file that does not parse, proves nothing. */
function readFailed(reportFile, id) {
  try {
    const { testResults } = JSON.parse(readFileSync(reportFile, 'utf8'))
    const tests = testResults.flatMap(({ assertionResults }) => assertionResults)
    return tests.find(({ fullName, status }) => fullName.includes(id) && status === 'failed')?.fullName
  } catch {
    return undefined
  }
}

function verdict(id, file, text, caught) {
  process.stdout.write(`${id}  ${file}  ${text}\n`)
  return caught
}
