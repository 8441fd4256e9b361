// Installs the database libraries and frameworks of tests/workspaces/adapters/ (own lockfile) and runs their tests
// against a real PostgreSQL. `npm run adapters -- FILE …` runs only these files.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ensureBuilt } from './build.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const folder = join(root, 'tests', 'workspaces', 'adapters')

ensureBuilt()
install()
step('types', installed(root, 'tsc'), ['-p', 'tests/workspaces/adapters'], root)
const tests = ['run', '--config', 'tests/workspaces/adapters/vitest.config.ts', ...process.argv.slice(2)]
step('tests', installed(root, 'vitest'), tests, root)

function install() {
  const inputs = ['package-lock.json', join('prisma', 'schema.prisma')]
  const lock = inputs.map((name) => readFileSync(join(folder, name), 'utf8')).join('')
  const stamp = join(folder, 'node_modules', '.symphony-lock')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lock) return
  step('install', 'npm', ['ci', '--ignore-scripts', '--no-workspaces'], folder)
  // The examples import the package by its name, as its users do.
  symlinkSync(root, join(folder, 'node_modules', 'symphony-pg'))
  // Prisma would download its migration engine, which generating a client does not need.
  const env = { PRISMA_SCHEMA_ENGINE_BINARY: '/bin/true', CHECKPOINT_DISABLE: '1' }
  const words = ['generate', '--schema', 'prisma/schema.prisma']
  step('prisma', installed(folder, 'prisma'), words, folder, env)
  writeFileSync(stamp, lock)
}

function installed(where, command) {
  return join(where, 'node_modules', '.bin', command)
}

function step(name, command, words, cwd, env = {}) {
  process.stdout.write(`\n── ${name}\n`)
  const { status } = spawnSync(command, words, { cwd, stdio: 'inherit', env: { ...process.env, ...env } })
  if (status !== 0) process.exit(status ?? 1)
}
