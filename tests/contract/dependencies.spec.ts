import { expect, test } from 'vitest'
import { readDependencies } from '../support/dependencies.js'

test('dependencies are few, exact, with a checksum each, and none needs an install script', async () => {
  const { direct, installed, defects } = await readDependencies()
  expect(defects).toEqual([])
  // More is a decision, with its sentence in docs/decisions.md.
  expect(direct).toBeLessThanOrEqual(15)
  expect(installed).toBeLessThan(200)
})
