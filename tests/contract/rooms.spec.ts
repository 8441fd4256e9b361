import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { GUARDRAILS, readRepository, type Repository } from '../../scripts/guardrails/index.js'
import { readRoomsTable } from '../../scripts/guardrails/roomsTable.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const table = readRoomsTable(readFileSync(new URL('../../scripts/guardrails/rooms.md', import.meta.url), 'utf8'))

test('every folder of libs/ is a room of the table', () => {
  const folders = readdirSync(`${root}/libs`, { withFileTypes: true }).filter((entry) => entry.isDirectory())
  expect(folders.map(({ name }) => name).filter((name) => !table.has(name))).toEqual([])
})

test('the table speaks of known rooms only, and no two rooms may import each other', () => {
  for (const [name, room] of table) {
    for (const other of [...importsOf(name), ...room.importsTypes]) expect([...table.keys()]).toContain(other)
    expect(importsOf(name).filter((other) => importsOf(other).includes(name))).toEqual([])
  }
})

test('this repository keeps the direction', () => {
  expect(findings(readRepository(root))).toEqual([])
})

describe('planted imports', () => {
  test.each([
    ['against the direction', 'libs/core/a.ts', "\nimport { a } from '../db/index.js'", 2, 'core may not import db'],
    [
      'one capability by another',
      'libs/outbox/a.ts',
      "import { a } from '../lease/index.js'",
      1,
      'outbox may not import lease',
    ],
    ['a re-export', 'libs/worker/a.ts', "export { a } from '../db/index.js'", 1, 'worker may not import db'],
    ['a type', 'libs/db/a.ts', "import type { A } from '../outbox/index.js'", 1, 'db may not import types of outbox'],
    ['lazily', 'libs/embedded/a.ts', "const a = await import('../db/index.js')", 1, 'embedded may not import db'],
    [
      'past the door',
      'libs/outbox/a.ts',
      "import { a } from '../db/pool.js'",
      1,
      'enters db by pool.js instead of its index.ts',
    ],
    [
      'a value where types are allowed',
      'libs/observability/a.ts',
      "import { A } from '../outbox/index.js'",
      1,
      'observability may not import outbox',
    ],
    [
      'a room that is not in the table',
      'libs/outbox/a.ts',
      "import { a } from '../utils/index.js'",
      1,
      'imports utils, which is not a room of scripts/guardrails/rooms.md',
    ],
    [
      'from a room that is not in the table',
      'libs/helpers/a.ts',
      "import 'node:fs'",
      1,
      'helpers is not a room of scripts/guardrails/rooms.md',
    ],
    [
      'out of libs',
      'libs/outbox/a.ts',
      "import { a } from '../../scripts/build.mjs'",
      1,
      'imports ../../scripts/build.mjs, which is outside libs/',
    ],
    [
      'a test helper',
      'libs/outbox/a.ts',
      "import { a } from '../../tests/support/a.js'",
      1,
      'imports ../../tests/support/a.js, which is outside libs/',
    ],
  ])('%s', (_what, path, text, line, message) => {
    expect(findings([{ path, text }])).toContain(`${path}:${line} ${message}`)
  })

  test.each([
    ['libs/outbox/a.ts', "import { a } from '../db/index.js'\nimport { b } from './b.js'\nimport pg from 'node:fs'"],
    ['libs/observability/a.ts', "import type { A } from '../outbox/index.js'"],
    ['libs/cli/a.ts', "import { a } from '../platform/index.js'"],
    ['libs/index.ts', "export { a } from './outbox/index.js'"],
    ['libs/core/a.ts', "// import { a } from '../db/index.js'\nconst text = `import a from '../db/index.js'`"],
  ])('allowed in %s', (path, text) => {
    expect(findings([{ path, text }])).toEqual([])
  })

  test('a cycle is named with its way', () => {
    const cycle = [
      { path: 'libs/core/a.ts', text: "import type { X } from './d.js'\nimport { b } from './b.js'" },
      { path: 'libs/core/b.ts', text: "export { c } from './c.js'" },
      { path: 'libs/core/c.ts', text: "import {\n  a,\n} from './a.js'" },
      { path: 'libs/core/d.ts', text: "import { a } from './a.js'" },
    ]
    expect(findings(cycle)).toEqual([
      'libs/core/a.ts:2 imports itself: libs/core/a.ts → libs/core/b.ts → libs/core/c.ts → libs/core/a.ts',
    ])
  })
})

function importsOf(name: string): readonly string[] {
  const imports = table.get(name)?.imports ?? []
  return imports === 'every door' ? [] : [...imports]
}

function findings(repository: Repository): string[] {
  return GUARDRAILS.filter(({ name }) => /^(?:rooms|files of libs)/.test(name)).flatMap(({ check }) =>
    check(repository).map(({ file, line, message }) => `${file}:${line} ${message}`),
  )
}
