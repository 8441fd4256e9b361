import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import type { Command } from 'commander'
import { beforeAll, describe, expect, test } from 'vitest'
import { createProgram } from '../../libs/cli/program.js'
import { SETTINGS } from '../../libs/cli/settings/settings.js'
import { Terminal } from '../../libs/cli/terminal/Terminal.js'
import { findPrograms, ProgramsMissingError } from '../../scripts/cluster/programs.mjs'

/** Checks that commands, flags, variables and placeholders in deploy/ and docs/operate exist. */

const root = join(import.meta.dirname, '..', '..')
const read = (path: string) => readFileSync(join(root, path), 'utf8')

const DEPLOYMENTS = filesBelow('deploy').filter((file) => /^deploy\/(?:docker|kubernetes|systemd)\//.test(file))
const PAGES = filesBelow('docs/operate').filter((file) => file.endsWith('.md'))

/** Variables that Symphony does not read: those of other programs, or those used only inside a file. */
const OTHER_VARIABLES = new Set([
  'API_PASSWORD',
  'NODE_ENV',
  'NODE_OPTIONS',
  'POSTGRES_DB',
  'POSTGRES_PASSWORD',
  'STATE_DIRECTORY',
  'WORKER_PASSWORD',
  'AF_INET',
  'AF_INET6',
  'AF_UNIX',
])

let program: Command
beforeAll(async () => {
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() })
  const terminal = new Terminal({ stdout: silent, stderr: silent, env: {} })
  program = await createProgram(['node', 'symphony'], { env: {}, terminal, signal: new AbortController().signal })
})

test.each(DEPLOYMENTS)('the deployment file %s runs only commands and flags that exist', (file) => {
  expect(commandLinesIn(file, read(file)).flatMap(unknownIn)).toEqual([])
})

test('each deployment file starts the expected commands', () => {
  const found = DEPLOYMENTS.flatMap((file) => commandLinesIn(file, read(file)).map(([command]) => `${file} ${command}`))
  expect(found.toSorted()).toEqual([
    'deploy/docker/Dockerfile --help',
    'deploy/docker/compose.yaml api',
    'deploy/docker/compose.yaml deploy',
    'deploy/docker/compose.yaml deploy',
    'deploy/docker/compose.yaml scheduler',
    'deploy/docker/compose.yaml worker',
    'deploy/kubernetes/api.yaml api',
    'deploy/kubernetes/deploy.yaml deploy',
    'deploy/kubernetes/scheduler.yaml scheduler',
    'deploy/kubernetes/worker.yaml worker',
    'deploy/systemd/symphony-api.service api',
    'deploy/systemd/symphony-scheduler.service scheduler',
    'deploy/systemd/symphony-worker@.service worker',
  ])
})

test.each(PAGES)('the page %s shows only commands and flags that exist', (file) => {
  const blocks = [...read(file).matchAll(/^ *```(?:console|sh)\n(.*?)^ *```$/gms)].map(([, text = '']) => text)
  const lines = blocks.flatMap((text) => text.replaceAll(/\\\n\s*/g, '').split('\n'))
  const commands = lines.map((line) => /(?:^|\s)symphony ([a-z-].*)$/.exec(line.replace(/\s#\s.*$/, ''))?.[1])
  const words = commands.filter((line) => line !== undefined).map((line) => wordsOf(line))
  expect(words.flatMap(unknownIn)).toEqual([])
})

test('the deployment files set only variables that Symphony reads', () => {
  const settings = Object.values<{ readonly env?: string }>(SETTINGS).map(({ env }) => env)
  // `symphony deploy` reads this password itself, so it is not in SETTINGS.
  const readByDeploy = 'SYMPHONY_LOGIN_PASSWORD'
  expect(read('libs/cli/commands/deploy.ts')).toContain(`'${readByDeploy}'`)
  const known = new Set([...settings, readByDeploy, ...OTHER_VARIABLES])
  const named = DEPLOYMENTS.flatMap((file) =>
    [...read(file).matchAll(/\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b/g)].map(([name]) => name),
  )
  expect(named).toContain('DATABASE_URL')
  expect(named).toContain('SYMPHONY_HOST')
  expect(named.filter((name) => !known.has(name))).toEqual([])
})

test('readiness probes call /readyz; other probes call /healthz, which needs no database', () => {
  const routes = new Set([...read('libs/http/routes/health.ts').matchAll(/path: '(\/\w+)'/g)].map(([, path]) => path))
  for (const file of DEPLOYMENTS.filter((name) => name.startsWith('deploy/kubernetes/'))) {
    const probes = [...read(file).matchAll(/(\w+)Probe:\n\s+httpGet: \{path: (\S+),/g)]
    for (const [, kind, path] of probes) {
      expect(routes).toContain(path)
      expect(path).toBe(kind === 'readiness' ? '/readyz' : '/healthz')
    }
    expect(probes.length).toBe(/^kind: Deployment$/m.test(read(file)) ? 3 : 0)
  }
  expect(read('deploy/docker/Dockerfile')).toMatch(/^HEALTHCHECK .*\\\n.*\/healthz`/m)
})

test('no image or pod runs as root, and no deployment file contains a database password', () => {
  expect(read('deploy/docker/Dockerfile')).toMatch(/^USER 1000:1000$/m)
  for (const file of DEPLOYMENTS.filter((name) => /^kind: (?:Deployment|Job)$/m.test(read(name)))) {
    const text = read(file)
    for (const line of [
      'runAsNonRoot: true',
      'readOnlyRootFilesystem: true',
      'allowPrivilegeEscalation: false',
      'capabilities: {drop: [ALL]}',
    ]) {
      expect(text).toContain(line)
    }
    expect(text).toMatch(/- name: DATABASE_URL\n\s+valueFrom: \{secretKeyRef:/)
  }
  for (const file of DEPLOYMENTS) expect(read(file)).not.toMatch(/postgres:\/\/\w+:(?!…|\$\{)/)
})

test('each pod with --rails has an fsGroup, so that it can read a secret with defaultMode 0440', () => {
  const files = DEPLOYMENTS.filter((file) => file.startsWith('deploy/kubernetes/') && read(file).includes('--rails,'))
  expect(files).toEqual(['deploy/kubernetes/api.yaml', 'deploy/kubernetes/worker.yaml'])
  for (const file of files) expect([file, read(file)]).toEqual([file, expect.stringContaining('fsGroup: 1000\n')])
})

test('the Kubernetes instructions delete the old deploy job before they apply the files', () => {
  const name = /^ {2}name: (\S+)$/m.exec(read('deploy/kubernetes/deploy.yaml'))?.[1]
  const namespace = /^namespace: (\S+)$/m.exec(read('deploy/kubernetes/kustomization.yaml'))?.[1]
  for (const file of ['deploy/kubernetes/deploy.yaml', 'docs/operate/containers.md']) {
    const commands = [...read(file).matchAll(/^(?:# +)?(kubectl .*)$/gm)].map(([, command]) => command)
    expect([file, ...commands]).toEqual([
      file,
      `kubectl -n ${namespace} delete job ${name} --ignore-not-found`,
      'kubectl apply -k deploy/kubernetes',
    ])
  }
})

test('the image copies every script and folder that scripts/build.mjs reads', () => {
  const named = read('scripts/build.mjs').matchAll(/(?:scripts\/|'scripts', ')(\w+\.mjs)'/g)
  const scripts = new Set([...named].map(([, name]) => `scripts/${name}`))
  expect(scripts.size).toBe(3)
  const needed = [...scripts, 'scripts/build.mjs', 'libs', 'embedded', 'tsconfig.json', 'tsconfig.base.json']
  expect(missingInImage(0, needed)).toEqual([])
})

test('the image contains every file that Symphony reads at run time', () => {
  const sources = filesBelow('libs').filter((file) => file.endsWith('.ts'))
  const pages = sources.flatMap((file) =>
    [...read(file).matchAll(/'docs', '(\w+\.md)'/g)].map(([, name]) => `docs/${name}`),
  )
  expect(pages).toEqual(['docs/conformance.md'])
  expect(missingInImage(-1, [...pages, 'package.json', 'bin', 'schema', 'scripts/build.mjs'])).toEqual([])
})

describe('npm run cluster', () => {
  test('replaces every placeholder of the files in deploy/cluster', () => {
    const places = ['patroni.yml', 'haproxy.cfg', 'pgbouncer.ini'].flatMap((file) =>
      [...read(`deploy/cluster/${file}`).matchAll(/\$\{([A-Z0-9_]+)\}/g)].map(([, name = '']) => name),
    )
    // The script builds the placeholders of the three nodes from their names.
    const drill = read('scripts/cluster/Cluster.mjs').replaceAll('${name}', 'NODE1')
    expect(places.length).toBeGreaterThan(30)
    const normal = places.map((name) => name.replace(/^NODE[23]_/, 'NODE1_'))
    expect(normal.filter((name) => !new RegExp(String.raw`\b${name}\b`).test(drill))).toEqual([])
  })

  test('reports all missing programs at once, with the command that installs them', () => {
    const nowhere = { searchPath: '', daemonFolders: [], postgresFolder: join(root, 'deploy') }
    expect(() => findPrograms(nowhere)).toThrow(ProgramsMissingError)
    expect(() => findPrograms(nowhere)).toThrow(
      'apt-get install --no-install-recommends patroni etcd-server pgbouncer haproxy postgresql',
    )
  })
})

/** Returns the names that a stage of the Dockerfile does not copy, or that its ignore file excludes. */
function missingInImage(stage: number, needed: readonly string[]): string[] {
  const text =
    read('deploy/docker/Dockerfile')
      .split(/^FROM /m)
      .slice(1)
      .at(stage) ?? ''
  const copies = text.matchAll(/^COPY (.*) \S+$/gm)
  const copied = new Set([...copies].flatMap(([, words = '']) => words.split(' ')))
  const sent = new Set(read('deploy/docker/Dockerfile.dockerignore').split('\n'))
  return needed.filter((name) => !copied.has(name) || !sent.has(`!${name}`))
}

/** Returns the words after `symphony` of each line that runs it. */
function commandLinesIn(file: string, text: string): string[][] {
  if (file.endsWith('.service')) {
    return [...text.matchAll(/^ExecStart=\S+\/symphony (.*)$/gm)].map(([, line = '']) => wordsOf(line))
  }
  if (file.endsWith('Dockerfile')) {
    return [...text.matchAll(/^CMD (\[.*\])$/gm)].map(([, list = '[]']): string[] => JSON.parse(list))
  }
  return [...text.matchAll(/^\s*(?:args|command): \[(.*)\]$/gm)].map(([, list = '']) =>
    list.split(',').map((word) => word.trim().replaceAll('"', '')),
  )
}

function wordsOf(line: string): string[] {
  return line.match(/"[^"]*"|'[^']*'|\S+/g) ?? []
}

/** Returns a problem for each unknown command and each unknown flag. */
function unknownIn(words: readonly string[]): string[] {
  let command = program
  let depth = 0
  for (const word of words) {
    const next = command.commands.find((one) => one.name() === word)
    if (next === undefined) break
    command = next
    depth += 1
  }
  const unknown = command.commands.length > 0 && /^[^-]/.test(words[depth] ?? '-')
  const known = new Set(['--help', ...command.options.flatMap(({ long, short }) => [long, short])])
  const flags = words.filter((word) => /^--?[a-z]/.test(word)).map((word) => word.replace(/=.*$/, ''))
  return [
    ...(unknown ? [`no command: ${words.join(' ')}`] : []),
    ...flags.filter((flag) => !known.has(flag)).map((flag) => `no flag ${flag}: ${words.join(' ')}`),
  ]
}

function filesBelow(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1))
    .toSorted()
}
