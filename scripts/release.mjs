// Publishes a release from a clean checkout: docs/internals/releases.md. `--dry-run` does everything except publish,
// and needs no tag, no date in the changelog and no answer of `npm audit`. `--files` only creates the files, without
// the long checks.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { billOfMaterials } from './billOfMaterials.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const folder = join(root, 'release')
const { name, version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const filesOnly = process.argv.includes('--files')
const isTrial = filesOnly || process.argv.includes('--dry-run')

if (!isTrial) requireReleasable()
if (!filesOnly) {
  run('npm', ['ci', '--dry-run', '--ignore-scripts'])
  checkAdvisories()
  // Before the tests, because a broker that is not installed ends the release.
  run('npm', ['run', 'brokers', '--', 'nats', 'rabbit'])
  run('npm', ['test'])
  run('npm', ['run', 'adapters'])
  run('npm', ['run', 'package:check'])
  run('npm', ['run', 'guides'])
}
const packed = makeFiles()
if (isTrial) print(`Dry run: ${filesOf(packed).join(', ')} are in release/; nothing was published.`)
else publish()

/**
 * Refuses a release unless HEAD is clean, has the tag of the version and a date in the changelog, and npm can attest
 * provenance, for which it needs an identity and the repository of each package.
 */
function requireReleasable() {
  if (output('git', ['status', '--porcelain']) !== '') fail('The checkout is not clean: commit first.')
  const tags = output('git', ['tag', '--points-at', 'HEAD']).split('\n')
  if (!tags.includes(`v${version}`)) fail(`HEAD does not have the tag v${version}.`)
  const changes = readFileSync(join(root, 'CHANGELOG.md'), 'utf8')
  const dated = changes
    .split('\n')
    .some((line) => line.startsWith(`## ${version} (`) && /\(\d{4}-\d\d-\d\d\)/.test(line))
  if (!dated) fail(`CHANGELOG.md has no section "## ${version} (YYYY-MM-DD)".`)
  for (const manifest of ['package.json', 'embedded/package.json']) {
    const { repository } = JSON.parse(readFileSync(join(root, manifest), 'utf8'))
    if (repository?.url === undefined) {
      fail(`${manifest} has no repository.url, which npm requires for provenance: add the address of the repository.`)
    }
  }
  if (process.env.ACTIONS_ID_TOKEN_REQUEST_URL === undefined && process.env.NPM_ID_TOKEN === undefined) {
    fail('No OIDC identity for provenance: publish from the CI that npm knows as a trusted publisher.')
  }
}

/**
 * Fails if `npm audit` reports an advisory. If the registry does not answer, as some mirrors do not, a dry run
 * continues and a release fails.
 */
function checkAdvisories() {
  print('── npm audit --omit=dev --json')
  const { stdout } = spawnSync('npm', ['audit', '--omit=dev', '--json'], { cwd: root, encoding: 'utf8' })
  const found = JSON.parse(stdout || '{}').metadata?.vulnerabilities?.total
  if (found > 0) fail(`${found} known advisories: npm audit --omit=dev lists them.`)
  if (found === undefined && !isTrial) fail('npm audit got no answer from the registry: no release.')
  print(found === undefined ? 'NOT CHECKED: npm audit got no answer from the registry.' : 'No known advisories.')
}

function makeFiles() {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder)
  run('npm', ['run', 'build'])
  const words = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder]
  // Embedded first, because publish() keeps this order, and symphony-pg names it as a peer.
  const packages = ['./embedded', '.'].map((from) => JSON.parse(output('npm', [...words, from]))[0])
  const bill = `${name}-${version}.cdx.json`
  writeFileSync(join(folder, bill), `${JSON.stringify(billOfMaterials(), null, 2)}\n`)
  const site = `${name}-${version}-site.tgz`
  run('npm', ['run', 'site', '--', '--out', join(folder, 'site')])
  output('tar', ['-czf', join(folder, site), '-C', folder, 'site'])
  rmSync(join(folder, 'site'), { recursive: true })
  const sums = [...filesOf(packages), bill, site].map((file) => `${digestOf(join(folder, file))}  ${file}\n`)
  writeFileSync(join(folder, 'SHA256SUMS'), sums.join(''))
  return packages
}

/** Publishes both packages. Skips those that npm already has, so that it can be repeated after a failure. */
function publish() {
  for (const { id, filename } of packed) {
    if (isPublished(id)) print(`npm already has ${id}.`)
    else run('npm', ['publish', join(folder, filename), '--provenance', '--access', 'public'])
  }
  print(`Published ${name} ${version}. Attach the files of release/ to the tag v${version}.`)
}

/** Returns false for a version that npm does not have, and if npm does not answer: then `npm publish` fails. */
function isPublished(id) {
  return spawnSync('npm', ['view', id, 'version'], { encoding: 'utf8' }).stdout.trim() !== ''
}

function filesOf(packages) {
  return packages.map(({ filename }) => filename)
}

function digestOf(file) {
  return createHash('sha256').update(readFileSync(file)).digest('hex')
}

function run(command, words) {
  print(`── ${command} ${words.join(' ')}`)
  const { status } = spawnSync(command, words, { cwd: root, stdio: 'inherit' })
  if (status !== 0) fail(`${command} ${words.join(' ')} failed: no release.`)
}

function output(command, words) {
  const { status, stdout, stderr } = spawnSync(command, words, { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 28 })
  if (status !== 0) fail(`${command} ${words.join(' ')}\n${stderr}`)
  return stdout.trim()
}

function print(what) {
  process.stdout.write(`${what}\n`)
}

function fail(why) {
  process.stderr.write(`${why}\n`)
  process.exit(1)
}
