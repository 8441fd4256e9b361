import { openDatabase, type Database, type DatabaseOptions } from '../db/index.js'
import { embeddedUrl } from '../embedded/index.js'
import type { TargetSettings } from './settings.js'

/** The address that was given, else that of the embedded server that runs in the data folder. */
export async function urlOfTarget({
  databaseUrl,
  dataDir,
}: Pick<TargetSettings, 'databaseUrl' | 'dataDir'>): Promise<string> {
  return databaseUrl ?? (await embeddedUrl(dataDir))
}

/** For what takes longer than a worker's statement may. */
export type TargetLimits = Pick<DatabaseOptions, 'statementTimeoutMs' | 'idleInTransactionTimeoutMs'>

export function openTargetAt(
  url: string,
  { schema, pooler, listenUrl }: TargetSettings,
  application: string,
  limits: TargetLimits = {},
): Database {
  return openDatabase({
    url,
    schema,
    pooler,
    applicationName: `symphony ${application}`,
    ...(listenUrl === undefined ? {} : { listenUrl }),
    ...limits,
  })
}

/** Opens the target for one command and closes it again, whatever happens. */
export async function withTarget<T>(
  settings: TargetSettings,
  application: string,
  body: (database: Database) => Promise<T>,
  limits?: TargetLimits,
): Promise<T> {
  const database = openTargetAt(await urlOfTarget(settings), settings, application, limits)
  try {
    return await body(database)
  } finally {
    await database.close()
  }
}
