import { join } from 'node:path'
import { defineConfig } from 'vitest/config'

/** Runs the tests that need programs from Debian packages: `npm run debian`. */
export default defineConfig({
  test: {
    root: join(import.meta.dirname, '..', '..'),
    include: ['tests/debian/*.check.ts'],
    pool: 'forks',
    maxWorkers: 1,
    allowOnly: false,
    passWithNoTests: false,
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000, interval: 25 } },
  },
})
