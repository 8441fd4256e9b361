import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** A file as the checks see it. Tests plant violations by adding such objects to what is on disk. */
export interface SourceFile {
  /** From the root of the checkout, with forward slashes. */
  readonly path: string
  readonly text: string
}

export type Repository = readonly SourceFile[]

/** Every text file that is ours: not what is installed, built, or left behind by a run. */
export function readRepository(root: string): Repository {
  return [...filesBelow(root, '')].map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }))
}

function* filesBelow(root: string, folder: string): Generator<string> {
  for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`
    if (entry.isDirectory() && !FOREIGN_FOLDERS.has(entry.name)) yield* filesBelow(root, path)
    // In a worktree of git, .git is a file.
    else if (entry.isFile() && entry.name !== '.git' && isText(entry.name)) yield path
  }
}

const FOREIGN_FOLDERS = new Set(['.git', '.symphony', 'coverage', 'dist', 'node_modules'])

function isText(name: string): boolean {
  const extension = /\.(\w+)$/.exec(name)?.[1]
  return extension === undefined || !BINARY_EXTENSIONS.has(extension)
}

const BINARY_EXTENSIONS = new Set([
  'gif',
  'gz',
  'ico',
  'jpeg',
  'jpg',
  'log',
  'png',
  'tgz',
  'tsbuildinfo',
  'wasm',
  'webp',
  'woff2',
])

export function isTypeScript(file: SourceFile): boolean {
  return /\.(?:m|c)?(?:t|j)sx?$/.test(file.path) || file.path === 'bin/symphony'
}

/** SQL that somebody wrote. The snapshot is written by PostgreSQL, in its own words. */
export function isSql(file: SourceFile): boolean {
  return file.path.endsWith('.sql') && file.path !== 'schema/snapshot.sql'
}

/** Code of tests and measurements. It may run SQL that the product may run only through its functions. */
export function isTestFile(path: string): boolean {
  return /^(?:tests|bench)\//.test(path)
}

/** Programs that show a user's own code, with the user's own driver and transaction. */
export function isExample(path: string): boolean {
  return path.startsWith('examples/')
}

export function lineAt(text: string, offset: number): number {
  let line = 1
  for (let at = text.indexOf('\n'); at !== -1 && at < offset; at = text.indexOf('\n', at + 1)) line += 1
  return line
}
