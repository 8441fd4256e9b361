import { Client } from 'pg'
import type { TestProject } from 'vitest/node'
import { dropAbandonedDatabases } from './abandonedDatabases.js'
import { quickPassword } from './quickPassword.js'
import {
  createClusterTemplate,
  type PostgresVersion,
  type PrivateServer,
  removeFoldersOfDeadRuns,
  startPrivateServer,
} from './server.js'

declare module 'vitest' {
  export interface ProvidedContext {
    /** Superuser address of the run's own server. */
    readonly serverUrl: string
    /** Major version of the server, such as 18. */
    readonly postgresVersion: PostgresVersion
  }
}

const VERSIONS: readonly PostgresVersion[] = [15, 16, 17, 18]

/**
 * Starts one server for the whole run. Each test file creates its own database. Without a server the run fails here
 * instead of skipping tests.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  // Both projects call this with their own copy of the module, so the shared state is in `globalThis`.
  const run = (globalThis.symphonyTestRun ??= { projects: 0, begun: begin() })
  run.projects += 1
  const { server, stopDropping, removeTemplate } = await run.begun
  project.provide('serverUrl', server.url)
  project.provide('postgresVersion', versionAskedFor())
  return async () => {
    run.projects -= 1
    if (run.projects > 0) return
    globalThis.symphonyTestRun = undefined
    await stopDropping()
    await server.remove()
    await removeTemplate()
  }
}

interface Begun {
  readonly server: PrivateServer
  readonly stopDropping: () => Promise<void>
  readonly removeTemplate: () => Promise<void>
}

interface Run {
  projects: number
  readonly begun: Promise<Begun>
}

declare global {
  var symphonyTestRun: Run | undefined
}

async function begin(): Promise<Begun> {
  // Every test inherits this umask. If the tests run as root, the server runs as another account, which must be able to
  // read the files of the tests.
  process.umask(0o022)
  await removeFoldersOfDeadRuns()
  const server = await startPrivateServer({
    version: versionAskedFor(),
    settings: {
      // Races in two files open many connections at once.
      max_connections: '300',
      // Counts calls of functions, for the branch coverage.
      track_functions: 'all',
      // Tests keep locks across connections with prepared transactions.
      max_prepared_transactions: '20',
      // Tests cause deadlocks, which PostgreSQL then detects in 0.1 s instead of 1 s.
      deadlock_timeout: '100ms',
    },
  })
  await hashPasswordOnce(server.url)
  // Runs after the start of the run's own server, which must not be a copy of the template: its system identifier must
  // differ from those of private servers.
  const removeTemplate = await createClusterTemplate(versionAskedFor())
  return { server, stopDropping: dropAbandonedDatabases(server.url), removeTemplate }
}

async function hashPasswordOnce(serverUrl: string): Promise<void> {
  const client = new Client(serverUrl)
  await client.connect()
  const password = decodeURIComponent(new URL(serverUrl).password)
  await client.query(`ALTER ROLE ${client.escapeIdentifier(client.user ?? '')} PASSWORD '${quickPassword(password)}'`)
  await client.end()
}

function versionAskedFor(): PostgresVersion {
  const asked = process.env['SYMPHONY_TEST_POSTGRES'] ?? '18'
  const version = VERSIONS.find((known) => String(known) === asked)
  if (version === undefined) throw new Error(`SYMPHONY_TEST_POSTGRES: expected 15, 16, 17 or 18, got "${asked}".`)
  return version
}
