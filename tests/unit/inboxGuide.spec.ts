import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { builtPath } from '../support/builtPath.js'
import { withTestDatabase } from '../support/database.js'

const root = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url))

test('the program at the top of docs/concepts/inbox.md works as pasted', async () => {
  const [, program = ''] = /```js\n(.*?)```/s.exec(await readFile(root('docs/concepts/inbox.md'), 'utf8')) ?? []
  const folder = await mkdtemp(join(tmpdir(), 'symphony-guide-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  // Links the packages as if they were installed there.
  await mkdir(join(folder, 'node_modules'))
  await symlink(join(builtPath('.'), '..'), join(folder, 'node_modules/symphony-pg'))
  await symlink(root('node_modules/pg'), join(folder, 'node_modules/pg'))
  await symlink(root('node_modules/@symphony-pg'), join(folder, 'node_modules/@symphony-pg'))
  await writeFile(join(folder, 'inbox.mjs'), program)
  await withTestDatabase(
    async (db) => {
      const { stdout } = await promisify(execFile)(process.execPath, ['inbox.mjs'], {
        cwd: folder,
        env: { DATABASE_URL: db.url },
      })
      expect(stdout).toMatch(/created: false/)
      expect(stdout).toMatch(/sightings: 2n/)
      expect(stdout).toMatch(/handled: 1 /)
      const { rows } = await db.queryNoRole('SELECT invoice, amount FROM shop.payments')
      expect(rows).toEqual([{ invoice: 'INV-1', amount: '12.50' }])
      await db.queryNoRole('DROP SCHEMA shop CASCADE; DROP ROLE shop_worker')
    },
    { content: 'empty' },
  )
})
