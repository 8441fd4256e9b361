import { join } from 'node:path'
import { defineConfig } from 'vitest/config'

/** Tests the adapters with the real libraries against a real PostgreSQL: `npm run adapters`. */
export default defineConfig({
  test: {
    root: join(import.meta.dirname, '../../..'),
    include: ['tests/workspaces/adapters/**/*.spec.ts'],
    globalSetup: ['tests/support/globalSetup.ts'],
    pool: 'forks',
    maxWorkers: 2,
    allowOnly: false,
    passWithNoTests: false,
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000, interval: 25 } },
  },
})
