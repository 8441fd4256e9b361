import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { GUIDES, PEER_GUIDES } from '../../scripts/guides/pages.mjs'
import { readReference, wrongCommands } from '../support/commandLines.js'
import { createTestDatabase } from '../support/database.js'
import { readGuideBlocks, type GuideBlock } from '../support/guidePages.js'

const root = join(import.meta.dirname, '..', '..')
const run = promisify(execFile)
const RUN_GUIDES = new Set([...GUIDES, ...PEER_GUIDES])

/** The spec that runs the program of each page. `npm run guides` runs the programs of the guide pages. */
const PROGRAMS: Readonly<Record<string, string>> = {
  'README.md payment.mjs': 'tests/contract/package.spec.ts',
  'docs/coding/brokers.md queue.mjs': 'tests/workspaces/brokers/support/pasteProgram.ts',
  'docs/coding/brokers.md stream.mjs': 'tests/workspaces/brokers/support/pasteProgram.ts',
  'docs/coding/testing.md payout.test.mjs': 'tests/integration/docsExamples.spec.ts',
  'docs/concepts/inbox.md inbox.mjs': 'tests/integration/docsPrograms.spec.ts',
  'docs/concepts/leases.md hold.mjs': 'tests/integration/docsPrograms.spec.ts',
  'docs/concepts/many-databases.md tenants.mjs': 'tests/integration/docsPrograms.spec.ts',
  'docs/concepts/messages.md receipts.mjs': 'tests/integration/docsPrograms.spec.ts',
  'docs/concepts/scheduler.md schedule.mjs': 'tests/integration/docsPrograms.spec.ts',
}
/** Number of blocks per page that cannot be executed. Each such block states its reason. */
const NOT_RUN: Readonly<Record<string, number>> = {
  'docs/coding/brokers.md': 1,
  'docs/operate/auditor.md': 1,
  'docs/operate/least-privilege.md': 2,
  'docs/operate/tracing.md': 1,
  'docs/start/getting-started.md': 4,
}

let blocks: readonly GuideBlock[]
let folder: string
beforeAll(async () => {
  blocks = (await readGuideBlocks()).filter(({ language }) => language !== 'text')
  folder = await mkdtemp(join(tmpdir(), 'symphony-blocks-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** Returns the blocks of these languages, without the blocks that are marked as not run. */
function blocksIn(...languages: readonly string[]): readonly GuideBlock[] {
  const found = blocks.filter(({ language, notRun }) => languages.includes(language) && notRun === undefined)
  expect(found.length).toBeGreaterThan(0)
  return found
}

const placeOf = ({ page, line }: GuideBlock) => `${page}:${line}`

test('each code block has a known language; a block that is not run has a reason', () => {
  const known = new Set(['js', 'ts', 'sql', 'console', 'json', 'xml'])
  expect(blocks.filter(({ language }) => !known.has(language)).map(placeOf)).toEqual([])
  const exempt: Record<string, number> = {}
  for (const { page, notRun } of blocks) if (notRun !== undefined) exempt[page] = (exempt[page] ?? 0) + 1
  expect(blocks.filter(({ notRun }) => notRun === '').map(placeOf)).toEqual([])
  expect(exempt).toEqual(NOT_RUN)
})

test('each program of a page is run by a test or by npm run guides', async () => {
  const programs = blocks.flatMap(({ page, file }) =>
    file?.endsWith('.mjs') === true && !RUN_GUIDES.has(page) ? [`${page} ${file}`] : [],
  )
  expect(programs.toSorted()).toEqual(Object.keys(PROGRAMS).toSorted())
  for (const [name, spec] of Object.entries(PROGRAMS)) {
    const [page = ''] = name.split(' ')
    expect(await readFile(join(root, spec), 'utf8')).toContain(page.split('/').at(-1))
  }
})

/** Installs the package, the driver and their types in the folder, as a user does. */
async function install(): Promise<void> {
  for (const name of ['pg', '@types/node', '@types/pg', 'undici-types']) {
    await mkdir(dirname(join(folder, 'node_modules', name)), { recursive: true })
    await symlink(join(root, 'node_modules', name), join(folder, 'node_modules', name))
  }
  await symlink(root, join(folder, 'node_modules', 'symphony-pg'))
  await symlink(join(root, 'node_modules', '@symphony-pg'), join(folder, 'node_modules', '@symphony-pg'))
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
}

/** Compiles the blocks of a language, each as its own module, except programs that a spec runs. Returns the errors. */
async function complaints(language: string, strict: boolean): Promise<string> {
  const compiled = blocksIn(language).filter(({ page, file }) => PROGRAMS[`${page} ${file}`] === undefined)
  const files = new Map(compiled.map((block) => [`${folderOf(block)}/${language}-${block.line}.mts`, block]))
  for (const [path, { given = '', code }] of files) {
    await mkdir(join(folder, dirname(path)), { recursive: true })
    await writeFile(join(folder, path), `${given}\n${code}\nexport {}\n`)
  }
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  const options = `--noEmit --singleThreaded --skipLibCheck --module nodenext --target es2023 --lib es2023,esnext.disposable --types node`
  const words = [...options.split(' '), '--strict', String(strict), ...files.keys()]
  const { stdout } = await run(process.execPath, [tsc, ...words], { cwd: folder }).catch((error) => error)
  return stdout
}

/** The blocks and files of a page share a folder, because they import each other. */
const folderOf = ({ page }: GuideBlock) => page.replaceAll(/\W/g, '-')

async function saveFiles(): Promise<void> {
  for (const block of blocks.filter(({ file }) => file !== undefined && /\.(?:mjs|ts)$/.test(file))) {
    await mkdir(join(folder, folderOf(block)), { recursive: true })
    await writeFile(join(folder, folderOf(block), block.file!), block.code)
  }
}

test('tsc accepts each code block that no test runs, TypeScript blocks even with --strict', async () => {
  await install()
  await saveFiles()
  expect(await Promise.all([complaints('ts', true), complaints('js', false)])).toEqual(['', ''])
})

test('PostgreSQL accepts every SQL block in a database with a deployed schema', async () => {
  await using db = await createTestDatabase({ schema: 'symphony' })
  const client = await db.connect()
  for (const { page, line, given = '', code } of blocksIn('sql')) {
    // A statement with parameters is only prepared, which parses it and resolves its names.
    const statement = /\$\d/.test(code) ? `PREPARE block AS ${code}` : code.replaceAll(/^(?:BEGIN|COMMIT);$/gm, '')
    const accepted = await client.query(`BEGIN; ${given};\n${statement}\n; ROLLBACK`).then(
      () => 'accepted',
      async (error: Error) => {
        await client.query('ROLLBACK')
        return error.message
      },
    )
    expect(`${page}:${line} ${accepted}`).toBe(`${page}:${line} accepted`)
  }
})

test('every command in a page exists, with its options and arguments', async () => {
  const program = readReference(await readFile(join(root, 'docs', 'reference', 'cli.md'), 'utf8'))
  const { scripts } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
  const wrong = blocks
    .filter(({ language }) => language === 'console')
    .flatMap((block) => {
      const found = wrongCommands(block.code, program, scripts)
      // A block that is not run may use programs that are not installed here. Its symphony commands must be right.
      const counted = block.notRun === undefined ? found : found.filter((what) => !what.startsWith('unknown program'))
      return counted.map((what) => `${placeOf(block)} ${what}`)
    })
  expect(wrong).toEqual([])
  const wrongCode =
    'symphony deploy --dry\nsymphony show A B\nsymphony jobs list | walk\nnpm run nothing\nsymhpony start'
  expect(wrongCommands(wrongCode, program, scripts)).toHaveLength(5)
})

test('every JSON block of a page is valid JSON', () => {
  const broken = blocksIn('json').filter(({ code }) => {
    try {
      return JSON.parse(code) === undefined
    } catch {
      return true
    }
  })
  expect(broken.map(placeOf)).toEqual([])
})
