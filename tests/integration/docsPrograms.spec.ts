import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createTestDatabase } from '../support/database.js'

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

test.for(['leases.md', 'many-databases.md', 'messages.md', 'scheduler.md'])(
  'the program of %s prints the output that the page shows',
  async (page) => {
    const { source, output } = await programOf(page)
    const db = await createTestDatabase({ content: 'empty' })
    try {
      const file = join(folder, page.replace('.md', '.mjs'))
      await writeFile(file, source)
      const env = { ...process.env, DATABASE_URL: db.url }
      const { stdout } = await run(process.execPath, [file], { cwd: folder, env, timeout: 100_000 })
      expect(stdout).toBe(output)
    } finally {
      await db.drop()
    }
  },
)
