import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** File that the rules check. Tests add files with violations to those on disk. */
export interface SourceFile {
  /** Path from the root of the checkout, with forward slashes. */
  readonly path: string
  readonly text: string
}

export type Repository = readonly SourceFile[]

/** Returns every text file of the checkout, except installed, built and temporary files. */
export function readRepository(root: string): Repository {
  return [...filesBelow(root, '')].map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }))
}

function* filesBelow(root: string, folder: string): Generator<string> {
  for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`
    if (entry.isDirectory() && !FOREIGN_FOLDERS.has(entry.name)) yield* filesBelow(root, path)
    // In a git worktree, .git is a file.
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

/** Returns whether the file is hand-written SQL. The snapshot is generated. */
export function isSql(file: SourceFile): boolean {
  return file.path.endsWith('.sql') && file.path !== 'schema/snapshot.sql'
}

/** Returns whether the file belongs to tests or benchmarks, which may write tables directly. */
export function isTestFile(path: string): boolean {
  return /^(?:tests|bench)\//.test(path)
}

/** Returns whether the file is an example, which contains a user's own SQL. */
export function isExample(path: string): boolean {
  return path.startsWith('examples/')
}

export function lineAt(text: string, offset: number): number {
  let line = 1
  for (let at = text.indexOf('\n'); at !== -1 && at < offset; at = text.indexOf('\n', at + 1)) line += 1
  return line
}
