import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { markdownPage } from '../support/markdownPage.js'

const schema = join(import.meta.dirname, '../../schema')

interface SchemaText {
  readonly name: string
  readonly text: string
}

async function read(folder: string): Promise<readonly SchemaText[]> {
  const names = (await readdir(join(schema, folder), { recursive: true })).filter((name) => name.endsWith('.sql'))
  return Promise.all(names.map(async (name) => ({ name, text: await readFile(join(schema, folder, name), 'utf8') })))
}

function filesWith(pattern: RegExp, files: readonly SchemaText[]): readonly string[] {
  return files.filter(({ text }) => pattern.test(text)).map(({ name }) => name)
}

const CREATES_TABLE = /^CREATE (TABLE|UNLOGGED TABLE|UNIQUE INDEX|INDEX|TYPE)/m
const CREATES_FUNCTION = /^ *CREATE OR REPLACE FUNCTION/m
const PLANNER_SETTING = /\b(jit|enable_\w+|plan_cache_mode) ?=/

test('schema/functions creates no table; in schema/v1 only 004_table_functions.sql has functions', async () => {
  expect(filesWith(CREATES_FUNCTION, await read('v1'))).toEqual(['004_table_functions.sql'])
  expect(filesWith(CREATES_TABLE, await read('functions'))).toEqual([])
  expect(filesWith(CREATES_TABLE, [{ name: 'planted', text: 'CREATE TABLE IF NOT EXISTS x ();' }])).toEqual(['planted'])
})

test('only planner.sql has planner settings; schema/functions/README.md explains each profile', async () => {
  const functions = await read('functions')
  expect(filesWith(PLANNER_SETTING, functions)).toEqual(['planner.sql'])
  const used = functions.flatMap(({ text }) =>
    [...text.matchAll(/^-- Planner: (\w+)$/gm)].map(([, profile]) => profile),
  )
  const explained = [...markdownPage('schema/functions/README.md').matchAll(/^\| `(\w+)` \|/gm)]
  expect(new Set(explained.map(([, profile]) => profile))).toEqual(new Set(used))
})

/** Returns the names of changed, added and removed files. `digests` is the earlier output of sha256sum. */
function changedFiles(digests: string, files: readonly SchemaText[]): readonly string[] {
  const lines = files.map(({ name, text }) => `${createHash('sha256').update(text).digest('hex')}  ${name}`)
  const frozen = digests.trim().split('\n')
  const differing = [
    ...lines.filter((line) => !frozen.includes(line)),
    ...frozen.filter((line) => !lines.includes(line)),
  ]
  return [...new Set(differing.map((line) => line.slice(66)))]
}

test('the files of schema/v1 are unchanged since release 0.2.0, except 011_privileges.sql', async () => {
  const digests = await readFile(join(import.meta.dirname, '../golden/schema-v1.sha256'), 'utf8')
  // Every deployment applies the privileges again, so that file may change.
  const files = (await read('v1')).filter(({ name }) => name !== '011_privileges.sql')
  expect(changedFiles(digests, files)).toEqual([])
  const [first, second, ...others] = files
  const planted = [{ ...first!, text: `${first!.text} ` }, { ...second!, name: 'renamed.sql' }, ...others]
  expect(changedFiles(digests, planted)).toEqual([first!.name, 'renamed.sql', second!.name])
})

const WIDTH_MAX = 120
const LONG_BODY_LINES = 80
const STEP_LINES_MAX = 50

function wideLines(files: readonly SchemaText[]): readonly string[] {
  return files.flatMap(({ name, text }) =>
    text.split('\n').flatMap((line, index) => (line.length > WIDTH_MAX ? [`${name}:${index + 1}`] : [])),
  )
}

/** Returns long bodies with more than 50 lines between step comments such as `-- 2. Lock the rows.` */
function bodiesWithoutSteps(files: readonly SchemaText[]): readonly string[] {
  return files.flatMap(({ name, text }) =>
    [...text.matchAll(/^CREATE OR REPLACE FUNCTION (\w+)(?:(?!^CREATE )[^])*?^AS \$\$\n([^]*?)^\$\$;$/gm)].flatMap(
      ([, functionName, body = '']) => {
        const stretches = body.split(/^ *-- \d+\. .*$/m).map((stretch) => stretch.split('\n').length)
        const isLong = body.split('\n').length > LONG_BODY_LINES
        return isLong && Math.max(...stretches) > STEP_LINES_MAX ? [`${name}: ${functionName}`] : []
      },
    ),
  )
}

/** Builds a function with the given number of statements per step, and a step comment between steps. */
function buildSchemaText(...steps: readonly number[]): SchemaText {
  const body = steps.map((count) => '  PERFORM 1;\n'.repeat(count)).join('  -- 1. Do the rest.\n')
  return { name: 'planted', text: `CREATE OR REPLACE FUNCTION f()\nAS $$\n${body}$$;\n` }
}

async function readable(): Promise<readonly SchemaText[]> {
  return (await read('.')).filter(({ name }) => name !== 'snapshot.sql')
}

test('no line of SQL is wider than 120 characters', async () => {
  expect(wideLines(await readable())).toEqual([])
  expect(wideLines([{ name: 'planted', text: `SELECT 1;\n-- ${'x'.repeat(WIDTH_MAX - 2)}` }])).toEqual(['planted:2'])
})

test('a function body above 80 lines has a numbered step comment at least every 50 lines', async () => {
  expect(bodiesWithoutSteps(await readable())).toEqual([])
  expect(bodiesWithoutSteps([buildSchemaText(81)])).toEqual(['planted: f'])
  expect(bodiesWithoutSteps([buildSchemaText(60, 30)])).toEqual(['planted: f'])
  expect(bodiesWithoutSteps([buildSchemaText(45, 45)])).toEqual([])
  expect(bodiesWithoutSteps([buildSchemaText(79)])).toEqual([])
})

test('no file in schema/v1 or schema/functions drops an object or adds a column', async () => {
  expect(
    filesWith(/^ *(DROP|ALTER TABLE \w+ ADD COLUMN)\b/m, [...(await read('v1')), ...(await read('functions'))]),
  ).toEqual([])
})
