import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { builtPath } from '../support/builtPath.js'
import { createTestDatabase } from '../support/database.js'

test('the program at the top of the page on leases works as pasted', async () => {
  const page = await readFile(new URL('../../docs/concepts/leases.md', import.meta.url), 'utf8')
  const [, source = ''] = /```js\n(.*?)```/s.exec(page) ?? []
  // The package by its doors, as package.json lists them; the program itself is not changed.
  const { exports }: { exports: Record<string, { default: string }> } = JSON.parse(
    await readFile(new URL('../../package.json', import.meta.url), 'utf8'),
  )
  const program = source.replaceAll(/'symphony-pg(\/\w+)?'/g, (_, door = '') => {
    const file = exports[`.${door}`]!.default.replace('./dist/', '')
    return `'${pathToFileURL(builtPath(file)).href}'`
  })
  await using db = await createTestDatabase({ content: 'empty' })
  const { stdout, stderr } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program], {
    env: { DATABASE_URL: db.url },
  })
  expect({ stdout, stderr }).toEqual({
    stdout: 'It is mine, with token 1.\nFor anybody else: null\n',
    stderr: '',
  })
})
