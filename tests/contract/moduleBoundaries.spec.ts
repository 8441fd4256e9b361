import { execFile } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { markdownPage } from '../support/markdownPage.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const table = readModulesTable()
const names = [...table.keys()]

test('modules.md lists every folder of libs/', () => {
  const folders = readdirSync(join(root, 'libs'), { withFileTypes: true }).filter((entry) => entry.isDirectory())
  expect(folders.map(({ name }) => name).toSorted()).toEqual(names.toSorted())
})

test('modules.md names only known modules, and no two modules import each other', () => {
  for (const [name, { imports, types }] of table) {
    for (const other of [...imports, ...types]) expect(names).toContain(other)
    expect(imports.filter((other) => name !== 'cli' && table.get(other)?.imports.includes(name))).toEqual([])
  }
})

describe('the linter', () => {
  test('allows exactly the imports of modules.md, at every folder depth', async () => {
    const files = names.flatMap((from) =>
      depthsOf(from).flatMap((depth) =>
        names.flatMap((to) => [false, true].map((type) => ({ from, to, depth, type })).filter(() => to !== from)),
      ),
    )
    const texts = files.map(({ from, to, depth, type }): [path: string, text: string] => [
      `libs/${from}/${'a/'.repeat(depth - 1)}${type ? 'types' : 'values'}_${to}.ts`,
      `import ${type ? 'type ' : ''}{ A } from '${'../'.repeat(depth)}${to}/index.js'\nexport { A }\n`,
    ])
    const refused = new Set((await lint(texts)).map(({ file }) => file))
    const wrong = files.filter(({ from, to, type }, index) => {
      const row = table.get(from)!
      const isAllowed = row.imports.includes(to) || (type && row.types.includes(to))
      return refused.has(texts[index]![0]) === isAllowed
    })
    expect(wrong).toEqual([])
  })

  test('refuses static and lazy imports that modules.md forbids, and drivers outside libs/db', async () => {
    const files: [path: string, text: string][] = [
      ['libs/worker/reExport.ts', "export { a } from '../db/index.js'"],
      ['libs/worker/lazy.ts', "export const a = await import('../db/index.js')"],
      ['libs/outbox/besideEntryPoint.ts', "export { a } from '../db/pool.js'"],
      ['libs/cli/commands/besideEntryPoint.ts', "export { a } from '../../db/pool.js'"],
      ['libs/cli/terminal/upward.ts', "export { a } from '../commands/doctor.js'"],
      ['embedded/module.ts', "export { a } from '../libs/core/index.js'"],
      ['libs/outbox/unknownModule.ts', "export { a } from '../utils/index.js'"],
      ['libs/unknown/imports.ts', "export { a } from '../core/index.js'"],
      ['libs/outbox/script.ts', "export { a } from '../../scripts/build.mjs'"],
      ['libs/outbox/reads/testHelper.ts', "export { a } from '../../../tests/support/a.js'"],
      ['libs/outbox/require.ts', "export const a = require('../lease/index.js')"],
      ['libs/outbox/driverType.ts', "import type { Pool } from 'pg'\nexport { Pool }"],
      ['libs/cli/lazyDriver.ts', "export const { Client } = await import('pg')"],
      ['libs/cli/processes/partOfDriver.ts', "export { default } from 'pg-pool'"],
      ['libs/platform/otherDriver.ts', "export { default } from 'postgres'"],
      ['scripts/fileOfDriver.mjs', "export { default } from 'pg/lib/client'"],
      ...names.flatMap((name) => (name === 'db' ? [] : depthsOf(name).flatMap((depth) => driversIn(name, depth)))),
    ]
    const refused = new Set((await lint(files)).map(({ file }) => file))
    expect([...refused].toSorted()).toEqual(files.map(([path]) => path).toSorted())
  })

  test('allows imports inside a module, and the driver in libs/db, tests and examples', async () => {
    const files: [path: string, text: string][] = [
      ['libs/outbox/reads/ofModule.ts', "export { b } from '../b.js'\nexport { c } from './c.js'"],
      ['libs/index.ts', "export { a } from './outbox/index.js'"],
      ['libs/db/driver.ts', "export { default } from 'pg'"],
      ['tests/unit/driver.spec.ts', "export { default } from 'pg'"],
      ['examples/driver.mjs', "export { default } from 'pg'"],
      ['libs/core/comment.ts', "// import { a } from '../db/index.js'\nexport {}"],
    ]
    expect(await lint(files)).toEqual([])
  })

  test('refuses an import cycle of values and allows one of types', async () => {
    const findings = await lint([
      ['libs/core/a.ts', "import type { X } from './d.js'\nimport { b } from './b.js'\nexport const a: X = b"],
      ['libs/core/b.ts', "export { c as b } from './c.js'"],
      ['libs/core/c.ts', "import {\n  a,\n} from './a.js'\nexport const c = a"],
      ['libs/core/d.ts', "import { a } from './a.js'\nexport type X = typeof a"],
    ])
    expect(findings).toEqual([
      { file: 'libs/core/a.ts', rule: 'import(no-cycle)' },
      { file: 'libs/core/b.ts', rule: 'import(no-cycle)' },
      { file: 'libs/core/c.ts', rule: 'import(no-cycle)' },
    ])
  })
})

const IMPORT_RULES = new Set(['eslint(no-restricted-imports)', 'import(no-cycle)', 'typescript(no-require-imports)'])

interface Finding {
  readonly file: string
  readonly rule: string
}

let folder = ''
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'symphony-lint-'))
  await copyFile(join(root, '.oxlintrc.json'), join(folder, '.oxlintrc.json'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** Runs the linter, with the configuration of this repository, on these files. */
async function lint(files: readonly (readonly [path: string, text: string])[]): Promise<readonly Finding[]> {
  for (const [path, text] of files) {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), `${text}\n`)
  }
  const output = await new Promise<string>((resolve) => {
    const linter = join(root, 'node_modules', '.bin', 'oxlint')
    execFile(linter, ['--format', 'json', '.'], { cwd: folder, maxBuffer: 1 << 26 }, (_failed, stdout) =>
      resolve(stdout),
    )
  })
  await Promise.all(files.map(([path]) => rm(join(folder, path))))
  const { diagnostics }: { diagnostics: readonly { code: string; filename: string }[] } = JSON.parse(output)
  return diagnostics
    .filter(({ code }) => IMPORT_RULES.has(code))
    .map(({ code, filename }) => ({ file: filename, rule: code }))
    .toSorted((left, right) => left.file.localeCompare(right.file))
}

function driversIn(module: string, depth: number): [path: string, text: string][] {
  const below = `libs/${module}/${'a/'.repeat(depth - 1)}`
  return [
    [`${below}driver.ts`, "export { default } from 'pg'"],
    [`${below}partOfDriver.ts`, "export { default } from 'pg/lib/client'"],
  ]
}

/** Returns the folder depths of a module: 1 for libs/core/a.ts, 3 for libs/cli/commands/demo/a.ts. */
function depthsOf(module: string): readonly number[] {
  const files = readdirSync(join(root, 'libs', module), { recursive: true, encoding: 'utf8' })
  return [...new Set(files.filter((file) => /\.tsx?$/.test(file)).map((file) => file.split(sep).length))]
}

interface Row {
  readonly imports: readonly string[]
  readonly types: readonly string[]
}

function readModulesTable(): ReadonlyMap<string, Row> {
  const page = markdownPage('scripts/guardrails/modules.md')
  const rows = page.split('\n').filter((line) => /^\| [a-z]+ \|/.test(line) && !line.startsWith('| module |'))
  const cells = rows.map((row) => row.split('|').map((cell) => cell.trim()))
  const all = cells.map(([, name = '']) => name)
  return new Map(
    cells.map(([, name = '', imports = '', types = '']) => [
      name,
      {
        imports: imports === 'every module' ? all.filter((one) => one !== name) : listOf(imports),
        types: listOf(types),
      },
    ]),
  )
}

function listOf(cell: string): string[] {
  return cell === '' ? [] : cell.split(', ')
}
