import { join } from 'node:path'
import { defineConfig } from 'vitest/config'

/** The broker rails, each with its real client against a real server: `npm run brokers`. */
export default defineConfig({
  test: {
    root: join(import.meta.dirname, '../../..'),
    include: ['tests/workspaces/brokers/**/*.spec.ts'],
    globalSetup: ['tests/support/globalSetup.ts'],
    pool: 'forks',
    // A broker that is frozen in one file should not be slow because of another.
    maxWorkers: 1,
    allowOnly: false,
    passWithNoTests: false,
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000, interval: 25 } },
  },
})
