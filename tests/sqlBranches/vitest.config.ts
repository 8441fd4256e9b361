import { defineConfig } from 'vitest/config'

/** Runs after the test run that wrote the counts, because vitest does not order files within one run. */
export default defineConfig({ test: { include: ['tests/sqlBranches/executed.check.ts'] } })
