// Installs the broker clients of tests/workspaces/brokers/ (own lockfile) and tests each rail against a real server:
// the tests start, kill and freeze nats-server and rabbitmq-server, and use the Kafka broker at KAFKA_BROKERS. Lists at
// the end which brokers ran. A missing server fails the run, unless --allow-missing is given. Kafka is missing without
// KAFKA_BROKERS.
//
//   npm run brokers                           all of them
//   npm run brokers -- nats rabbit            only these
//   npm run brokers -- --allow-missing        those whose server is installed
//   KAFKA_BROKERS=host:port npm run brokers   the Kafka rail, too, against the broker at this address
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ensureBuilt } from './build.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const folder = join(root, 'tests', 'workspaces', 'brokers')

const BROKERS = {
  nats: {
    name: 'NATS JetStream',
    client: '@nats-io/jetstream',
    version: () => outputOf('nats-server', ['--version']),
    remedy: 'apt-get install nats-server',
  },
  rabbit: {
    name: 'RabbitMQ',
    client: 'amqplib',
    version: () =>
      existsSync(RABBIT) && outputOf('dpkg-query', ['-W', '-f', 'rabbitmq-server ${Version}', 'rabbitmq-server']),
    remedy: 'apt-get install rabbitmq-server',
  },
  kafka: {
    name: 'Kafka',
    client: 'kafkajs',
    version: () => process.env.KAFKA_BROKERS && `a broker at ${process.env.KAFKA_BROKERS}`,
    remedy: 'start a broker with a topic that may be created, and set KAFKA_BROKERS=host:port',
  },
}
const RABBIT = '/usr/lib/rabbitmq/bin/rabbitmq-server'

const words = process.argv.slice(2)
const allowMissing = words.includes('--allow-missing')
const wanted = words.filter((word) => word !== '--allow-missing')
const unknown = wanted.find((word) => BROKERS[word] === undefined)
if (unknown !== undefined) fail(`${unknown}: expected ${Object.keys(BROKERS).join(', ')} or --allow-missing`)
const chosen = wanted.length > 0 ? wanted : Object.keys(BROKERS)

ensureBuilt()
install()
step('types', installed(root, 'tsc'), ['-p', 'tests/workspaces/brokers'], root)
const servers = new Map(chosen.map((key) => [key, BROKERS[key].version() || undefined]))
const present = chosen.filter((key) => servers.get(key) !== undefined)
const missing = chosen.filter((key) => servers.get(key) === undefined)
if (present.length > 0) {
  const files = present.map((key) => `tests/workspaces/brokers/${key}.spec.ts`)
  step(
    'tests',
    installed(root, 'vitest'),
    ['run', '--config', 'tests/workspaces/brokers/vitest.config.ts', ...files],
    root,
  )
}

process.stdout.write('\n── brokers\n')
for (const key of present) {
  const { name, client } = BROKERS[key]
  print(`ran      ${name}: ${servers.get(key)}, with ${client} ${versionOf(client)}`)
}
for (const key of missing) {
  const { name, remedy } = BROKERS[key]
  print(`NOT RUN  ${name}: its server is not installed, so its rail was not tested. Remedy: ${remedy}`)
}
if (missing.length > 0 && !allowMissing) fail('Some tests did not run. --allow-missing accepts that.')

function install() {
  const lock = readFileSync(join(folder, 'package-lock.json'), 'utf8')
  const stamp = join(folder, 'node_modules', '.symphony-lock')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lock) return
  step('install', 'npm', ['ci', '--ignore-scripts', '--no-workspaces'], folder)
  // The rail modules import the package by name, as users do.
  symlinkSync(root, join(folder, 'node_modules', 'symphony-pg'))
  writeFileSync(stamp, lock)
}

function versionOf(client) {
  return JSON.parse(readFileSync(join(folder, 'node_modules', client, 'package.json'), 'utf8')).version
}

function outputOf(command, given) {
  const { status, stdout } = spawnSync(command, given, { encoding: 'utf8' })
  return status === 0 ? stdout.trim() : undefined
}

function installed(where, command) {
  return join(where, 'node_modules', '.bin', command)
}

function step(name, command, given, cwd) {
  process.stdout.write(`\n── ${name}\n`)
  const { status } = spawnSync(command, given, { cwd, stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}

function print(line) {
  process.stdout.write(`${line}\n`)
}

function fail(why) {
  process.stderr.write(`${why}\n`)
  process.exit(1)
}
