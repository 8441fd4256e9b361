import { defineConfig } from 'vitest/config'

/** A run of its own, after the run that left the counts: no order between files of one run is ever relied on. */
export default defineConfig({ test: { include: ['tests/contract/sqlBranchesExecuted.check.ts'] } })
