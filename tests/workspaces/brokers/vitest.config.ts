import { join } from 'node:path'
import { defineConfig } from 'vitest/config'

/** Tests the broker rails with real clients against real servers: `npm run brokers`. */
export default defineConfig({
  test: {
    root: join(import.meta.dirname, '../../..'),
    include: ['tests/workspaces/brokers/**/*.spec.ts'],
    globalSetup: ['tests/support/globalSetup.ts'],
    pool: 'forks',
    // A broker frozen in one file must not slow down another file.
    maxWorkers: 1,
    allowOnly: false,
    passWithNoTests: false,
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000, interval: 25 } },
  },
})
