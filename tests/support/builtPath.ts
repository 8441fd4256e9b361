import { fileURLToPath } from 'node:url'
import { inject } from 'vitest'

/** A file or folder in dist/, for tests that start processes of their own: they run what users run. */
export function builtPath(path: string): string {
  // The scorecard plays scenarios with the same tools, outside vitest, and builds before it starts.
  const isTest = process.env['VITEST'] !== undefined
  if (isTest && !inject('isBuilt'))
    throw new Error('dist/ could not be built: see the compiler messages above, or npm run build.')
  return fileURLToPath(new URL(`../../dist/${path}`, import.meta.url))
}
