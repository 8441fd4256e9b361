import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'

const root = join(import.meta.dirname, '..', '..')
const run = promisify(execFile)

/**
 * Runs an example. Returns its output and the output documented at the end of the file. `program` is its compiled file.
 */
export async function runExample(
  file: string,
  program: string,
  databaseUrl: string,
): Promise<{ readonly stdout: string; readonly expected: string }> {
  const expected = /^\/\* prints\n(.*?)\*\/\n$/ms.exec(await readFile(file, 'utf8'))?.[1]
  if (expected === undefined) throw new Error(`${file} has no /* prints … */ comment`)
  const env = { ...process.env, DATABASE_URL: databaseUrl }
  const { stdout } = await run(process.execPath, [program], { cwd: dirname(file), env, timeout: 100_000 })
  return { stdout, expected }
}

/** Compiles a TypeScript example into its own folder, where its imports resolve. */
export async function compileExample(file: string): Promise<{ readonly file: string; remove(): Promise<void> }> {
  const outDir = await mkdtemp(join(dirname(file), 'compiled-'))
  const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
  const project = join(root, 'tests', 'workspaces', 'adapters', 'tsconfig.examples.json')
  await run(process.execPath, [tsc, '-p', project, '--outDir', outDir, '--singleThreaded'])
  return {
    file: join(outDir, basename(dirname(file)), basename(file).replace(/\.ts$/, '.js')),
    remove: () => rm(outDir, { recursive: true, force: true }),
  }
}
