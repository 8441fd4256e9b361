import { fileURLToPath } from 'node:url'

/** Returns the path of a file or folder in dist/, for tests that start processes from the build. */
export function builtPath(path: string): string {
  return fileURLToPath(new URL(`../../dist/${path}`, import.meta.url))
}
