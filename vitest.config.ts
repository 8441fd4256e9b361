import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { SlowestFirst } from './tests/support/SlowestFirst.js'

/**
 * Files that handle signals, change the environment, register something for their whole process, or use so much of it that another
 * would notice.
 */
const APART = [
  'tests/{chaos,e2e}/**',
  'tests/unit/{cli,cliProcess,cliSurface,cliVault,dbTls,dashboardBuild,deploymentCli,outboxTraceContext}.*',
  'tests/unit/{deploymentSnapshot,embedded,observability}*',
  'tests/integration/{bench,cliDemo,cliProcesses,dbConnectionLoss,dbListen,docs,embedded,observability,platformFleet}*',
  'tests/integration/{inboxExactlyOnce,leaseLoss,leaseTokens,railsBook,schedulerKills,testing}*',
  'tests/contract/{guardrails,monitoring,package}*',
  'tests/security/{canary,ledgerTamper}*',
]

export default defineConfig({
  test: {
    // One more than there are cores, because files wait as much as they work; but all share one server, and past four at
    // once they would wait for its connections.
    maxWorkers: Math.min(4, availableParallelism() + 1),
    // A focused test left behind would turn the rest of the suite off without a word.
    allowOnly: false,
    passWithNoTests: false,
    sequence: { sequencer: SlowestFirst },
    projects: [
      // What a test does to its process (signals, memory, a crash) stays its own.
      project('apart', {
        include: APART.map((files) => `${files}.spec.ts`.replace('**.spec', '**/*.spec').replace('.*.spec', '.spec')),
        isolate: true,
      }),
      // All others ask a database and nothing else: loading the library anew for each of them took longer than some of them.
      project('together', {
        include: ['tests/**/*.spec.ts'],
        exclude: [...APART.map((files) => `${files}*`), 'tests/workspaces/**'],
        isolate: false,
      }),
    ],
  },
})

function project(name: string, files: { include: string[]; exclude?: string[]; isolate: boolean }) {
  return {
    test: {
      name,
      ...files,
      globalSetup: ['tests/support/globalSetup.ts'],
      pool: 'forks' as const,
      // Against tests that hang, not against machines that are busy.
      testTimeout: 120_000,
      hookTimeout: 120_000,
      // Patience for a slow machine; what is waited for usually is there at the first look.
      expect: { poll: { timeout: 60_000, interval: 25 } },
    },
  }
}
