// Runs all tests, locally and in CI: vitest in several runs, and beside the first one format, lint and types. The last
// line is `tests: N passed, N failed`.
//
//   npm test                 each test once: the SQL tests on PostgreSQL 15, in a schema whose name needs quoting, with
//                            a count of the executed branches of each SQL function; all others on PostgreSQL 18
//   npm run test:matrix      everything on PostgreSQL 15, 16, 17 and 18, and on those of Debian
//   npm test -- FILE …       only these files, on PostgreSQL 18
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statfsSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { constants, freemem, setPriority, tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { ensureBuilt } from './build.mjs'
import { CONFORMANCE_PAGE, conformanceProblems } from './conformance.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const require = createRequire(import.meta.url)
const scratch = mkdtempSync(join(tmpdir(), 'symphony-test-run-'))
const matrix = process.argv.includes('--matrix')
const given = process.argv.slice(2).filter((word) => word !== '--matrix')

/**
 * Beginnings of the paths of the SQL tests, except NOT_SQL_TESTS. They run on the oldest server, in a schema whose name
 * needs quoting.
 */
const SQL_TESTS = [
  'tests/unit/access',
  'tests/unit/outbox',
  'tests/unit/protectionVault',
  'tests/unit/lease',
  'tests/unit/inbox',
  'tests/unit/schedulerJobs',
  'tests/unit/schedulerRuns',
  'tests/unit/schedulerTimers',
  'tests/unit/schedulerWorker',
  'tests/unit/deploymentTestDatabase',
  'tests/integration/outbox',
  'tests/integration/leaseRace',
  'tests/integration/inboxRace',
  'tests/integration/ledgerSeals',
  'tests/integration/ledgerSessions',
  'tests/integration/ledgerVerifier',
  'tests/integration/schedulerRace',
  'tests/security/',
  'tests/contract/catalog',
  'tests/contract/strictInput',
]
const NOT_SQL_TESTS = [
  /^tests\/unit\/.*Plans\.spec\.ts$/,
  /^tests\/unit\/inboxWorker\./,
  /^tests\/security\/(canary|escalation|hostileInputs)\./,
  /^tests\/integration\/outboxRelayer/,
]
const MEMORY_PREFIX = 'symphony-tests-'
const BRANCH_COUNTS = mkdtempSync(join(scratch, 'branches-'))

const totals = { passed: 0, failed: 0 }
const problems = []
const reports = []

const memory = createMemoryFolder()
process.on('exit', () => {
  for (const folder of [scratch, memory]) if (folder !== undefined) rmSync(folder, { recursive: true, force: true })
})
ensureBuilt()
if (given.length === 0) ensureBrowser()
// Run beside the tests, whose first minutes leave cores idle: the files that mostly wait run first.
const checks = given.length === 0 ? runChecks() : []
for (const leg of legs()) await runLeg(leg)
for (const { name, output, status } of await checks) {
  heading(name)
  process.stdout.write(output)
  if (status !== 0) problems.push(name)
}
if (given.length === 0) checkConformance()
if (matrix) checkWithDebian()
report()

/**
 * Installs a browser of Debian on processors other than x86-64, for which @sparticuz/chromium has no browser. Prefers
 * the headless shell, which uses less CPU. Releases of Debian without this package have `chromium`. Without root, the
 * browser tests fail and name the package.
 */
function ensureBrowser() {
  if (process.arch === 'x64' || isInstalled('chromium-headless-shell') || process.getuid?.() !== 0) return
  heading('install a browser with apt-get, because the registry has none for this processor')
  aptGet('update')
  for (const name of ['chromium-headless-shell', 'chromium']) {
    aptGet('install', '--yes', '--no-install-recommends', name)
    if (isInstalled(name) || isInstalled('chromium')) return
  }
}

function isInstalled(program) {
  return existsSync(`/usr/bin/${program}`)
}

function aptGet(...words) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  spawnSync('apt-get', words, { stdio: ['ignore', 'ignore', 'inherit'], env })
}

function legs() {
  if (given.length > 0) return [{ name: 'the given files on PostgreSQL 18', files: given, env: {} }]
  if (matrix) return ['15', '16', '17', '18', ...serversOfDebian()].map(everythingOn)
  const sql = sqlTests()
  return [
    {
      name: 'all but the SQL tests on PostgreSQL 18',
      files: allTests().filter((file) => !sql.includes(file)),
      env: { SYMPHONY_TEST_POSTGRES: '18' },
    },
    {
      // One run covers the oldest server and a quoted schema name. A defect of the server shows under any schema name,
      // and a quoting defect on any server.
      name: 'the SQL tests on PostgreSQL 15, in a schema whose name needs quoting, counting branches',
      // Without NOT_SQL_TESTS: plan tests, because counting branches changes the functions, and tests that execute few
      // branches that others do not. `npm run test:matrix` runs them on every version.
      files: sql,
      env: {
        SYMPHONY_TEST_POSTGRES: '15',
        SYMPHONY_TEST_SCHEMA: 'Pay "Out-box" é',
        SYMPHONY_TEST_SQL_BRANCHES: BRANCH_COUNTS,
      },
    },
    {
      name: 'every SQL branch was executed',
      files: ['--config', 'tests/sqlBranches/vitest.config.ts'],
      env: { SYMPHONY_TEST_SQL_BRANCHES: BRANCH_COUNTS },
    },
  ]
}

/**
 * Lists each file, because vitest ignores `--exclude` if the configuration has projects. Does not enter
 * tests/workspaces: with packages installed there, Node.js 20 took two minutes to list them.
 */
function allTests() {
  const folders = readdirSync(join(root, 'tests'), { withFileTypes: true }).filter((entry) => entry.isDirectory())
  return folders
    .map(({ name }) => `tests/${name}`)
    .filter((folder) => folder !== 'tests/workspaces')
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true }).map((name) => `${folder}/${name.replaceAll('\\', '/')}`),
    )
    .filter((file) => file.endsWith('.spec.ts'))
}

function sqlTests() {
  return allTests().filter(
    (file) =>
      SQL_TESTS.some((beginning) => file.startsWith(beginning)) && !NOT_SQL_TESTS.some((pattern) => pattern.test(file)),
  )
}

function serversOfDebian() {
  const parent = '/usr/lib/postgresql'
  const folders = existsSync(parent) ? readdirSync(parent).map((version) => join(parent, version)) : []
  return folders.filter((folder) => existsSync(join(folder, 'bin', 'postgres')))
}

function everythingOn(version) {
  return { name: `everything on PostgreSQL ${version}`, files: [], env: { SYMPHONY_TEST_POSTGRES: version } }
}

/**
 * Creates a folder in memory for the temporary files of the tests, so that their servers do not wait for a disk at each
 * commit. A run needs 0.6 GB there. Returns undefined if TMPDIR is given, if memory is short, or if the folder allows no
 * programs, as in containers.
 */
function createMemoryFolder() {
  const parent = '/dev/shm'
  if (process.env.TMPDIR !== undefined || !existsSync(parent)) return undefined
  const { bavail, bsize } = statfsSync(parent)
  if (Math.min(bavail * bsize, freemem()) < 4 * 2 ** 30) return undefined
  removeFoldersOfDeadRuns(parent)
  const folder = mkdtempSync(join(parent, `${MEMORY_PREFIX}${process.pid}-`))
  // If root runs the tests, the servers run as another account, which must be able to enter the folder.
  chmodSync(folder, 0o711)
  const program = join(folder, 'program')
  writeFileSync(program, '#!/bin/sh\n', { mode: 0o700 })
  if (spawnSync(program).status === 0) return folder
  rmSync(folder, { recursive: true })
  return undefined
}

/** A killed run leaves its folder in memory. */
function removeFoldersOfDeadRuns(parent) {
  for (const name of readdirSync(parent).filter((one) => one.startsWith(MEMORY_PREFIX))) {
    const pid = Number.parseInt(name.slice(MEMORY_PREFIX.length), 10)
    if (!existsSync(`/proc/${pid}`)) spawnSync('rm', ['-rf', join(parent, name)])
  }
}

/** Runs vitest once. Reads the counts from its report, so that a run without tests fails. */
async function runLeg({ name, files, env }) {
  heading(name)
  const reportFile = join(scratch, `leg-${totals.passed}-${problems.length}.json`)
  const vitest = spawn(
    process.execPath,
    [
      binaryOf('vitest', 'vitest'),
      'run',
      '--reporter=default',
      '--reporter=json',
      `--outputFile.json=${reportFile}`,
      ...files,
    ],
    {
      cwd: root,
      stdio: 'inherit',
      env: { ...process.env, ...(memory === undefined ? {} : { TMPDIR: memory }), ...env },
    },
  )
  const [status] = await once(vitest, 'exit')
  const outcome = readOutcome(reportFile)
  totals.passed += outcome.passed
  totals.failed += outcome.failed
  if (status !== 0) problems.push([name, ...outcome.failures].join('\n'))
  else if (outcome.passed === 0) problems.push(`${name}: no test was executed`)
  reports.push(reportFile)
}

/**
 * Compares docs/conformance.md with the tests of all runs. Does nothing after a failed run, because its tests may be
 * missing.
 */
function checkConformance() {
  if (problems.length > 0) return
  const page = existsSync(CONFORMANCE_PAGE) ? readFileSync(CONFORMANCE_PAGE, 'utf8') : ''
  // In the matrix each run contains every test, so the last report is enough.
  const testResults = (matrix ? reports.slice(-1) : reports).flatMap(
    (file) => JSON.parse(readFileSync(file, 'utf8')).testResults,
  )
  problems.push(...conformanceProblems({ testResults }, page))
}

function readOutcome(reportFile) {
  try {
    const { numPassedTests, numTotalTests, testResults } = JSON.parse(readFileSync(reportFile, 'utf8'))
    // Pending and skipped tests count as failed.
    return { passed: numPassedTests, failed: numTotalTests - numPassedTests, failures: testResults.flatMap(failuresOf) }
  } catch {
    return { passed: 0, failed: 0, failures: [] }
  }
}

/** Returns the failed tests with their messages, for the end of a CI log. */
function failuresOf({ name, message, assertionResults }) {
  const file = relative(root, name)
  const failed = assertionResults.filter(({ status }) => status === 'failed')
  const lines = failed.map(({ fullName, failureMessages }) => `  ${file}: ${fullName}\n${indent(failureMessages)}`)
  return message === '' ? lines : [...lines, `  ${file}\n${indent([message])}`]
}

function indent(messages) {
  const lines = messages.join('\n').split('\n').slice(0, 12)
  return lines.map((line) => `    ${line}`).join('\n')
}

/** Runs formatter, linter and type checker one after the other, with the lowest priority. */
async function runChecks() {
  return [
    await check('format', 'oxfmt', ['--check']),
    await check('lint', 'oxlint', ['--type-aware', '--deny-warnings']),
    // One checker, because each one infers the shared types again.
    await check('types of tests', 'typescript', ['-p', 'tests', '--checkers', '1'], 'tsc'),
    await check('types of libs/dashboard', 'typescript', ['-p', 'libs/dashboard', '--checkers', '1'], 'tsc'),
  ]
}

async function check(name, packageName, words, binary = packageName) {
  // Linter and compiler are Go programs. A larger heap saves them a sixth of the CPU time.
  const env = { GOGC: '400', ...process.env }
  const program = spawn(process.execPath, [binaryOf(packageName, binary), ...words], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    env,
  })
  setPriority(program.pid, constants.priority.PRIORITY_LOW)
  const [out, err, [status]] = await Promise.all([text(program.stdout), text(program.stderr), once(program, 'exit')])
  return { name, output: `${out}${err}`, status }
}

/** Runs the tests that need plpgsql_check, pg_dump or PgBouncer, if these are installed. */
function checkWithDebian() {
  heading('with the programs of Debian')
  const script = join(root, 'scripts', 'debian.mjs')
  const { status } = spawnSync(process.execPath, [script, '--allow-missing'], { cwd: root, stdio: 'inherit' })
  if (status !== 0) problems.push('npm run debian')
}

function binaryOf(packageName, binary) {
  const manifestFile = require.resolve(`${packageName}/package.json`)
  const { bin } = JSON.parse(readFileSync(manifestFile, 'utf8'))
  return join(dirname(manifestFile), typeof bin === 'string' ? bin : bin[binary])
}

function heading(title) {
  process.stdout.write(`\n── ${title}\n`)
}

function report() {
  for (const problem of problems) process.stdout.write(`\nFAILED: ${problem}`)
  // A failed check counts as a failed test, so that the last line never shows 0 failed after a failure.
  const failed = Math.max(totals.failed, problems.length)
  process.stdout.write(`\ntests: ${totals.passed} passed, ${failed} failed\n`)
  process.exitCode = failed === 0 ? 0 : 1
}
