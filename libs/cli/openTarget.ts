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

type Timeouts = Pick<DatabaseOptions, 'statementTimeoutMs' | 'idleInTransactionTimeoutMs'>

export function openTargetAt(
  url: string,
  { schema, pooler, listenUrl }: TargetSettings,
  application: string,
  timeouts: Timeouts = {},
): Database {
  return openDatabase({
    ...timeouts,
    url,
    schema,
    pooler,
    applicationName: `symphony ${application}`,
    ...(listenUrl === undefined ? {} : { listenUrl }),
  })
}

/** Opens the target for one command and closes it again, whatever happens. */
export async function withTarget<T>(
  settings: TargetSettings,
  application: string,
  body: (database: Database) => Promise<T>,
  timeouts: Timeouts = {},
): Promise<T> {
  const database = openTargetAt(await urlOfTarget(settings), settings, application, timeouts)
  try {
    return await body(database)
  } finally {
    await database.close()
  }
}
