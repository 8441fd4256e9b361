import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { readDependencies } from '../support/dependencies.js'

test('the package has at most 16 dependencies, in caret ranges; none runs an install script', async () => {
  const { direct, installed, defects } = await readDependencies()
  expect(defects).toEqual([])
  // To add a dependency, record its reason in docs/decisions.md and raise this limit.
  expect(direct).toBeLessThanOrEqual(16)
  expect(installed).toBeLessThan(200)
})

test('npm ci accepts the lock file', async () => {
  const words = ['ci', '--dry-run', '--ignore-scripts', '--offline', '--no-audit', '--no-fund']
  await expect(promisify(execFile)('npm', words)).resolves.toBeDefined()
})

test('the bill of materials lists each dependency and each package that the build copies', async () => {
  const { dependencies } = JSON.parse(await readFile('package.json', 'utf8'))
  const { components } = JSON.parse(await readFile('docs/sbom.cdx.json', 'utf8'))
  const listed = new Set(components.map(({ name }: { readonly name: string }) => name))
  const shipped = [...Object.keys(dependencies), 'libphonenumber-js', 'preact', 'uplot']
  expect(shipped.filter((name) => !listed.has(name))).toEqual([])
})
