import { resolve } from 'node:path'
import { embeddedFolder } from '../db/index.js'

/** Database of the platform, as configured or discovered. */
export interface PlatformDatabase {
  /** Case-insensitive name, used in routing, events and logs. */
  readonly name: string
  /** `postgres://login:password@host:port/database`, or for development `embedded:FOLDER`. */
  readonly url: string
  /** @default the platform's schema */
  readonly schema?: string
}

/**
 * Returns the current databases. It is called periodically, so databases may be added and removed while the process
 * runs. If it throws or returns an invalid list, the last valid list stays in use.
 */
export abstract class PlatformDiscovery {
  abstract databases(): Promise<readonly PlatformDatabase[]>
}

export class StaticDiscovery extends PlatformDiscovery {
  readonly #databases: readonly PlatformDatabase[]

  constructor(databases: readonly PlatformDatabase[]) {
    super()
    this.#databases = Object.freeze([...databases])
  }

  databases(): Promise<readonly PlatformDatabase[]> {
    return Promise.resolve(this.#databases)
  }
}

export interface OptionFailure {
  readonly option: string
  readonly message: string
}

/**
 * Valid database with its identity. Two entries with the same identity are refused, because the database would be
 * served twice.
 */
export interface CheckedDatabase {
  readonly name: string
  readonly url: string
  readonly schema: string
  readonly identity: string
}

type DatabasesCheck =
  | { readonly ok: true; readonly databases: readonly CheckedDatabase[] }
  | { readonly ok: false; readonly failures: readonly OptionFailure[] }

/** Checks each database of a list, and that names and identities are unique. */
export function checkDatabases(given: unknown, schemaDefault: string): DatabasesCheck {
  if (!Array.isArray(given)) return refused('databases', 'expected a list of databases')
  if (given.length === 0) return refused('databases', 'expected at least one database')
  const failures: OptionFailure[] = []
  const databases: CheckedDatabase[] = []
  const names = new Map<string, string>()
  const identities = new Map<string, string>()
  for (const [index, entry] of given.entries()) {
    const at = `databases[${index}]`
    const checked = checkDatabase(at, entry, schemaDefault, failures)
    if (checked === undefined) continue
    databases.push(checked)
    // Names are case-insensitive: people would confuse names that differ only in case.
    const folded = checked.name.toLowerCase()
    const namesake = names.get(folded)
    if (namesake !== undefined)
      failures.push({ option: `${at}.name`, message: `"${checked.name}" is taken by ${namesake}` })
    names.set(folded, at)
    const sameAs = identities.get(checked.identity)
    if (sameAs !== undefined) failures.push({ option: at, message: `the same database and schema as ${sameAs}` })
    identities.set(checked.identity, at)
  }
  return failures.length === 0 ? { ok: true, databases } : { ok: false, failures }
}

function checkDatabase(
  at: string,
  entry: unknown,
  schemaDefault: string,
  failures: OptionFailure[],
): CheckedDatabase | undefined {
  if (typeof entry !== 'object' || entry === null) {
    failures.push({ option: at, message: 'expected an object with name and url' })
    return undefined
  }
  const { name, url, schema = schemaDefault, ...others }: Record<string, unknown> = { ...entry }
  const known = failures.length
  for (const key of Object.keys(others))
    failures.push({ option: `${at}.${key}`, message: 'unknown; expected name, url, schema' })
  if (!isFilled(name)) failures.push({ option: `${at}.name`, message: 'expected a name that is not blank' })
  if (!isFilled(schema)) failures.push({ option: `${at}.schema`, message: 'expected a schema that is not blank' })
  const place = isFilled(url) ? placeOf(url) : undefined
  // The message omits the value, which contains a password.
  if (place === undefined)
    failures.push({
      option: `${at}.url`,
      message: 'expected postgres://login:password@host:port/database or embedded:FOLDER',
    })
  if (failures.length > known || !isFilled(name) || !isFilled(url) || !isFilled(schema)) return undefined
  return { name, url, schema, identity: `${place}#${schema}` }
}

/** Returns server and database of a URL, without the login. Two names of one host count as two servers. */
function placeOf(url: string): string | undefined {
  const folder = embeddedFolder(url)
  if (folder !== undefined) return `embedded:${resolve(folder)}`
  try {
    const { protocol, hostname, port, pathname } = new URL(url)
    if (!['postgres:', 'postgresql:'].includes(protocol) || pathname.length < 2) return undefined
    return `${hostname.toLowerCase()}:${port === '' ? '5432' : port}${decodeURIComponent(pathname)}`
  } catch {
    return undefined
  }
}

function isFilled(value: unknown): value is string {
  return typeof value === 'string' && value.trim() !== ''
}

function refused(option: string, message: string): DatabasesCheck {
  return { ok: false, failures: [{ option, message }] }
}
