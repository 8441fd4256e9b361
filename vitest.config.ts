import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['tests/**/*.spec.ts'],
    globalSetup: ['tests/support/globalSetup.ts'],
    // A process per file: what a test does to its process (signals, memory, a crash) stays its own.
    pool: 'forks',
    // The tests wait for PostgreSQL more than they compute, so two files at once suit two cores and the one server.
    maxWorkers: 2,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // A focused test left behind would turn the rest of the suite off without a word.
    allowOnly: false,
    passWithNoTests: false,
  },
})
