import { Option, type Command } from 'commander'
import type { Cli } from './Cli.js'
import { urlOfTarget } from './openTarget.js'
import { addSettings, resolveSettings } from './resolveSettings.js'

/** Which database a command works on that opens it by itself, before there is anything in it to log in as. */
const DATABASE = ['databaseUrl', 'schema', 'dataDir'] as const

/** Their flags, as commander parsed them. */
export interface DatabaseFlags {
  readonly databaseUrl?: string
  readonly schema?: string
  readonly dataDir?: string
  readonly config?: string
}

export function addDatabaseSettings(command: Command): Command {
  return addSettings(command, DATABASE)
}

/** The address that was given, else that of the embedded server that runs in the data folder; and the schema in it. */
export async function resolveDatabase(
  { databaseUrl, schema, dataDir, config }: DatabaseFlags,
  cli: Cli,
): Promise<{ readonly url: string; readonly schema: string }> {
  const settings = await resolveSettings(DATABASE, { databaseUrl, schema, dataDir, config }, cli)
  return { url: await urlOfTarget(settings), schema: settings.schema }
}

export function databaseUrlOption(): Option {
  return new Option('--database-url <url>', 'the database')
}
