import type { Command } from 'commander'
import { requiredText, type SymphonyError } from '../../core/index.js'
import { DatabaseError, loadEmbedded, openDatabase, type Database, type DatabaseOptions } from '../../db/index.js'
import { addSettings, resolveSettings } from '../settings/resolveSettings.js'
import type { TargetSettings } from '../settings/settings.js'
import type { Cli } from '../terminal/Terminal.js'

/** Returns the given URL, or the URL of the embedded server that runs in the data folder. */
export async function urlOfTarget({
  databaseUrl,
  dataDir,
}: Pick<TargetSettings, 'databaseUrl' | 'dataDir'>): Promise<string> {
  if (databaseUrl !== undefined) return databaseUrl
  const { embeddedUrl } = await loadEmbedded()
  return embeddedUrl(dataDir)
}

export interface OpenedServer {
  readonly url: string
  /** Embedded server; undefined if a URL was given. */
  readonly embedded:
    | { readonly version: number; readonly dataDir: string; readonly port: number; readonly adopted: boolean }
    | undefined
  /** Stops the server only if this process started it. */
  readonly stop: () => Promise<void>
}

/** Returns the given server. Without a URL, returns the embedded server of the data folder, and starts it if needed. */
export async function openServer(
  { databaseUrl, dataDir }: { readonly databaseUrl: string | undefined; readonly dataDir: string },
  { searchPath, signal }: { readonly searchPath: string | undefined; readonly signal: AbortSignal },
): Promise<OpenedServer> {
  if (databaseUrl !== undefined) {
    return { url: requiredText('databaseUrl', databaseUrl, 8_192), embedded: undefined, stop: async () => {} }
  }
  const { startEmbedded } = await loadEmbedded()
  const server = await startEmbedded({ dataDir, searchPath, signal })
  return { url: server.url, embedded: server, stop: server.stop }
}

export function targetOptions(
  url: string,
  { schema, pooler, listenUrl }: TargetSettings,
  application: string,
): DatabaseOptions {
  return {
    url,
    schema,
    pooler,
    applicationName: `symphony ${application}`,
    ...(listenUrl === undefined ? {} : { listenUrl }),
  }
}

/** Limits for commands with statements that may run longer than those of a worker. */
export type TargetLimits = Pick<DatabaseOptions, 'statementTimeoutMs' | 'lockTimeoutMs'>

export function withTarget<T>(
  settings: TargetSettings,
  application: string,
  body: (database: Database) => Promise<T>,
  limits: TargetLimits = {},
): Promise<T> {
  return withOpened(settings, application, async (options) => openDatabase({ ...options, ...limits }), body)
}

/**
 * Opens an object with its own database connection, passes it to the body and closes it. If a failure comes from a
 * missing or different schema, throws an error that says so.
 */
export async function withOpened<Opened extends { close(): Promise<void> }, T>(
  settings: TargetSettings,
  application: string,
  open: (options: DatabaseOptions) => Promise<Opened>,
  body: (opened: Opened) => Promise<T>,
): Promise<T> {
  const url = await urlOfTarget(settings)
  const opened = await open(targetOptions(url, settings, application))
  try {
    return await body(opened)
  } catch (error) {
    throw (await schemaRefusal(error, url, settings.schema)) ?? error
  } finally {
    await opened.close()
  }
}

/** Error codes that a missing schema, or one of another release, can cause. */
const SCHEMA_MISMATCH_CODES: ReadonlySet<string> = new Set([
  'INVALID_SCHEMA_NAME',
  'ROLE_UNAVAILABLE',
  'UNDEFINED_COLUMN',
  'UNDEFINED_FUNCTION',
  'UNDEFINED_TABLE',
])

/** Returns an error about the deployment if the schema differs from this release. */
async function schemaRefusal(error: unknown, url: string, schema: string): Promise<SymphonyError | undefined> {
  if (!(error instanceof DatabaseError) || !SCHEMA_MISMATCH_CODES.has(error.code)) return undefined
  const { checkStart } = await import('../../deployment/index.js')
  try {
    const { refusals } = await checkStart({ url, schema })
    const finding = refusals.find(({ code }) => code !== 'SERVER_IS_STANDBY')
    if (finding === undefined) return undefined
    const { findingError } = await import('./diagnosis.js')
    const { object, expected, found } = finding
    return findingError(finding, `${object}: expected ${expected}, found ${found}.`)
  } catch {
    // The check of the schema failed as well. Keeps the first error, which says more.
    return undefined
  }
}

/** Settings of `deploy` and `doctor`, which open their own connection. They use neither a pooler nor LISTEN. */
const DATABASE = ['databaseUrl', 'schema', 'dataDir'] as const

export interface DatabaseFlags {
  readonly databaseUrl?: string
  readonly schema?: string
  readonly dataDir?: string
  readonly config?: string
}

export function addDatabaseSettings(command: Command): Command {
  return addSettings(command, DATABASE)
}

export async function resolveDatabase(
  { databaseUrl, schema, dataDir, config }: DatabaseFlags,
  cli: Cli,
): Promise<{ readonly url: string; readonly schema: string }> {
  const settings = await resolveSettings(DATABASE, { databaseUrl, schema, dataDir, config }, cli)
  return { url: await urlOfTarget(settings), schema: settings.schema }
}
