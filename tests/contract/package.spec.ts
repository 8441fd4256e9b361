import { execFile, spawn } from 'node:child_process'
import { mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deadLinksOfRepository } from '../../scripts/site/links.mjs'
import { createTestDatabase } from '../support/database.js'
import { installPacked, type Installation, type PackedFile } from '../support/packedPackage.js'

const root = join(import.meta.dirname, '..', '..')
const run = promisify(execFile)

let installation: Installation
beforeAll(async () => {
  installation = await installPacked()
})
afterAll(() => installation.remove())

async function packedManifest() {
  return JSON.parse(await readFile(join(installation.packageFolder, 'package.json'), 'utf8'))
}

test('the package holds only run-time files, documents and examples, and is below 1.7 MB', async () => {
  const paths = installation.files.map(({ path }) => path)
  expect(new Set(paths.map((path) => path.split('/')[0]))).toEqual(
    new Set([
      'CHANGELOG.md',
      'CODE_OF_CONDUCT.md',
      'CONTRIBUTING.md',
      'LICENSE',
      'README.md',
      'SECURITY.md',
      'bin',
      'deploy',
      'dist',
      'docs',
      'examples',
      'package.json',
      'schema',
      'scripts',
    ]),
  )
  const ours = paths.filter((path) => !path.startsWith('examples/'))
  expect(ours.filter((path) => /\.map$|\.tsbuildinfo$|\.spec\.|\.test\.|(?:^|\/)tests?\//.test(path))).toEqual([])
  expect(paths.filter((path) => path.startsWith('scripts/'))).toEqual(['scripts/build.mjs'])
  expect(installation.size).toBeLessThan(1_700_000)
})

test('the package contains every file that it links to, except those of REPOSITORY_ONLY', async () => {
  const { files, dead } = await deadLinksOfRepository(installation.packageFolder)
  expect(files).toContain('docs/coding/transactions.md')
  expect(dead.filter((link) => !REPOSITORY_ONLY.test(link))).toEqual([])

  const packed = new Set(installation.files.map(({ path }) => path))
  const named: string[] = []
  for (const path of packed) {
    if (!path.endsWith('.d.ts')) continue
    const declarations = await readFile(join(installation.packageFolder, path), 'utf8')
    named.push(...(declarations.match(/docs\/[\w/-]+\.md/g) ?? []))
  }
  expect(named).toContain('docs/reference/errors.md')
  expect(named.filter((page) => !packed.has(page))).toEqual([])
})

/** Links to screenshots, sources, tests and GitHub's templates. */
const REPOSITORY_ONLY =
  /: (?:\.\.\/)*(?:docs\/dashboard\/|reference\/screenshots\.md|libs\/|scripts\/|tests\/|\.github\/)/

test('the embedded package holds its build, its README and the licence', async () => {
  const { stdout } = await run('npm', ['pack', '--dry-run', '--json', '--ignore-scripts', './embedded'], { cwd: root })
  const [{ files }]: readonly [{ readonly files: readonly PackedFile[] }] = JSON.parse(stdout)
  const others = files.map(({ path }) => path).filter((path) => !/^dist\/\w+\.(?:d\.ts|js)$/.test(path))
  expect(others).toEqual(['LICENSE', 'README.md', 'package.json'])
  expect(await readFile(join(root, 'embedded', 'LICENSE'), 'utf8')).toBe(await readFile(join(root, 'LICENSE'), 'utf8'))
})

test('the dashboard has the licence text of each bundled package', async () => {
  const file = join(installation.packageFolder, 'dist', 'dashboard', 'LICENSES.txt')
  const licences = (await readFile(file, 'utf8')).matchAll(/^## (\S+) - [\d.]+ \(MIT\)\n\nThe MIT License/gm)
  const names = [...licences].map(([, name = '']) => name)
  expect(names.toSorted()).toEqual(['@preact/signals', '@preact/signals-core', 'preact', 'uplot'])
})

function sourceOf(output: string): string {
  return output.replace('dist/', '').replace(/(?:\.d\.ts|\.js)$/, '.ts')
}

test('every script and declaration in dist/ has a source in libs/', async () => {
  const outputs = installation.files.map(({ path }) => path).filter((path) => path.startsWith('dist/libs/'))
  const sources = new Set((await readdir(join(root, 'libs'), { recursive: true })).map((path) => `libs/${path}`))
  expect(outputs.filter((path) => !sources.has(sourceOf(path)))).toEqual([])
})

test('no packed file refers to a source map', async () => {
  const scripts = installation.files.filter(({ path }) => /^dist\/.*\.(?:js|css|d\.ts)$/.test(path))
  const mapped: string[] = []
  for (const { path } of scripts) {
    const content = await readFile(join(installation.packageFolder, path), 'utf8')
    if (/^\/[/*][#@] sourceMappingURL=/m.test(content)) mapped.push(path)
  }
  expect(mapped).toEqual([])
})

test('every exported subpath leads to packed files, and installing runs no script', async () => {
  const { exports, scripts } = await packedManifest()
  const packed = new Set(installation.files.map(({ path }) => `./${path}`))
  const targets = Object.values<string | Record<string, string>>(exports).flatMap((target) =>
    typeof target === 'string' ? [target] : Object.values(target),
  )
  expect(targets.filter((target) => !packed.has(target))).toEqual([])
  expect(Object.keys(scripts).filter((name) => /^(?:pre|post)?install$/.test(name))).toEqual([])
})

interface Loaded {
  /** Names of the loaded npm packages. */
  readonly packages: readonly string[]
  /** Names of the loaded modules of Symphony, which are the folders of libs/. */
  readonly modules: readonly string[]
}

/** Imports an entry point in its own process and lists the loaded files. */
async function loadedBy(specifier: string): Promise<Loaded> {
  const hooks = join(root, 'tests', 'support', 'loadedModules.mjs')
  const child = spawn(process.execPath, ['--import', hooks, '--input-type=module', '--eval', `import '${specifier}'`], {
    cwd: installation.folder,
    stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
  })
  const report = child.stdio[3]
  if (!(report instanceof Readable)) throw new Error('the child has no descriptor 3')
  const lines = (await text(report)).split('\n')
  const packages = lines.flatMap((line) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(line)?.[1] ?? [])
  const ours = lines.filter((line) => line.includes('/symphony-pg/dist/') && line.startsWith('file:'))
  const texts = await Promise.all([...new Set(ours)].map((line) => readFile(new URL(line), 'utf8')))
  // The build writes the path of each module before its code.
  const modules = texts.flatMap((content) =>
    [...content.matchAll(/^\/\/ libs\/([^/\n]+)\//gm)].map((match) => match[1]!),
  )
  return {
    packages: [...new Set(packages)].filter((name) => name !== 'symphony-pg').toSorted(),
    modules: [...new Set(modules)].toSorted(),
  }
}

/** Packages of the PostgreSQL driver `pg`. */
const DRIVER = /^(?:pg(?:-.*)?|postgres-(?:array|bytea|date|interval)|xtend)$/

test('importing symphony-pg loads the driver, but neither Fastify nor the command line', async () => {
  const { packages, modules } = await loadedBy('symphony-pg')
  expect(packages).toContain('pg')
  expect(packages.filter((name) => !DRIVER.test(name))).toEqual(['@opentelemetry/api', 'croner'])
  expect(modules).toContain('symphony')
  expect(modules.filter((name) => /^(?:cli|http|deployment|testing)$/.test(name))).toEqual([])
})

test('importing symphony-pg/rails loads no other package', async () => {
  expect((await loadedBy('symphony-pg/rails')).packages).toEqual([])
})

test('importing symphony-pg/server does not load the package typebox', async () => {
  const { packages, modules } = await loadedBy('symphony-pg/server')
  expect(modules).toContain('http')
  expect(packages).not.toContain('typebox')
})

test('phone numbers are validated although libphonenumber-js is not installed', async () => {
  await expect(stat(join(installation.folder, 'node_modules', 'libphonenumber-js'))).rejects.toThrow('ENOENT')
  const rails = pathToFileURL(join(installation.packageFolder, 'dist', 'libs', 'rails', 'index.js'))
  const source = `
    import { loadContract, validatePayload } from '${rails.href}'
    const rail = loadContract({ type: 'momo', destination: 'phone' })
    for (const destination of ['+254712345678', '+25471']) {
      const { ok } = await validatePayload(rail, { amount: '1.00', currency: 'KES', destination })
      console.log(ok)
    }`
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', source])
  expect(stdout).toBe('true\nfalse\n')
  const licence = await readFile(join(installation.packageFolder, 'dist', 'vendor', 'phoneNumbers.LICENSE.txt'), 'utf8')
  expect(licence).toMatch(/The MIT License[\s\S]*Apache License/)
})

test('an embedded: URL without the embedded package fails (EMBEDDED_MISSING) with a remedy', async () => {
  const source = `
    import { Symphony } from 'symphony-pg'
    const symphony = new Symphony({ url: 'embedded:data' })
    await symphony.transaction(async () => {}).catch(({ code, message }) => console.log(code, message))`
  const cwd = installation.folder
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', source], { cwd })
  expect(stdout).toMatch(/^EMBEDDED_MISSING .*DATABASE_URL.* @symphony-pg\/embedded/)
})

/** Returns the first program of the README and its documented output. */
async function firstProgram(): Promise<{ readonly source: string; readonly output: string }> {
  const readme = await readFile(join(installation.packageFolder, 'README.md'), 'utf8')
  const [, source, output] = /```js\n(.*?)```\n\nIt prints\n\n```text\n(.*?)```/s.exec(readme) ?? []
  if (source === undefined || output === undefined) throw new Error('the README has no program with its output')
  return { source, output }
}

test('the first program of the README runs when pasted and prints its documented output', async () => {
  const { source, output } = await firstProgram()
  const db = await createTestDatabase({ schema: 'symphony' })
  try {
    const file = join(installation.folder, 'payment.mjs')
    await writeFile(file, source)
    const env = { ...process.env, DATABASE_URL: db.url }
    const { stdout } = await run(process.execPath, [file], { cwd: installation.folder, env })
    expect(stdout).toBe(output)
  } finally {
    await db.drop()
  }
})

/** Links the types of Node into the installation, but not those of the driver. */
async function linkNodeTypes(): Promise<void> {
  const types = join(installation.folder, 'node_modules', '@types')
  await mkdir(types)
  await symlink(join(root, 'node_modules', '@types', 'node'), join(types, 'node'))
  await symlink(join(root, 'node_modules', 'undici-types'), join(installation.folder, 'node_modules', 'undici-types'))
}

/** Mistakes that the compiler must refuse. An unused `@ts-expect-error` is itself an error. */
const MISTAKES = `
import { defineRail, Symphony, type Tx } from 'symphony-pg'
import { rabbitRail, type RabbitRailOptions } from 'symphony-pg/rails'

declare const tx: Tx
const symphony = new Symphony()
const instruction = { railType: 'bank', instructionId: '1', participantId: 'shop', payload: {} }
await symphony.enqueue(instruction, { tx })
// @ts-expect-error: no transaction
await symphony.enqueue(instruction)
// @ts-expect-error: a Date is no JSON
await symphony.enqueue({ ...instruction, payload: { at: new Date() } }, { tx })
// @ts-expect-error: a bigint is no JSON
await symphony.enqueue({ ...instruction, payload: { amount: 10n } }, { tx })
// @ts-expect-error: a misspelt field
await symphony.enqueue({ ...instruction, notbefore: new Date() }, { tx })
// @ts-expect-error: onUnknown is required and has no default
defineRail({ type: 'bank', dispatch: () => ({ outcome: 'success', reference: '1' }) })
// @ts-expect-error: a success has a reference
defineRail({ type: 'bank', onUnknown: 'hold', dispatch: () => ({ outcome: 'success' }) })
declare const rabbit: RabbitRailOptions['rabbit']
rabbitRail({ type: 'bank', onUnknown: 'hold', rabbit })
rabbitRail({ type: 'bank', onUnknown: 'resend', consumersDeduplicate: true, rabbit })
// @ts-expect-error: RabbitMQ keeps every copy, so resend needs consumersDeduplicate
rabbitRail({ type: 'bank', onUnknown: 'resend', rabbit })
`

// `npm run package:check` compiles with and without skipLibCheck, and checks `./server`, which this test leaves out.
test('tsc --strict accepts the README’s program and the subpaths, and refuses typical mistakes', async () => {
  await linkNodeTypes()
  const { exports } = await packedManifest()
  // Leaves out ./server: checking the declarations of Fastify and typebox takes longer than all others together.
  const entryPoints = Object.keys(exports).filter((subpath) => subpath !== './package.json' && subpath !== './server')
  const imports = entryPoints.map((subpath, index) => `export * as entry${index} from 'symphony-pg${subpath.slice(1)}'`)
  await writeFile(join(installation.folder, 'payment.mts'), (await firstProgram()).source)
  await writeFile(join(installation.folder, 'entryPoints.mts'), `${imports.join('\n')}\n`)
  await writeFile(join(installation.folder, 'mistakes.mts'), MISTAKES)
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  const options = [
    '--strict',
    '--noEmit',
    '--singleThreaded',
    '--module',
    'nodenext',
    '--target',
    'es2023',
    '--lib',
    'es2023,esnext.disposable',
    '--types',
    'node',
  ]
  const words = [...options, '--skipLibCheck', 'false', 'payment.mts', 'entryPoints.mts', 'mistakes.mts']
  const { stdout } = await run(process.execPath, [tsc, ...words], { cwd: installation.folder }).catch((error) => error)
  expect(stdout).toBe('')
})
