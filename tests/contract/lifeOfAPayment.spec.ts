import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { markdownPage } from '../support/markdownPage.js'

const root = join(import.meta.dirname, '..', '..')
const read = (path: string) => readFileSync(join(root, path), 'utf8')
const lineCount = (path: string) => read(path).trimEnd().split('\n').length

describe('docs/internals/life-of-a-payment.md', () => {
  const page = markdownPage('docs/internals/life-of-a-payment.md')
  const rows = [...page.matchAll(/^\| \[([^\]]+)\]\(\.\.\/\.\.\/([^)]+)\) \| (.+) \|$/gm)].map(
    ([, label, file, functions]) => ({ label, file: file!, functions: namesIn(functions!) }),
  )

  test('names 9 to 12 TypeScript files and 3 or 4 SQL files, each once, and all exist', () => {
    const files = rows.map(({ file }) => file)
    expect(rows.map(({ label }) => label)).toEqual(files)
    expect(new Set(files).size).toBe(files.length)
    expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([])
    const typescript = files.filter((file) => file.endsWith('.ts')).length
    const sql = files.filter((file) => file.endsWith('.sql')).length
    expect(typescript).toBeGreaterThan(8)
    expect(typescript).toBeLessThanOrEqual(12)
    expect(sql).toBeGreaterThan(2)
    expect(sql).toBeLessThanOrEqual(4)
    expect(typescript + sql).toBe(files.length)
  })

  test('names only functions that the named files define', () => {
    const missing = rows.flatMap(({ file, functions }) =>
      functions.filter((name) => !isDefined(name, file)).map((name) => `${file}: ${name}`),
    )
    expect(missing).toEqual([])
    expect(rows.filter(({ functions }) => functions.length === 0)).toEqual([])
  })

  test('has steps that mention only the files and functions of its table', () => {
    const text = page.slice(page.indexOf('## 1.'))
    const known = new Set(rows.flatMap(({ functions }) => functions))
    expect(namesIn(text).filter((name) => !known.has(name) && !WORDS.has(name))).toEqual([])
    const fileNames = new Set(rows.map(({ file }) => file.slice(file.lastIndexOf('/') + 1)))
    const named = [...text.matchAll(/\b\w+\.(?:ts|sql)\b/g)].map(([name]) => name)
    expect(named.filter((name) => !fileNames.has(name))).toEqual([])
  })
})

describe('libs/outbox', () => {
  test('has no file of more than 400 lines', () => {
    const files = readdirSync(join(root, 'libs/outbox'), { recursive: true, encoding: 'utf8' })
    const long = files.filter((file) => file.endsWith('.ts') && lineCount(join('libs/outbox', file)) > 400)
    expect(files.length).toBeGreaterThan(20)
    expect(long).toEqual([])
  })

  test('has a relayer of at most 200 lines and 8 fields', () => {
    const relayer = read('libs/outbox/OutboxRelayer.ts')
    const fields = relayer.match(/^ {2}(?:readonly )?#?\w+(?:: .+| = .+)$/gm) ?? []
    expect(lineCount('libs/outbox/OutboxRelayer.ts')).toBeLessThanOrEqual(200)
    expect(fields.length).toBeGreaterThan(3)
    expect(fields.length).toBeLessThanOrEqual(8)
  })

  test('imports only downward in the order relayer, claimer, dispatcher, completer', () => {
    const parts = ['OutboxRelayer', 'ItemClaimer', 'ItemDispatcher', 'ItemCompleter']
    const upward = parts.flatMap((part, index) =>
      parts
        .slice(0, index)
        .filter((other) => read(`libs/outbox/${part}.ts`).includes(`'./${other}.js'`))
        .map((other) => `${part} imports ${other}`),
    )
    expect(upward).toEqual([])
  })
})

/** Words in code font that are not functions. */
const WORDS = new Set(['hold', 'inquire', 'resend', 'onUnknown', 'OutboxRelayer'])

function namesIn(text: string): string[] {
  return [...text.matchAll(/`(\w+)`/g)].map(([, name]) => name!)
}

function isDefined(name: string, file: string): boolean {
  const definition = file.endsWith('.sql')
    ? new RegExp(`CREATE OR REPLACE FUNCTION ${name}\\(`)
    : new RegExp(`^(?:export (?:async )?function |  (?:async )?)${name}[(<]`, 'm')
  return definition.test(read(file))
}
