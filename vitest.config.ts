import { availableParallelism } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { defineConfig } from 'vitest/config'
import { ensureBuilt } from './scripts/build.mjs'
import { SlowestFirst } from './tests/support/SlowestFirst.js'

/** Files that need their own process: they handle signals, change the environment, or use much of its CPU or memory. */
const APART = [
  'tests/chaos/**',
  'tests/unit/{cli,cliProcess,cliSurface,cliVault,dbTls,dashboardBuild,deploymentCli,outboxTraceContext}.*',
  'tests/unit/{deploymentSnapshot,embedded,observability}*',
  'tests/integration/{bench,cliDemo,cliProcesses,dbConnectionLoss,dbListen,docs,embedded,observability,platformFleet}*',
  'tests/integration/{inboxExactlyOnce,leaseLoss,leaseTokens,railsBook,schedulerKills,testing}*',
  'tests/contract/{guardrails,monitoring,package}*',
  'tests/security/{canary,ledgerTamper}*',
]

const BROWSER = 'tests/e2e/*'

// Once here: parallel builds by test files would read each other's unfinished files.
ensureBuilt()

/**
 * Lets Node.js load the library from dist/, as it does for users. Vite would transform and run several hundred modules
 * in each process of the tests.
 */
const builtLibrary = {
  name: 'built-library',
  enforce: 'pre' as const,
  resolveId(source: string, importer: string | undefined) {
    if (importer === undefined || !source.startsWith('.')) return undefined
    const path = relative(import.meta.dirname, resolve(dirname(importer), source))
    if (/^libs\/(?!dashboard\/).*\.js$/.test(path)) return join(import.meta.dirname, 'dist', path)
    if (/^embedded\/[^/]*\.js$/.test(path))
      return join(import.meta.dirname, path.replace('embedded/', 'embedded/dist/'))
    return undefined
  },
}

export default defineConfig({
  test: {
    // One more than the cores, because tests mostly wait. At most four, because all share one server and its connections.
    maxWorkers: Math.min(4, availableParallelism() + 1),
    // A forgotten `test.only` would silently disable the other tests of its file.
    allowOnly: false,
    passWithNoTests: false,
    sequence: { sequencer: SlowestFirst },
    projects: [
      // Each file in its own process.
      project('apart', {
        include: APART.map((files) => `${files}.spec.ts`.replace('**.spec', '**/*.spec').replace('.*.spec', '.spec')),
        isolate: true,
      }),
      // Share processes, and therefore browsers.
      project('browser', { include: [`${BROWSER}.spec.ts`], isolate: false }),
      // All others share processes: loading the library for each file takes longer than some of the files.
      project('together', {
        include: ['tests/**/*.spec.ts'],
        exclude: [...APART.map((files) => `${files}*`), `${BROWSER}*`, 'tests/workspaces/**'],
        isolate: false,
      }),
    ],
  },
})

function project(name: string, files: { include: string[]; exclude?: string[]; isolate: boolean }) {
  return {
    plugins: [builtLibrary],
    test: {
      name,
      server: { deps: { external: [/\/dist\//] } },
      ...files,
      globalSetup: ['tests/support/globalSetup.ts'],
      pool: 'forks' as const,
      // Long enough for a busy machine: only a hanging test exceeds it.
      testTimeout: 120_000,
      hookTimeout: 120_000,
      // A long timeout for slow machines. The first poll usually succeeds.
      expect: { poll: { timeout: 60_000, interval: 25 } },
    },
  }
}
