import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { createTestDatabase } from '../../../support/database.js'

/** Runs a program of docs/coding/brokers.md. Returns its output and the output that the page promises. */
export async function pasteProgram(
  name: string,
  env: Readonly<Record<string, string>>,
): Promise<{ readonly printed: string; readonly promised: string }> {
  const page = await readFile(new URL('../../../../docs/coding/brokers.md', import.meta.url), 'utf8')
  const programs = [...page.matchAll(/```js\n(.*?)```\n\nIt prints\n\n```text\n(.*?)```/gs)]
  const [, source, promised] = programs.find(([, text]) => text?.startsWith(`// ${name}:`)) ?? []
  if (source === undefined || promised === undefined) throw new Error(`the page has no program ${name} with its output`)
  const folder = await mkdtemp(join(tmpdir(), 'symphony-docs-'))
  const db = await createTestDatabase({ content: 'empty' })
  try {
    await symlink(new URL('../node_modules', import.meta.url).pathname, join(folder, 'node_modules'))
    await writeFile(join(folder, name), source)
    const options = { cwd: folder, env: { ...process.env, ...env, DATABASE_URL: db.url }, timeout: 60_000 }
    const { stdout } = await promisify(execFile)(process.execPath, [name], options)
    return { printed: stdout, promised }
  } finally {
    await db.drop()
    await rm(folder, { recursive: true, force: true })
  }
}
