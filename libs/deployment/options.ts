import { boundedInteger, InvalidArgumentError, requireKnownOptions } from '../core/index.js'
import { DEFAULT_SCHEMA, type DatabaseOptions } from '../db/index.js'
import { checkLoginRequest, type LoginRequest } from './logins.js'

export interface DeployOptions extends Pick<DatabaseOptions, 'url' | 'schema' | 'tls'> {
  /** Whether to return the SQL instead of running it. @default false */
  readonly dryRun?: boolean
  /** Whether to create only the roles and the logins, e.g. before a restore. @default false */
  readonly rolesOnly?: boolean
  /** Whether to drop the table `payment_outbox` of Symphony's earlier design, its view and its type. @default false */
  readonly dropLegacy?: boolean
  /**
   * Whether to apply all files, even unchanged ones, which repairs functions, views, triggers and indexes. @default
   * false
   */
  readonly reapply?: boolean
  /** Whether to revoke TEMP and CREATE from PUBLIC, for a database that serves only Symphony. @default false */
  readonly dedicatedDatabase?: boolean
  /** Logins to create, or to grant roles to if they exist. @default none */
  readonly createLogins?: readonly LoginRequest[]
  /**
   * Time to keep trying while other transactions hold conflicting locks. Each attempt waits only half a second for a
   * lock, because later transactions queue behind the waiting attempt. @default 60000
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
    throw new InvalidArgumentError(
      'rolesOnly',
      `expected no ${excluded} with it: rolesOnly changes nothing in the database`,
    )
  }
  return options
}
