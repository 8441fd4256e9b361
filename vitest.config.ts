import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['tests/**/*.spec.ts'],
    globalSetup: ['tests/support/globalSetup.ts'],
    // A process per file: what a test does to its process (signals, memory, a crash) stays its own.
    pool: 'forks',
    // One more than there are cores, because files wait as much as they work; but all share one server, and past four at
    // once they would wait for its connections.
    maxWorkers: Math.min(4, availableParallelism() + 1),
    // Against tests that hang, not against machines that are busy.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // Patience for a slow machine; what is waited for usually is there at the first look.
    expect: { poll: { timeout: 60_000, interval: 25 } },
    // A focused test left behind would turn the rest of the suite off without a word.
    allowOnly: false,
    passWithNoTests: false,
  },
})
