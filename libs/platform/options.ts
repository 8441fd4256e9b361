import { SymphonyError, LEASE_SECONDS, type Bounds } from '../core/index.js'
import { DEFAULT_SCHEMA } from '../db/index.js'
import {
  checkDatabases,
  PlatformDiscovery,
  StaticDiscovery,
  type OptionFailure,
  type PlatformDatabase,
} from './discovery.js'

export interface PlatformOptions {
  /** Fixed list of databases. Exactly one of `databases`, `discovery` and a registered discovery is required. */
  readonly databases?: readonly PlatformDatabase[]
  readonly discovery?: PlatformDiscovery
  /** Interval of discovery. @default 30000 */
  readonly refreshMs?: number
  /** Schema of databases that name none. @default `symphony` */
  readonly schema?: string
  /**
   * Length of the leases of workers: of payments, messages and inbox messages. Also the default of the claims of
   * `OutboxStoreProvider`. Claims of other stores name their own. @default 60
   */
  readonly leaseSeconds?: number
  /** Maximum pause before an idle database is polled again. @default 500 */
  readonly pollMs?: number
  /** Interval at which rows past their retention are removed. @default 3600000 */
  readonly cleanupIntervalMs?: number
  /**
   * Interval at which new ledger rows are sealed in a block. With a longer interval, more rows are unsealed at a time.
   * @default 1000
   */
  readonly sealIntervalMs?: number
  readonly retention?: RetentionOptions
  /** Maximum connections of this process's workers to all databases together. @default 50 */
  readonly connectionsMax?: number
  /** Maximum connections of this process's workers to one database. @default 5 */
  readonly connectionsPerDatabase?: number
  /**
   * Order in which databases are served if `connectionsMax` does not allow all of them at once. `round-robin`: one
   * round each. `drain-first`: a database keeps its slot while it has more work, for at most 100 rounds. @default
   * `round-robin`
   */
  readonly selection?: Selection
}

export interface RetentionOptions {
  /**
   * Days for which handled messages and messages that were only sighted are kept. Duplicates are recognised for that
   * time. @default 30
   */
  readonly inboxDays?: number
  /** Days for which finished job runs are kept. @default 30 */
  readonly jobRunsDays?: number
  /** Days for which finished and cancelled timers are kept. @default 30 */
  readonly timersDays?: number
  /**
   * Days for which leases without a holder are kept. Later leases of a removed resource still get greater fencing
   * tokens. @default 30
   */
  readonly leasesDays?: number
  /** Days for which payments stay in the search table. The ledger keeps them. @default 400 */
  readonly searchDays?: number
}

export type Selection = 'round-robin' | 'drain-first'

export interface ResolvedPlatformOptions {
  readonly discovery: PlatformDiscovery
  readonly refreshMs: number
  readonly schema: string
  readonly leaseSeconds: number
  readonly pollMs: number
  readonly cleanupIntervalMs: number
  readonly sealIntervalMs: number
  readonly retention: Required<RetentionOptions>
  readonly connectionsMax: number
  readonly connectionsPerDatabase: number
  readonly selection: Selection
}

export class PlatformOptionsError extends SymphonyError {
  readonly failures: readonly OptionFailure[]

  constructor(failures: readonly OptionFailure[]) {
    const lines = failures.map(({ option, message }) => `${option}: ${message}`)
    super('INVALID_PLATFORM_OPTIONS', `the platform cannot be registered: ${lines.join('; ')}`)
    this.failures = failures
  }
}

export const CLEANUP_INTERVAL_MS: Bounds = { min: 1_000, max: 86_400_000 }

const BOUNDS = {
  refreshMs: { min: 100, max: 3_600_000 },
  leaseSeconds: LEASE_SECONDS,
  pollMs: { min: 10, max: 60_000 },
  cleanupIntervalMs: CLEANUP_INTERVAL_MS,
  sealIntervalMs: { min: 100, max: 3_600_000 },
  connectionsMax: { min: 1, max: 10_000 },
  connectionsPerDatabase: { min: 1, max: 100 },
} as const satisfies Record<string, Bounds>

export const RETENTION_DAYS: Bounds = { min: 1, max: 3_650 }

const DEFAULTS: Readonly<Omit<ResolvedPlatformOptions, 'discovery' | 'retention'>> = Object.freeze({
  refreshMs: 30_000,
  schema: DEFAULT_SCHEMA,
  leaseSeconds: 60,
  pollMs: 500,
  cleanupIntervalMs: 3_600_000,
  sealIntervalMs: 1_000,
  connectionsMax: 50,
  connectionsPerDatabase: 5,
  selection: 'round-robin',
})
export const RETENTION_DEFAULTS = Object.freeze({
  inboxDays: 30,
  jobRunsDays: 30,
  timersDays: 30,
  leasesDays: 30,
  searchDays: 400,
})

/** @param registered discovery that the application registered as a service */
export function resolvePlatformOptions(
  given: PlatformOptions,
  registered: PlatformDiscovery | undefined,
): ResolvedPlatformOptions {
  const failures: OptionFailure[] = []
  const { databases, discovery, retention, ...others } = given
  refuseUnknown('', others, DEFAULTS, failures)
  // Destructuring applies the default also to an option that is present but undefined.
  const {
    refreshMs = DEFAULTS.refreshMs,
    schema = DEFAULTS.schema,
    leaseSeconds = DEFAULTS.leaseSeconds,
    pollMs = DEFAULTS.pollMs,
    cleanupIntervalMs = DEFAULTS.cleanupIntervalMs,
    sealIntervalMs = DEFAULTS.sealIntervalMs,
    connectionsMax = DEFAULTS.connectionsMax,
    connectionsPerDatabase = DEFAULTS.connectionsPerDatabase,
    selection = DEFAULTS.selection,
  } = others
  const intervals = { refreshMs, pollMs, cleanupIntervalMs, sealIntervalMs }
  const sizes = { ...intervals, leaseSeconds, connectionsMax, connectionsPerDatabase }
  const options = { ...sizes, schema, selection }
  for (const [name, bounds] of Object.entries(BOUNDS)) checkBounds(name, Reflect.get(sizes, name), bounds, failures)
  if (typeof options.schema !== 'string' || options.schema.trim() === '') {
    failures.push({ option: 'schema', message: 'expected a schema that is not blank' })
  }
  if (!['round-robin', 'drain-first'].includes(options.selection)) {
    failures.push({ option: 'selection', message: 'expected round-robin or drain-first' })
  }
  if (options.connectionsPerDatabase > options.connectionsMax) {
    failures.push({
      option: 'connectionsPerDatabase',
      message: `expected at most connectionsMax (${options.connectionsMax}), got ${options.connectionsPerDatabase}`,
    })
  }
  const days = resolveRetention(retention, failures)
  const source = resolveDiscovery({ databases, discovery, registered }, options.schema, failures)
  if (source === undefined || failures.length > 0) throw new PlatformOptionsError(failures)
  return { ...options, retention: days, discovery: source }
}

function resolveRetention(
  given: RetentionOptions | undefined = {},
  failures: OptionFailure[],
): Required<RetentionOptions> {
  if (typeof given !== 'object' || given === null) {
    failures.push({ option: 'retention', message: 'expected an object of days' })
    return RETENTION_DEFAULTS
  }
  refuseUnknown('retention.', given, RETENTION_DEFAULTS, failures)
  const {
    inboxDays = RETENTION_DEFAULTS.inboxDays,
    jobRunsDays = RETENTION_DEFAULTS.jobRunsDays,
    timersDays = RETENTION_DEFAULTS.timersDays,
    leasesDays = RETENTION_DEFAULTS.leasesDays,
    searchDays = RETENTION_DEFAULTS.searchDays,
  } = given
  const retention = { inboxDays, jobRunsDays, timersDays, leasesDays, searchDays }
  for (const [name, value] of Object.entries(retention)) {
    checkBounds(`retention.${name}`, value, RETENTION_DAYS, failures)
  }
  return retention
}

/** Requires exactly one source of databases. With two, it would be unclear which databases are served. */
function resolveDiscovery(
  given: {
    readonly databases: unknown
    readonly discovery: unknown
    readonly registered: PlatformDiscovery | undefined
  },
  schema: string,
  failures: OptionFailure[],
): PlatformDiscovery | undefined {
  const { databases, discovery, registered } = given
  const sources = [databases, discovery, registered].filter((source) => source !== undefined)
  if (sources.length !== 1) {
    failures.push({
      option: 'discovery',
      message:
        `expected exactly one of databases, discovery and a registered PlatformDiscovery, got ` +
        (sources.length === 0 ? 'none' : `${sources.length}`),
    })
    return undefined
  }
  if (registered !== undefined) return registered
  if (discovery !== undefined) {
    if (discovery instanceof PlatformDiscovery) return discovery
    failures.push({ option: 'discovery', message: 'expected an instance of PlatformDiscovery' })
    return undefined
  }
  const check = checkDatabases(databases, schema)
  if (check.ok)
    return new StaticDiscovery(check.databases.map(({ name, url, schema: own }) => ({ name, url, schema: own })))
  failures.push(...check.failures)
  return undefined
}

function checkBounds(option: string, value: unknown, { min, max }: Bounds, failures: OptionFailure[]): void {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return
  failures.push({ option, message: `expected a whole number from ${min} to ${max}, got ${String(value)}` })
}

function refuseUnknown(prefix: string, given: object, known: object, failures: OptionFailure[]): void {
  for (const key of Object.keys(given)) {
    if (!(key in known)) {
      failures.push({ option: `${prefix}${key}`, message: `unknown; expected one of ${Object.keys(known).join(', ')}` })
    }
  }
}
