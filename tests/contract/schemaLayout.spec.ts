import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const schema = join(import.meta.dirname, '../../schema')

interface SchemaText {
  readonly name: string
  readonly text: string
}

async function read(folder: string): Promise<readonly SchemaText[]> {
  const names = (await readdir(join(schema, folder), { recursive: true })).filter((name) => name.endsWith('.sql'))
  return Promise.all(names.map(async (name) => ({ name, text: await readFile(join(schema, folder, name), 'utf8') })))
}

/** Files with a line that matches. */
function filesWith(pattern: RegExp, files: readonly SchemaText[]): readonly string[] {
  return files.filter(({ text }) => pattern.test(text)).map(({ name }) => name)
}

const CREATES_TABLE = /^CREATE (TABLE|UNIQUE INDEX|INDEX|TYPE)/m
const CREATES_FUNCTION = /^ *CREATE OR REPLACE FUNCTION/m
const PLANNER_SETTING = /\b(jit|enable_\w+|plan_cache_mode) ?=/

test('tables stand in v1, functions in functions, but for the two that tables need', async () => {
  expect(filesWith(CREATES_FUNCTION, await read('v1'))).toEqual(['004_table_functions.sql'])
  expect(filesWith(CREATES_TABLE, await read('functions'))).toEqual([])
  expect(filesWith(CREATES_TABLE, [{ name: 'planted', text: 'CREATE TABLE IF NOT EXISTS x ();' }])).toEqual(['planted'])
})

test('planner settings stand in planner.sql, and each profile in use is explained', async () => {
  const functions = await read('functions')
  expect(filesWith(PLANNER_SETTING, functions)).toEqual(['planner.sql'])
  const used = functions.flatMap(({ text }) =>
    [...text.matchAll(/^-- Planner: (\w+)$/gm)].map(([, profile]) => profile),
  )
  const explained = [...(await readFile(join(schema, 'functions/README.md'), 'utf8')).matchAll(/^\| `(\w+)` \|/gm)]
  expect(new Set(explained.map(([, profile]) => profile))).toEqual(new Set(used))
})

test('nothing is dropped for a release that never happened', async () => {
  expect(
    filesWith(/^ *(DROP|ALTER TABLE \w+ ADD COLUMN)\b/m, [...(await read('v1')), ...(await read('functions'))]),
  ).toEqual([])
})
