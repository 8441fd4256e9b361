import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, inject, test } from 'vitest'
import { codeBlocks, fileOf } from '../../scripts/guides/codeBlocks.mjs'
import { createTestDatabase } from '../support/database.js'
import { runExample } from '../support/examples.js'

const root = join(import.meta.dirname, '..', '..')
const folder = join(root, 'examples')
const run = promisify(execFile)

const EXAMPLES = [
  'first-payment.mjs',
  'leader-election.mjs',
  'mobile-money.mjs',
  'settlement-report.mjs',
  'webhooks-to-inbox.mjs',
]

// Concurrent, because each test mostly waits for its process to start.
test.concurrent.for(EXAMPLES)('the example %s prints the output that its last comment shows', async (name) => {
  await using db = await createTestDatabase({ schema: 'symphony' })
  const file = join(folder, name)
  const { stdout, expected } = await runExample(file, file, db.url)
  expect(stdout).toBe(expected)
})

test.concurrent('the program of testing.md passes under node --test', async () => {
  const page = await readFile(join(root, 'docs', 'coding', 'testing.md'), 'utf8')
  const [, program = ''] = /```js\n(.*?)```/s.exec(page) ?? []
  const elsewhere = await mkdtemp(join(tmpdir(), 'symphony-docs-'))
  try {
    await mkdir(join(elsewhere, 'node_modules'))
    await symlink(root, join(elsewhere, 'node_modules', 'symphony-pg'))
    await writeFile(join(elsewhere, 'payout.test.mjs'), program)
    const env = { ...process.env, TEST_DATABASE_URL: inject('serverUrl') }
    const options = { cwd: elsewhere, env, timeout: 100_000 }
    const { stdout } = await run(process.execPath, ['--test', '--test-reporter=tap', 'payout.test.mjs'], options)
    expect(stdout).toMatch(/^# pass 1$/m)
  } finally {
    await rm(elsewhere, { recursive: true, force: true })
  }
})

test.concurrent('the project of typescript-from-zero.md compiles with its tsconfig, and its test passes', async () => {
  const blocks = codeBlocks(await readFile(join(root, 'docs', 'start', 'typescript-from-zero.md'), 'utf8'))
  const elsewhere = await mkdtemp(join(tmpdir(), 'symphony-docs-'))
  try {
    await mkdir(join(elsewhere, 'node_modules'))
    await mkdir(join(elsewhere, 'src'))
    await symlink(root, join(elsewhere, 'node_modules', 'symphony-pg'))
    for (const name of ['@symphony-pg', '@types', 'pg', 'undici-types']) {
      await symlink(join(root, 'node_modules', name), join(elsewhere, 'node_modules', name))
    }
    for (const block of blocks) {
      const file = fileOf(block)
      if (block.language === 'ts' && file !== undefined) await writeFile(join(elsewhere, 'src', file), block.code)
    }
    const [manifest, tsconfig] = blocks.filter(({ language }) => language === 'json')
    await writeFile(join(elsewhere, 'package.json'), manifest!.code)
    await writeFile(join(elsewhere, 'tsconfig.json'), tsconfig!.code)
    const options = {
      cwd: elsewhere,
      env: { ...process.env, TEST_DATABASE_URL: inject('serverUrl') },
      timeout: 100_000,
    }
    await run(process.execPath, [join(root, 'node_modules', 'typescript', 'bin', 'tsc')], options)
    const words = ['--test', '--test-reporter=tap', 'dist/order.test.js']
    const { stdout } = await run(process.execPath, words, options)
    expect(stdout).toMatch(/^# pass 1$/m)
  } finally {
    await rm(elsewhere, { recursive: true, force: true })
  }
})

test('many-tenants.mjs equals the program of many-databases.md, which docsPrograms.spec.ts runs', async () => {
  const page = await readFile(join(root, 'docs', 'concepts', 'many-databases.md'), 'utf8')
  const [, program, output] = /```js\n(.*?)```\n\nIt prints\n\n```text\n(.*?)```/s.exec(page) ?? []
  expect(await readFile(join(folder, 'many-tenants.mjs'), 'utf8')).toBe(`${program}\n/* prints\n${output}*/\n`)
})

test('every example is executed by a test', async () => {
  const programs = (await readdir(folder)).filter((name) => name.endsWith('.mjs'))
  expect(programs.toSorted()).toEqual([...EXAMPLES, 'many-tenants.mjs'].toSorted())
})
