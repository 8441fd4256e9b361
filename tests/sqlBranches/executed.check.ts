import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { describeMissing, mergeBranchHits } from './sqlBranches.js'

/**
 * Reads the counts of the previous run (see tests/sqlBranches/sqlBranches.ts). PL/pgSQL checks a body only when it
 * runs, so an unreached branch may hold any error.
 */
test('every branch of every SQL function was executed by a test', async () => {
  const folder = process.env['SYMPHONY_TEST_SQL_BRANCHES']
  expect(folder, 'SYMPHONY_TEST_SQL_BRANCHES: expected the folder with the counts of an earlier run').toBeDefined()
  const files = (await readdir(folder ?? '')).map((name) => join(folder ?? '', name))
  const hits = await mergeBranchHits(files)
  expect(hits.length, 'too few counts; run the tests with branch counting first').toBeGreaterThan(200)
  expect(describeMissing(hits)).toEqual([])
})
