// Builds libs/dashboard into dist/dashboard: page, script, style sheet and charts. File names contain a content hash,
// so browsers may cache the files for ever.
import { existsSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'vite'

// A test runner sets NODE_ENV to `test`, which would make vite build the development version.
process.env.NODE_ENV = 'production'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const target = join(root, 'dist', 'dashboard')
const draft = `${target}.${process.pid}`

await build({
  configFile: false,
  root: join(root, 'libs', 'dashboard'),
  // Relative URLs, so that the dashboard works behind a proxy that adds a path.
  base: './',
  logLevel: 'warn',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: draft,
    emptyOutDir: true,
    target: 'es2023',
    // The content security policy allows no inline script and no data: URL.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // Bundles all modules of the first page into one file. Otherwise modules that later pages also import would become
    // separate chunks, which the first page would have to fetch too.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: 'first', tags: ['$initial'] }] } } },
    // A source map would double the size, and the sources are in the repository.
    sourcemap: false,
    // The licences of the bundled packages require their text in every copy.
    license: { fileName: 'LICENSES.txt' },
    reportCompressedSize: false,
  },
})
putInPlace()

/**
 * Moves the result into place by rename, so that a starting server never finds half of it. Retries if another build
 * renamed first.
 */
function putInPlace() {
  const former = `${target}.former.${process.pid}`
  for (let tries = 1; ; tries += 1) {
    try {
      if (existsSync(target)) renameSync(target, former)
      renameSync(draft, target)
      break
    } catch (error) {
      if (tries === 10) throw error
    } finally {
      rmSync(former, { recursive: true, force: true })
    }
  }
}
