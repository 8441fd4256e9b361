// Builds libs/dashboard into dist/dashboard: page, script, style sheet and charts, their names made of their content, so that
// browsers may keep them for ever.
import { existsSync, renameSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'vite'

// What is built must not depend on who asks: under a test runner it would be the development version.
process.env.NODE_ENV = 'production'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const target = join(root, 'dist', 'dashboard')
const draft = `${target}.${process.pid}`

await build({
  configFile: false,
  root: join(root, 'libs', 'dashboard'),
  // Relative, so that it works behind a proxy that adds a path.
  base: './',
  logLevel: 'warn',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: draft,
    emptyOutDir: true,
    target: 'es2023',
    // The policy allows no inline script and no data: address, so nothing is inlined.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // A map would double what is served, and the sources are in the repository.
    sourcemap: false,
    reportCompressedSize: false,
  },
})
putInPlace()

/** By rename, so that a server which starts meanwhile never finds half a page; and again, if another build was faster. */
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
