import { fileURLToPath } from 'node:url'
import { inject } from 'vitest'

/** Returns the path of a file or folder in dist/, for tests that start processes from the build. */
export function builtPath(path: string): string {
  // The scorecard runs outside vitest and builds before it starts.
  const isTest = process.env['VITEST'] !== undefined
  if (isTest && !inject('isBuilt'))
    throw new Error('dist/ could not be built: see the compiler messages above, or npm run build.')
  return fileURLToPath(new URL(`../../dist/${path}`, import.meta.url))
}
