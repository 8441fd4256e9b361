import { defineConfig } from 'vitest/config'

/** Makes the pictures of the documentation (`npm run screenshots`). Not part of `npm test`. */
export default defineConfig({
  test: {
    include: ['tests/e2e/screenshots.shots.ts'],
    globalSetup: ['tests/support/globalSetup.ts'],
    pool: 'forks',
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 60_000, interval: 25 } },
  },
})
