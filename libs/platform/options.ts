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
  /** A list that does not change. Either this or a discovery. */
  readonly databases?: readonly PlatformDatabase[]
  /** Says which databases there are, again and again. Either this or `databases`, or one registered as a service. */
  readonly discovery?: PlatformDiscovery
  /** How often a discovery is asked. @default 30000 */
  readonly refreshMs?: number
  /** The schema of databases that do not name their own. @default `symphony` */
  readonly schema?: string
  /** How long stores and workers of the platform lease for. @default 60 */
  readonly leaseSeconds?: number
  /** How long a database waits at the most to be looked at again when it had nothing to do. @default 500 */
  readonly pollMs?: number
  /** How often what is older than its retention is removed. @default 3600000 */
  readonly cleanupIntervalMs?: number
  /** How often new rows of a ledger are sealed in a block. Longer: a larger open window. @default 1000 */
  readonly sealIntervalMs?: number
  /** How long what is finished is kept. */
  readonly retention?: RetentionOptions
  /** Most connections of this process to all databases together, for its workers. @default 50 */
  readonly connectionsMax?: number
  /** Most connections of this process to one database, for its workers. @default 5 */
  readonly connectionsPerDatabase?: number
  /**
   * Which database is next when there are more than connections. `round-robin`: one turn each. `drain-first`: one that has more
   * to do keeps its turn until it is empty. @default `round-robin`
   */
  readonly selection?: Selection
}

export interface RetentionOptions {
  /** Handled messages, and sightings that nobody has begun. This is how long a repeated one is recognised. @default 30 */
  readonly inboxDays?: number
  /** Finished runs of jobs. @default 30 */
  readonly jobRunsDays?: number
  /** Finished and cancelled timers. @default 30 */
  readonly timersDays?: number
  /** Resources that nobody has held. Their tokens go on growing. @default 30 */
  readonly leasesDays?: number
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

/** Everything that is wrong with the options, at once: whoever configures a fleet should not learn it line by line. */
export class PlatformOptionsError extends SymphonyError {
  readonly failures: readonly OptionFailure[]

  constructor(failures: readonly OptionFailure[]) {
    const lines = failures.map(({ option, message }) => `${option}: ${message}`)
    super('INVALID_PLATFORM_OPTIONS', `the platform cannot be registered: ${lines.join('; ')}`)
    this.failures = failures
  }
}

const BOUNDS = {
  refreshMs: { min: 100, max: 3_600_000 },
  leaseSeconds: LEASE_SECONDS,
  pollMs: { min: 10, max: 60_000 },
  cleanupIntervalMs: { min: 1_000, max: 86_400_000 },
  sealIntervalMs: { min: 100, max: 3_600_000 },
  connectionsMax: { min: 1, max: 10_000 },
  connectionsPerDatabase: { min: 1, max: 100 },
} as const satisfies Record<string, Bounds>

const RETENTION_DAYS: Bounds = { min: 1, max: 3_650 }

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
const RETENTION_DEFAULTS = Object.freeze({ inboxDays: 30, jobRunsDays: 30, timersDays: 30, leasesDays: 30 })

/** @param registered a discovery that the application registered as a service of its own */
export function resolvePlatformOptions(
  given: PlatformOptions,
  registered: PlatformDiscovery | undefined,
): ResolvedPlatformOptions {
  const failures: OptionFailure[] = []
  const { databases, discovery, retention, ...others } = given
  refuseUnknown('', others, DEFAULTS, failures)
  // By destructuring: an option that is there and undefined was not given, and must not hide its default.
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
  } = given
  const retention = { inboxDays, jobRunsDays, timersDays, leasesDays }
  for (const [name, value] of Object.entries(retention)) {
    checkBounds(`retention.${name}`, value, RETENTION_DAYS, failures)
  }
  return retention
}

/** Exactly one source: with two, which database is served would depend on which was asked. */
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
