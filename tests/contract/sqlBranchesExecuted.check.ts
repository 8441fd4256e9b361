import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { describeMissing, mergeBranchHits } from '../support/sqlBranches.js'

/**
 * A plpgsql body is not checked until it runs, so a branch that no test reached may hold anything. The counts were left
 * by the run before this one, on functions that count: see tests/support/sqlBranches.ts.
 */
test('every branch of every SQL function was executed by a test', async () => {
  const folder = process.env['SYMPHONY_TEST_SQL_BRANCHES']
  expect(folder, 'SYMPHONY_TEST_SQL_BRANCHES: expected the folder that a counting run has filled').toBeDefined()
  const files = (await readdir(folder ?? '')).map((name) => join(folder ?? '', name))
  const hits = await mergeBranchHits(files)
  expect(hits.length, 'no counts: did the run before this one count?').toBeGreaterThan(200)
  expect(describeMissing(hits)).toEqual([])
})
