import { defineConfig } from 'vitest/config'

/** Runs after the leg that wrote the counts, because vitest orders no files within one run. */
export default defineConfig({ test: { include: ['tests/sqlBranches/executed.check.ts'] } })
