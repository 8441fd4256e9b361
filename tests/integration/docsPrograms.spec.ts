import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { withTestDatabase } from '../support/database.js'

const root = join(import.meta.dirname, '..', '..')
const run = promisify(execFile)

/** Folder with nothing but the installed package, as a new user has it. */
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'symphony-docs-'))
  await mkdir(join(folder, 'node_modules'))
  await symlink(root, join(folder, 'node_modules', 'symphony-pg'))
  await symlink(join(root, 'node_modules', '@symphony-pg'), join(folder, 'node_modules', '@symphony-pg'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** Returns the first program of a page and the output that the page shows for it. */
async function programOf(page: string): Promise<{ readonly source: string; readonly output: string }> {
  const text = await readFile(join(root, 'docs', 'concepts', page), 'utf8')
  const [, source, output] = /```js\n(.*?)```\n\nIt prints\n\n```text\n(.*?)```/s.exec(text) ?? []
  if (source === undefined || output === undefined) throw new Error(`${page} has no program with its output`)
  return { source, output }
}

/** Runs a program as a file of the folder, and returns its standard output. */
async function runProgram(name: string, source: string, url: string): Promise<string> {
  const file = join(folder, name)
  await writeFile(file, source)
  const env = { ...process.env, DATABASE_URL: url }
  return (await run(process.execPath, [file], { cwd: folder, env, timeout: 100_000 })).stdout
}

test.for(['leases.md', 'many-databases.md', 'messages.md', 'scheduler.md'])(
  'the program of %s prints the output that the page shows',
  async (page) => {
    const { source, output } = await programOf(page)
    await withTestDatabase(
      async (db) => expect(await runProgram(page.replace('.md', '.mjs'), source, db.url)).toBe(output),
      { content: 'empty' },
    )
  },
)

test('the program at the top of inbox.md handles a repeated message once', async () => {
  const text = await readFile(join(root, 'docs', 'concepts', 'inbox.md'), 'utf8')
  const [, source = ''] = /```js\n(.*?)```/s.exec(text) ?? []
  await symlink(join(root, 'node_modules', 'pg'), join(folder, 'node_modules', 'pg'))
  await withTestDatabase(
    async (db) => {
      const stdout = await runProgram('inbox.mjs', source, db.url)
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
