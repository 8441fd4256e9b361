import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'

const root = join(import.meta.dirname, '..', '..')
const run = promisify(execFile)

/** Runs an example against a database, and finds at its end what it says it prints. `program` is what it was compiled to. */
export async function runExample(
  file: string,
  program: string,
  databaseUrl: string,
): Promise<{ readonly stdout: string; readonly expected: string }> {
  const expected = /^\/\* prints\n(.*?)\*\/\n$/ms.exec(await readFile(file, 'utf8'))?.[1]
  if (expected === undefined) throw new Error(`${file} does not say what it prints`)
  const env = { ...process.env, DATABASE_URL: databaseUrl }
  const { stdout } = await run(process.execPath, [program], { cwd: dirname(file), env, timeout: 100_000 })
  return { stdout, expected }
}

/** An example in TypeScript, compiled beside itself, because there its imports are found. */
export async function compileExample(file: string): Promise<{ readonly file: string; remove(): Promise<void> }> {
  const outDir = await mkdtemp(join(dirname(file), 'compiled-'))
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  const project = join(root, 'tests', 'workspaces', 'adapters', 'tsconfig.examples.json')
  await run(process.execPath, [tsc, '-p', project, '--outDir', outDir])
  return {
    file: join(outDir, basename(dirname(file)), basename(file).replace(/\.ts$/, '.js')),
    remove: () => rm(outDir, { recursive: true, force: true }),
  }
}
