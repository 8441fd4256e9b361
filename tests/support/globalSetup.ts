import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import type { TestProject } from 'vitest/node'
import { dropAbandonedDatabases } from './abandonedDatabases.js'
import { quickPassword } from './quickPassword.js'
import { type PostgresVersion, type PrivateServer, removeFoldersOfDeadRuns, startPrivateServer } from './server.js'

declare module 'vitest' {
  export interface ProvidedContext {
    /** Superuser address of the run's own server. */
    readonly serverUrl: string
    /** Its major version: 18. */
    readonly postgresVersion: PostgresVersion
    /** Whether dist/ is what the sources say; tests that start processes of their own need it. */
    readonly isBuilt: boolean
  }
}

const VERSIONS: readonly PostgresVersion[] = [15, 16, 17, 18]

/**
 * One server for the whole run, in a folder of its own; each test file takes its own database from it. Without a
 * server the run fails here: a proof that was skipped proves nothing.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  // Both projects come here, one after the other, each with its own copy of this module: what they share is the process.
  const run = (globalThis.symphonyTestRun ??= { projects: 0, begun: begin() })
  run.projects += 1
  const { server, isBuilt, stopDropping } = await run.begun
  project.provide('isBuilt', isBuilt)
  project.provide('serverUrl', server.url)
  project.provide('postgresVersion', versionAskedFor())
  return async () => {
    run.projects -= 1
    if (run.projects > 0) return
    globalThis.symphonyTestRun = undefined
    await stopDropping()
    await server.remove()
  }
}

interface Begun {
  readonly server: PrivateServer
  readonly isBuilt: boolean
  readonly stopDropping: () => Promise<void>
}

interface Run {
  projects: number
  readonly begun: Promise<Begun>
}

declare global {
  var symphonyTestRun: Run | undefined
}

async function begin(): Promise<Begun> {
  // Inherited by every test: a stricter one would close their own scripts to the account that root lends the server.
  process.umask(0o022)
  await removeFoldersOfDeadRuns()
  const server = await startPrivateServer({
    version: versionAskedFor(),
    settings: {
      // Races open many connections at once, in two files at once.
      max_connections: '300',
      // Every function and branch must have run; the counters say which did.
      track_functions: 'all',
      // A transaction prepared and left alone is how a test keeps a lock across connections.
      max_prepared_transactions: '20',
      // A deadlock is a case under test: found in a tenth of a second instead of one.
      deadlock_timeout: '100ms',
    },
  })
  await hashPasswordOnce(server.url)
  return { server, isBuilt: build(), stopDropping: dropAbandonedDatabases(server.url) }
}

async function hashPasswordOnce(serverUrl: string): Promise<void> {
  const client = new Client(serverUrl)
  await client.connect()
  const password = decodeURIComponent(new URL(serverUrl).password)
  await client.query(`ALTER ROLE ${client.escapeIdentifier(client.user ?? '')} PASSWORD '${quickPassword(password)}'`)
  await client.end()
}

/** Built here, once: test files that did it side by side would read each other's half-written files. */
function build(): boolean {
  const script = fileURLToPath(new URL('../../scripts/build.mjs', import.meta.url))
  return spawnSync(process.execPath, [script], { stdio: 'inherit' }).status === 0
}

function versionAskedFor(): PostgresVersion {
  const asked = process.env['SYMPHONY_TEST_POSTGRES'] ?? '18'
  const version = VERSIONS.find((known) => String(known) === asked)
  if (version === undefined) throw new Error(`SYMPHONY_TEST_POSTGRES: expected 15, 16, 17 or 18, got "${asked}".`)
  return version
}
