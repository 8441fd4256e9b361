import { Option } from 'commander'
import { embeddedUrl } from '../embedded/index.js'
import type { Cli } from './Cli.js'

/** The options by which a command is told which database it works on. */
export interface TargetOptions {
  readonly databaseUrl?: string
  readonly schema?: string
  readonly dataDir: string
}

export function databaseUrlOption(): Option {
  return new Option('--database-url <url>', 'the database (also: DATABASE_URL, which keeps a password out of `ps`)')
}

export function schemaOption(): Option {
  return new Option('--schema <name>', 'the schema of the deployment (also: SYMPHONY_SCHEMA; default: symphony)')
}

/** The address that was given, or undefined where the embedded server is meant. */
export function givenUrl({ databaseUrl }: TargetOptions, { env }: Cli): string | undefined {
  return databaseUrl ?? nonEmpty(env['DATABASE_URL'])
}

/** The address that was given, else that of the embedded server that runs in the data folder. */
export async function targetUrl(options: TargetOptions, cli: Cli): Promise<string> {
  return givenUrl(options, cli) ?? (await embeddedUrl(options.dataDir))
}

/** Spread into options whose default it must not override. */
export function targetSchema({ schema }: TargetOptions, { env }: Cli): { readonly schema?: string } {
  const name = schema ?? nonEmpty(env['SYMPHONY_SCHEMA'])
  return name === undefined ? {} : { schema: name }
}

function nonEmpty(value: string | undefined): string | undefined {
  return value === '' ? undefined : value
}
