import { boundedInteger, InvalidArgumentError, requireKnownOptions } from '../core/index.js'
import { DEFAULT_SCHEMA, type DatabaseOptions } from '../db/index.js'
import { checkLoginRequest, type LoginRequest } from './logins.js'

export interface DeployOptions extends Pick<DatabaseOptions, 'url' | 'schema' | 'tls'> {
  /** Return the SQL instead of running it. Reads the database, changes nothing. @default false */
  readonly dryRun?: boolean
  /** Create the roles of the cluster and the logins, and leave the database as it is. Before a restore. @default false */
  readonly rolesOnly?: boolean
  /** Drop what the outbox before this one left in the schema: its view, its table, its type. @default false */
  readonly dropLegacy?: boolean
  /** Apply all files although none has changed: mends functions, views, triggers and indexes. @default false */
  readonly reapply?: boolean
  /** This database serves Symphony alone: take TEMP and CREATE away from PUBLIC. @default false */
  readonly dedicatedDatabase?: boolean
  /** Logins to create, or to make members if they exist. @default none */
  readonly createLogins?: readonly LoginRequest[]
  /**
   * How long to keep trying while other transactions are in the way. Each single attempt waits for a lock only half a
   * second, because everybody who comes later would have to wait behind it. @default 60000
   */
  readonly patienceMs?: number
}

export type ResolvedDeployOptions = Required<Omit<DeployOptions, 'tls'>> & Pick<DeployOptions, 'tls'>

const PATIENCE_MS = { min: 0, max: 3_600_000 }

const DEFAULTS = Object.freeze({
  schema: DEFAULT_SCHEMA,
  dryRun: false,
  rolesOnly: false,
  dropLegacy: false,
  reapply: false,
  dedicatedDatabase: false,
  createLogins: [],
  patienceMs: 60_000,
})

const KNOWN = ['url', 'tls', ...Object.keys(DEFAULTS)]

export function resolveDeployOptions(given: DeployOptions): ResolvedDeployOptions {
  requireKnownOptions(given, KNOWN)
  const options = { ...DEFAULTS, ...given }
  boundedInteger('patienceMs', options.patienceMs, PATIENCE_MS)
  options.createLogins.forEach(checkLoginRequest)
  const excluded = (['reapply', 'dropLegacy', 'dedicatedDatabase'] as const).find((name) => options[name])
  if (options.rolesOnly && excluded !== undefined) {
    throw new InvalidArgumentError('rolesOnly', `expected no ${excluded} with it: it changes nothing in the database`)
  }
  return options
}
