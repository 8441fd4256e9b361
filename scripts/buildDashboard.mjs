// Builds libs/dashboard into dist/dashboard: one page, one script, one style sheet, their names made of their content, so that
// browsers may keep them for ever.
import { renameSync, rmSync } from 'node:fs'
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
// By rename, so that a server which runs meanwhile never serves half a page.
rmSync(target, { recursive: true, force: true })
renameSync(draft, target)
