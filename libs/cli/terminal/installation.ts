import { existsSync, readFileSync, realpathSync } from 'node:fs'
import { delimiter, dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isObject } from '../../core/index.js'

/**
 * Returns the name of this program for printed commands: `symphony` if the shell finds it, `npx symphony-pg` for an
 * installed package, otherwise the path, such as `./bin/symphony` in a checkout.
 */
export function programName(
  script: string | undefined = process.argv[1],
  { path = process.env['PATH'] ?? '', cwd = process.cwd() }: { readonly path?: string; readonly cwd?: string } = {},
): string {
  const file = realPath(script ?? '')
  // A test or another program runs this code, not `bin/symphony`.
  if (file === undefined || !file.endsWith(join('bin', 'symphony'))) return 'symphony'
  // Ignores `.bin` folders, which npx and npm add to PATH only for this process.
  const folders = path
    .split(delimiter)
    .filter((folder) => folder !== '' && !folder.endsWith(join('node_modules', '.bin')))
  if (folders.some((folder) => realPath(join(folder, 'symphony')) === file)) return 'symphony'
  if (file.includes(`${join('/', 'node_modules')}/`)) return 'npx symphony-pg'
  const near = relative(cwd, file)
  return shellWord(near.startsWith('..') ? file : `./${near}`)
}

/** Quotes a text as one shell word, if needed. */
export function shellWord(text: string): string {
  return /^[\w./:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`
}

function realPath(path: string): string | undefined {
  try {
    return realpathSync(path)
  } catch {
    return undefined
  }
}

/**
 * Returns the version of the package. Searches upwards for `package.json`, because compiled code lies deeper than the
 * source.
 */
export function packageVersion(): string {
  let folder = dirname(fileURLToPath(import.meta.url))
  while (!existsSync(join(folder, 'package.json'))) folder = dirname(folder)
  const manifest: unknown = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  return isObject(manifest) && 'version' in manifest ? String(manifest['version']) : '0.0.0'
}
