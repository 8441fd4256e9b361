import { BATCH_SIZE, LEASE_SECONDS } from '../../core/index.js'
import { DEFAULT_SCHEMA } from '../../db/index.js'
import { choice, path, switchedOn, text, wholeNumber, type SettingKind } from './settingKinds.js'

/** One setting, whatever names it: a flag, a variable of the environment, a key of the configuration file. */
interface Setting<Value, Default> {
  /** As commander spells it. The key of the configuration file is its name in camel case. Absent: a secret. */
  readonly flag?: string
  /** Switches have a second flag that turns them off. */
  readonly offFlag?: string
  readonly env?: string
  readonly kind: SettingKind<Value>
  readonly default: Default
  readonly help: string
}

function setting<Value, Default>(given: Setting<Value, Default>): Setting<Value, Default> {
  return given
}

const RETENTION_DAYS = Object.freeze({ min: 1, max: 3_650 })
/** Up to a year. */
const ALERT_SECONDS = Object.freeze({ min: 0, max: 31_536_000 })
const PORT = Object.freeze({ min: 0, max: 65_535 })

/**
 * Every setting of Symphony's processes, one row each; `docs/reference/options.md` says more, and a test holds the two
 * against each other. What only one call of a command needs (an id, a reason) is an option of that command instead.
 */
export const SETTINGS = Object.freeze({
  databaseUrl: setting({
    flag: '--database-url <url>',
    env: 'DATABASE_URL',
    kind: text(8_192),
    default: undefined,
    help: 'the database; in the environment its password stays out of `ps`',
  }),
  listenUrl: setting({
    flag: '--listen-url <url>',
    env: 'SYMPHONY_LISTEN_URL',
    kind: text(8_192),
    default: undefined,
    help: 'a way to the server past a pooler, for LISTEN',
  }),
  pooler: setting({
    flag: '--pooler <mode>',
    env: 'SYMPHONY_POOLER',
    kind: choice(['none', 'transaction']),
    default: 'none',
    help: 'what stands before the server',
  }),
  schema: setting({
    flag: '--schema <name>',
    env: 'SYMPHONY_SCHEMA',
    kind: text(63),
    default: DEFAULT_SCHEMA,
    help: 'the schema of the deployment',
  }),
  dataDir: setting({
    flag: '--data-dir <folder>',
    env: 'SYMPHONY_DATA_DIR',
    kind: path(),
    default: '.symphony',
    help: 'folder of the embedded PostgreSQL, of tokens and of the simulated rail’s book',
  }),
  rails: setting({
    flag: '--rails <file>',
    env: 'SYMPHONY_RAILS',
    kind: path(),
    default: undefined,
    help: 'an ES module that exports an array of rails as its default',
  }),
  vaultKeys: setting({
    flag: '--vault-keys <file>',
    env: 'SYMPHONY_VAULT_KEYS',
    kind: path(),
    default: undefined,
    help: 'a file of the master keys under which fields of payloads are encrypted',
  }),
  workerId: setting({
    flag: '--worker-id <id>',
    env: 'OUTBOX_WORKER_ID',
    kind: text(128),
    default: undefined,
    help: 'names this process in leases and in the ledger',
  }),
  leaseSeconds: setting({
    flag: '--lease-seconds <n>',
    env: 'LEASE_SECONDS',
    kind: wholeNumber(LEASE_SECONDS),
    default: 60,
    help: 'how long a lease lasts without renewal',
  }),
  batchSize: setting({
    flag: '--batch-size <n>',
    env: 'OUTBOX_BATCH_SIZE',
    kind: wholeNumber(BATCH_SIZE),
    default: 50,
    help: 'items per claim at the most',
  }),
  concurrency: setting({
    flag: '--concurrency <n>',
    env: 'OUTBOX_CONCURRENCY',
    kind: wholeNumber({ min: 1, max: 1_000 }),
    default: 10,
    help: 'calls at once in this process, over all rails that set no concurrency of their own',
  }),
  pollMs: setting({
    flag: '--poll-ms <n>',
    env: 'OUTBOX_POLL_MS',
    kind: wholeNumber({ min: 10, max: 60_000 }),
    default: 500,
    help: 'longest pause before looking for work unasked',
  }),
  railTimeoutMs: setting({
    flag: '--rail-timeout-ms <n>',
    env: 'RAIL_TIMEOUT_MS',
    kind: wholeNumber({ min: 1, max: 3_597_000 }),
    default: 30_000,
    help: 'longest wait for a rail that does not say',
  }),
  repairIntervalMs: setting({
    flag: '--repair-interval-ms <n>',
    env: 'LEASE_REPAIR_INTERVAL_MS',
    kind: wholeNumber({ min: 100, max: 3_600_000 }),
    default: 60_000,
    help: 'how often expired leases are looked for',
  }),
  repairBatchSize: setting({
    flag: '--repair-batch-size <n>',
    env: 'LEASE_REPAIR_BATCH_SIZE',
    kind: wholeNumber(BATCH_SIZE),
    default: 100,
    help: 'expired leases per repair call',
  }),
  sealIntervalMs: setting({
    flag: '--seal-interval-ms <n>',
    env: 'LEDGER_SEAL_INTERVAL_MS',
    kind: wholeNumber({ min: 100, max: 3_600_000 }),
    default: 1_000,
    help: 'how often new rows of the ledger are sealed in a block',
  }),
  verifyRowsPerSecond: setting({
    flag: '--verify-rows-per-second <n>',
    env: 'LEDGER_VERIFY_ROWS_PER_SECOND',
    kind: wholeNumber({ min: 0, max: 1_000_000 }),
    default: 2_000,
    help: 'rows of the ledger that all workers together compare with their blocks per second; 0 for none',
  }),
  schedulerPollMs: setting({
    flag: '--scheduler-poll-ms <n>',
    env: 'SCHEDULER_POLL_MS',
    kind: wholeNumber({ min: 10, max: 60_000 }),
    default: 5_000,
    help: 'longest pause before looking for due timers and jobs unasked',
  }),
  missedAfterMs: setting({
    flag: '--missed-after-ms <n>',
    env: 'SCHEDULER_MISSED_AFTER_MS',
    kind: wholeNumber({ min: 1_000, max: 600_000 }),
    default: 10_000,
    help: 'how late a run of a job may be before the job’s policy about missed runs applies',
  }),
  cleanupIntervalMs: setting({
    flag: '--cleanup-interval-ms <n>',
    env: 'CLEANUP_INTERVAL_MS',
    kind: wholeNumber({ min: 1_000, max: 86_400_000 }),
    default: 3_600_000,
    help: 'how often what is past its retention is removed',
  }),
  inboxRetentionDays: setting({
    flag: '--inbox-retention-days <n>',
    env: 'INBOX_RETENTION_DAYS',
    kind: wholeNumber(RETENTION_DAYS),
    default: 30,
    help: 'how long handled messages of the inbox are kept, and their repeats recognised',
  }),
  jobRunRetentionDays: setting({
    flag: '--job-run-retention-days <n>',
    env: 'JOB_RUN_RETENTION_DAYS',
    kind: wholeNumber(RETENTION_DAYS),
    default: 30,
    help: 'how long finished runs of jobs are kept',
  }),
  timerRetentionDays: setting({
    flag: '--timer-retention-days <n>',
    env: 'TIMER_RETENTION_DAYS',
    kind: wholeNumber(RETENTION_DAYS),
    default: 30,
    help: 'how long finished and cancelled timers are kept',
  }),
  leaseRetentionDays: setting({
    flag: '--lease-retention-days <n>',
    env: 'LEASE_RETENTION_DAYS',
    kind: wholeNumber(RETENTION_DAYS),
    default: 30,
    help: 'how long a resource that nobody holds is remembered',
  }),
  listen: setting({
    flag: '--listen',
    offFlag: '--no-listen',
    env: 'SYMPHONY_LISTEN',
    kind: switchedOn(),
    default: true,
    help: 'wake up by LISTEN; without it, polling alone finds the work',
  }),
  renewLeases: setting({
    flag: '--renew-leases',
    offFlag: '--no-renew-leases',
    env: 'SYMPHONY_RENEW_LEASES',
    kind: switchedOn(),
    default: true,
    help: 'renew the lease of a call that takes long; without it, a lease must outlive every call',
  }),
  shutdownMs: setting({
    flag: '--shutdown-ms <n>',
    env: 'SYMPHONY_SHUTDOWN_MS',
    kind: wholeNumber({ min: 0, max: 600_000 }),
    default: 25_000,
    help: 'how long a stop waits for calls in progress before it gives them up',
  }),
  epochFile: setting({
    flag: '--epoch-file <file>',
    env: 'SYMPHONY_EPOCH_FILE',
    kind: path(),
    default: undefined,
    help: 'file that saves the epoch of the database, so that the next worker detects a restore',
  }),
  http: setting({
    flag: '--http',
    offFlag: '--no-http',
    env: 'SYMPHONY_HTTP',
    kind: switchedOn(),
    default: true,
    help: 'serve health and metrics',
  }),
  host: setting({
    flag: '--host <address>',
    env: 'SYMPHONY_HOST',
    kind: text(255),
    default: '127.0.0.1',
    help: 'the address to listen on for HTTP',
  }),
  port: setting({
    flag: '--port <n>',
    env: 'SYMPHONY_PORT',
    kind: wholeNumber(PORT),
    default: undefined,
    help: 'the port for HTTP; one that was asked for must be free',
  }),
  accessToken: setting({
    env: 'SYMPHONY_ACCESS_TOKEN',
    kind: text(1_024),
    default: undefined,
    help: 'what a request must present as its bearer token',
  }),
  webhooks: setting({
    flag: '--webhooks <file>',
    env: 'SYMPHONY_WEBHOOKS',
    kind: path(),
    default: undefined,
    help: 'a JSON file of the senders whose signed webhooks go into the inbox',
  }),
  oidc: setting({
    flag: '--oidc <file>',
    env: 'SYMPHONY_OIDC',
    kind: path(),
    default: undefined,
    help: 'a JSON file about the identity provider whose tokens the API takes beside keys',
  }),
  requestsPerSecond: setting({
    flag: '--requests-per-second <n>',
    env: 'SYMPHONY_REQUESTS_PER_SECOND',
    kind: wholeNumber({ min: 1, max: 1_000_000 }),
    default: 500,
    help: 'requests of one key per second, and twice as many at once; one counts again for each further 16 KiB',
  }),
  streamsMax: setting({
    flag: '--streams-max <n>',
    env: 'SYMPHONY_STREAMS_MAX',
    kind: wholeNumber({ min: 0, max: 100_000 }),
    default: 100,
    help: 'open streams of server-sent events at the most',
  }),
  alertDueSeconds: setting({
    flag: '--alert-due-seconds <n>',
    env: 'SYMPHONY_ALERT_DUE_SECONDS',
    kind: wholeNumber(ALERT_SECONDS),
    default: 300,
    help: 'alert when a payment has been due for longer',
  }),
  alertUnfinishedSeconds: setting({
    flag: '--alert-unfinished-seconds <n>',
    env: 'SYMPHONY_ALERT_UNFINISHED_SECONDS',
    kind: wholeNumber(ALERT_SECONDS),
    default: 86_400,
    help: 'alert when a payment has not ended this long after its creation: it retries, is blocked or held',
  }),
  alertHeldSeconds: setting({
    flag: '--alert-held-seconds <n>',
    env: 'SYMPHONY_ALERT_HELD_SECONDS',
    kind: wholeNumber(ALERT_SECONDS),
    default: 300,
    help: 'alert when a payment has been held for longer',
  }),
  alertExpiredLeaseSeconds: setting({
    flag: '--alert-expired-lease-seconds <n>',
    env: 'SYMPHONY_ALERT_EXPIRED_LEASE_SECONDS',
    kind: wholeNumber(ALERT_SECONDS),
    default: 180,
    help: 'alert when an expired lease has not been taken over for longer',
  }),
  alertNoWorkerSeconds: setting({
    flag: '--alert-no-worker-seconds <n>',
    env: 'SYMPHONY_ALERT_NO_WORKER_SECONDS',
    kind: wholeNumber(ALERT_SECONDS),
    default: 60,
    help: 'alert when payments are due and no relayer has reported for longer',
  }),
  alertRetries: setting({
    flag: '--alert-retries <n>',
    env: 'SYMPHONY_ALERT_RETRIES',
    kind: wholeNumber({ min: 0, max: 1_000_000_000 }),
    default: 20,
    help: 'alert when more attempts of a quarter of an hour are to be tried again, and more than succeeded',
  }),
  alertSchedulerSeconds: setting({
    flag: '--alert-scheduler-seconds <n>',
    env: 'SYMPHONY_ALERT_SCHEDULER_SECONDS',
    kind: wholeNumber(ALERT_SECONDS),
    default: 60,
    help: 'alert when a timer or job has been due for longer',
  }),
  alertSealingSeconds: setting({
    flag: '--alert-sealing-seconds <n>',
    env: 'SYMPHONY_ALERT_SEALING_SECONDS',
    kind: wholeNumber(ALERT_SECONDS),
    default: 900,
    help: 'alert when rows of the ledger have been in no block for longer',
  }),
  logLevel: setting({
    flag: '--log-level <level>',
    env: 'SYMPHONY_LOG_LEVEL',
    kind: choice(['debug', 'info', 'warn', 'error', 'silent']),
    default: 'info',
    help: 'the least important log lines to write',
  }),
  strict: setting({
    flag: '--strict',
    offFlag: '--no-strict',
    env: 'SYMPHONY_STRICT',
    kind: switchedOn(),
    default: false,
    help: 'refuse to start where there would only be a warning',
  }),
})

export type SettingName = keyof typeof SETTINGS

type ValueOf<S> =
  S extends Setting<infer Value, infer Default> ? Value | (undefined extends Default ? undefined : never) : never

/** Settings with their values: checked, and each from the nearest source that names it. */
export type Settings = { readonly [Name in SettingName]: ValueOf<(typeof SETTINGS)[Name]> }

/** Settings that go together: which database is meant, and how to get there. */
export const TARGET = ['databaseUrl', 'schema', 'dataDir', 'pooler', 'listenUrl'] as const

/** How items are carried. */
export const RELAY = [
  'rails',
  'vaultKeys',
  'workerId',
  'leaseSeconds',
  'batchSize',
  'concurrency',
  'pollMs',
  'listen',
  'railTimeoutMs',
  'repairIntervalMs',
  'repairBatchSize',
  'sealIntervalMs',
  'verifyRowsPerSecond',
  'renewLeases',
  'shutdownMs',
  'epochFile',
] as const

/** How fields of payloads are protected, for a process that enqueues or shows them. */
export const PROTECTION = ['rails', 'vaultKeys'] as const

/** How timers and jobs are scheduled. */
export const SCHEDULER = ['schedulerPollMs', 'missedAfterMs'] as const

/** How long what is finished is kept. */
export const CLEANUP = [
  'cleanupIntervalMs',
  'inboxRetentionDays',
  'jobRunRetentionDays',
  'timerRetentionDays',
  'leaseRetentionDays',
] as const

/** How a long-running process is reached, and how it speaks. */
export const PROCESS = ['host', 'port', 'accessToken', 'logLevel', 'strict'] as const

/** How an API knows who asks, what it bears, and what it receives beside instructions. */
export const API = ['webhooks', 'oidc', 'requestsPerSecond', 'streamsMax'] as const

/** Thresholds of the alert rules. */
export const ALERTS = [
  'alertDueSeconds',
  'alertUnfinishedSeconds',
  'alertHeldSeconds',
  'alertExpiredLeaseSeconds',
  'alertNoWorkerSeconds',
  'alertRetries',
  'alertSchedulerSeconds',
  'alertSealingSeconds',
] as const

export type AlertSettings = Pick<Settings, (typeof ALERTS)[number]>
export type TargetSettings = Pick<Settings, (typeof TARGET)[number]>
export type RelaySettings = Pick<Settings, (typeof RELAY)[number]>
export type ProtectionSettings = Pick<Settings, (typeof PROTECTION)[number]>
export type ApiSettings = Pick<Settings, (typeof API)[number]>
export type SchedulerSettings = Pick<Settings, (typeof SCHEDULER)[number]>
export type CleanupSettings = Pick<Settings, (typeof CLEANUP)[number]>
export type ProcessSettings = Pick<Settings, (typeof PROCESS)[number]>
