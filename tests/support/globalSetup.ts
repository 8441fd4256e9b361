import { isAbsolute } from 'node:path'
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
  const { server, version, stopDropping, removeTemplate } = await run.begun
  project.provide('serverUrl', server.url)
  project.provide('postgresVersion', version)
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
  readonly version: PostgresVersion
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
  const asked = process.env['SYMPHONY_TEST_POSTGRES'] ?? '18'
  const isFolder = isAbsolute(asked)
  const server = await startPrivateServer({
    ...(isFolder ? { binaries: asked } : { version: knownVersion(asked) }),
    settings: {
      ...(isFolder && COMPILED),
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
  const version = await withSuperuser(server.url, async (client) => {
    await hashPasswordOnce(client)
    if (isFolder) await sortByIcu(client)
    const { rows } = await client.query<{ version: number }>(
      `SELECT current_setting('server_version_num')::int / 10000 AS version`,
    )
    return knownVersion(String(rows[0]?.version))
  })
  // Runs after the start of the run's own server, which must not be a copy of the template: its system identifier must
  // differ from those of private servers.
  const removeTemplate = await createClusterTemplate(version)
  return { server, version, stopDropping: dropAbandonedDatabases(server.url), removeTemplate }
}

async function withSuperuser<T>(serverUrl: string, body: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client(serverUrl)
  await client.connect()
  try {
    return await body(client)
  } finally {
    await client.end()
  }
}

async function hashPasswordOnce(client: Client): Promise<void> {
  const password = quickPassword(client.password ?? '')
  await client.query(`ALTER ROLE ${client.escapeIdentifier(client.user ?? '')} PASSWORD '${password}'`)
}

/** Compiles queries of medium cost too (JIT), which the server would do for expensive ones only. */
const COMPILED = { jit: 'on', jit_above_cost: '1000' }

/** Replaces template0, so that the databases of the tests compare and sort text by ICU, as databases of users may. */
async function sortByIcu(client: Client): Promise<void> {
  await client.query(`CREATE DATABASE icu TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US'`)
  await client.query('ALTER DATABASE template0 RENAME TO template0_without_icu')
  await client.query('ALTER DATABASE icu RENAME TO template0')
  // With a version, a test could not create a database without ICU from it.
  await client.query(`UPDATE pg_database SET datcollversion = NULL WHERE datname = 'template0'`)
}

function knownVersion(asked: string): PostgresVersion {
  const version = VERSIONS.find((known) => String(known) === asked)
  if (version !== undefined) return version
  throw new Error(`SYMPHONY_TEST_POSTGRES: expected 15, 16, 17, 18 or the folder of such a server, got "${asked}".`)
}
