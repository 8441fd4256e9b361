import { BATCH_SIZE, LEASE_SECONDS } from '../../core/index.js'
import { DEFAULT_SCHEMA } from '../../db/index.js'
import { choice, path, switchedOn, text, wholeNumber, type SettingKind } from './settingKinds.js'

/** Setting, given by a flag, an environment variable or a key of the configuration file. */
interface Setting<Value, Default> {
  /** Flag in commander's syntax. Its name in camel case is the key in the configuration file. Secrets have no flag. */
  readonly flag?: string
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
/** Bounds of a threshold in seconds: at most one year. */
const ALERT_SECONDS = Object.freeze({ min: 0, max: 31_536_000 })
const PORT = Object.freeze({ min: 0, max: 65_535 })

/**
 * Settings of Symphony's processes. A test compares them with `docs/reference/options.md`, which explains more. Values
 * for a single call, such as an id, are options of their command.
 */
export const SETTINGS = Object.freeze({
  databaseUrl: setting({
    flag: '--database-url <url>',
    env: 'DATABASE_URL',
    kind: text(8_192),
    default: undefined,
    help: 'connection URL of the database; in the environment variable `ps` does not show its password',
  }),
  listenUrl: setting({
    flag: '--listen-url <url>',
    env: 'SYMPHONY_LISTEN_URL',
    kind: text(8_192),
    default: undefined,
    help: 'URL of the server without the pooler, for LISTEN',
  }),
  pooler: setting({
    flag: '--pooler <mode>',
    env: 'SYMPHONY_POOLER',
    kind: choice(['none', 'transaction']),
    default: 'none',
    help: 'connection pooler between this process and PostgreSQL',
  }),
  schema: setting({
    flag: '--schema <name>',
    env: 'SYMPHONY_SCHEMA',
    kind: text(63),
    default: DEFAULT_SCHEMA,
    help: 'schema of the deployment',
  }),
  dataDir: setting({
    flag: '--data-dir <folder>',
    env: 'SYMPHONY_DATA_DIR',
    kind: path(),
    default: '.symphony',
    help: 'folder for the embedded PostgreSQL, tokens and the book of the simulated rail',
  }),
  rails: setting({
    flag: '--rails <file>',
    env: 'SYMPHONY_RAILS',
    kind: path(),
    default: undefined,
    help: 'ES module whose default export is an array of rails',
  }),
  vaultKeys: setting({
    flag: '--vault-keys <file>',
    env: 'SYMPHONY_VAULT_KEYS',
    kind: path(),
    default: undefined,
    help: 'file of the master keys for encrypted payload fields',
  }),
  workerId: setting({
    flag: '--worker-id <id>',
    env: 'OUTBOX_WORKER_ID',
    kind: text(128),
    default: undefined,
    help: 'name of this process in leases and in the ledger',
  }),
  leaseSeconds: setting({
    flag: '--lease-seconds <n>',
    env: 'LEASE_SECONDS',
    kind: wholeNumber(LEASE_SECONDS),
    default: 60,
    help: 'length of a lease without renewal',
  }),
  batchSize: setting({
    flag: '--batch-size <n>',
    env: 'OUTBOX_BATCH_SIZE',
    kind: wholeNumber(BATCH_SIZE),
    default: 50,
    help: 'maximum number of items per claim',
  }),
  concurrency: setting({
    flag: '--concurrency <n>',
    env: 'OUTBOX_CONCURRENCY',
    kind: wholeNumber({ min: 1, max: 1_000 }),
    default: 10,
    help: 'maximum concurrent calls of this process, for all rails without their own concurrency',
  }),
  pollMs: setting({
    flag: '--poll-ms <n>',
    env: 'OUTBOX_POLL_MS',
    kind: wholeNumber({ min: 10, max: 60_000 }),
    default: 500,
    help: 'longest pause between claims without a notification',
  }),
  railTimeoutMs: setting({
    flag: '--rail-timeout-ms <n>',
    env: 'RAIL_TIMEOUT_MS',
    kind: wholeNumber({ min: 1, max: 3_597_000 }),
    default: 30_000,
    help: 'timeout of calls to rails that declare none',
  }),
  repairIntervalMs: setting({
    flag: '--repair-interval-ms <n>',
    env: 'LEASE_REPAIR_INTERVAL_MS',
    kind: wholeNumber({ min: 100, max: 3_600_000 }),
    default: 60_000,
    help: 'interval of lease repair',
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
    help: 'interval at which new ledger rows are sealed in a block',
  }),
  verifyRowsPerSecond: setting({
    flag: '--verify-rows-per-second <n>',
    env: 'LEDGER_VERIFY_ROWS_PER_SECOND',
    kind: wholeNumber({ min: 0, max: 1_000_000 }),
    default: 2_000,
    help: 'ledger rows per second that all workers together compare with their blocks; 0 for none',
  }),
  schedulerPollMs: setting({
    flag: '--scheduler-poll-ms <n>',
    env: 'SCHEDULER_POLL_MS',
    kind: wholeNumber({ min: 10, max: 60_000 }),
    default: 5_000,
    help: 'longest pause between polls for due timers and jobs without a notification',
  }),
  missedAfterMs: setting({
    flag: '--missed-after-ms <n>',
    env: 'SCHEDULER_MISSED_AFTER_MS',
    kind: wholeNumber({ min: 1_000, max: 600_000 }),
    default: 10_000,
    help: 'delay after which a run of a job counts as missed',
  }),
  cleanupIntervalMs: setting({
    flag: '--cleanup-interval-ms <n>',
    env: 'CLEANUP_INTERVAL_MS',
    kind: wholeNumber({ min: 1_000, max: 86_400_000 }),
    default: 3_600_000,
    help: 'interval at which rows past their retention are removed',
  }),
  inboxRetentionDays: setting({
    flag: '--inbox-retention-days <n>',
    env: 'INBOX_RETENTION_DAYS',
    kind: wholeNumber(RETENTION_DAYS),
    default: 30,
    help: 'retention of handled inbox messages, and of their deduplication',
  }),
  jobRunRetentionDays: setting({
    flag: '--job-run-retention-days <n>',
    env: 'JOB_RUN_RETENTION_DAYS',
    kind: wholeNumber(RETENTION_DAYS),
    default: 30,
    help: 'retention of finished job runs',
  }),
  timerRetentionDays: setting({
    flag: '--timer-retention-days <n>',
    env: 'TIMER_RETENTION_DAYS',
    kind: wholeNumber(RETENTION_DAYS),
    default: 30,
    help: 'retention of finished and cancelled timers',
  }),
  leaseRetentionDays: setting({
    flag: '--lease-retention-days <n>',
    env: 'LEASE_RETENTION_DAYS',
    kind: wholeNumber(RETENTION_DAYS),
    default: 30,
    help: 'retention of leases without a holder',
  }),
  searchRetentionDays: setting({
    flag: '--search-retention-days <n>',
    env: 'SEARCH_RETENTION_DAYS',
    kind: wholeNumber(RETENTION_DAYS),
    default: 400,
    help: 'retention of payments in the search table',
  }),
  listen: setting({
    flag: '--listen',
    offFlag: '--no-listen',
    env: 'SYMPHONY_LISTEN',
    kind: switchedOn(),
    default: true,
    help: 'wake up by LISTEN; without it the process only polls',
  }),
  renewLeases: setting({
    flag: '--renew-leases',
    offFlag: '--no-renew-leases',
    env: 'SYMPHONY_RENEW_LEASES',
    kind: switchedOn(),
    default: true,
    help: 'renew the lease during a long call; without it a lease must be longer than every call',
  }),
  shutdownMs: setting({
    flag: '--shutdown-ms <n>',
    env: 'SYMPHONY_SHUTDOWN_MS',
    kind: wholeNumber({ min: 0, max: 600_000 }),
    default: 25_000,
    help: 'time that a stop waits for calls in progress before it abandons them',
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
    help: 'address to listen on for HTTP',
  }),
  port: setting({
    flag: '--port <n>',
    env: 'SYMPHONY_PORT',
    kind: wholeNumber(PORT),
    default: undefined,
    help: 'port for HTTP; a port given here must be free',
  }),
  accessToken: setting({
    env: 'SYMPHONY_ACCESS_TOKEN',
    kind: text(1_024),
    default: undefined,
    help: 'bearer token that requests must present',
  }),
  webhooks: setting({
    flag: '--webhooks <file>',
    env: 'SYMPHONY_WEBHOOKS',
    kind: path(),
    default: undefined,
    help: 'JSON file of the senders whose signed webhooks go into the inbox',
  }),
  oidc: setting({
    flag: '--oidc <file>',
    env: 'SYMPHONY_OIDC',
    kind: path(),
    default: undefined,
    help: 'JSON file of the identity provider whose tokens the API accepts, and where people sign in to the dashboard',
  }),
  oidcClientSecret: setting({
    env: 'SYMPHONY_OIDC_CLIENT_SECRET',
    kind: text(1_024),
    default: undefined,
    help: 'secret of this server at the identity provider',
  }),
  oidcClientSecretFile: setting({
    flag: '--oidc-client-secret-file <file>',
    env: 'SYMPHONY_OIDC_CLIENT_SECRET_FILE',
    kind: path(),
    default: undefined,
    help: 'file with the secret of this server at the identity provider',
  }),
  searchKey: setting({
    env: 'SYMPHONY_SEARCH_KEY',
    kind: text(1_024),
    default: undefined,
    help: 'secret that hashes destinations for search',
  }),
  searchKeyFile: setting({
    flag: '--search-key-file <file>',
    env: 'SYMPHONY_SEARCH_KEY_FILE',
    kind: path(),
    default: undefined,
    help: 'file with the secret that hashes destinations for search',
  }),
  requestsPerSecond: setting({
    flag: '--requests-per-second <n>',
    env: 'SYMPHONY_REQUESTS_PER_SECOND',
    kind: wholeNumber({ min: 1, max: 1_000_000 }),
    default: 500,
    help: 'requests per second of one key, with bursts of twice as many; each further 16 KiB of a body counts as one more',
  }),
  streamsMax: setting({
    flag: '--streams-max <n>',
    env: 'SYMPHONY_STREAMS_MAX',
    kind: wholeNumber({ min: 0, max: 100_000 }),
    default: 100,
    help: 'maximum number of open streams of server-sent events',
  }),
  statementMibMax: setting({
    flag: '--statement-mib-max <n>',
    env: 'SYMPHONY_STATEMENT_MIB_MAX',
    kind: wholeNumber({ min: 1, max: 4_096 }),
    default: 256,
    help: 'maximum size in MiB of a bank statement uploaded over HTTP',
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
    help: 'alert when more attempts within 15 minutes are retryable, and more than succeeded',
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
  alertReconciliationSeconds: setting({
    flag: '--alert-reconciliation-seconds <n>',
    env: 'SYMPHONY_ALERT_RECONCILIATION_SECONDS',
    kind: wholeNumber(ALERT_SECONDS),
    default: 259_200,
    help: 'alert when a rail that was reconciled before has had no statement for longer',
  }),
  notify: setting({
    flag: '--notify <file>',
    env: 'SYMPHONY_NOTIFY',
    kind: path(),
    default: undefined,
    help: 'JSON file of the channels (Slack, PagerDuty, webhook) that are told when an alert fires and ends',
  }),
  logLevel: setting({
    flag: '--log-level <level>',
    env: 'SYMPHONY_LOG_LEVEL',
    kind: choice(['debug', 'info', 'warn', 'error', 'silent']),
    default: 'info',
    help: 'lowest level of log lines to write',
  }),
  strict: setting({
    flag: '--strict',
    offFlag: '--no-strict',
    env: 'SYMPHONY_STRICT',
    kind: switchedOn(),
    default: false,
    help: 'refuse to start on a warning',
  }),
})

export type SettingName = keyof typeof SETTINGS

type ValueOf<S> =
  S extends Setting<infer Value, infer Default> ? Value | (undefined extends Default ? undefined : never) : never

export type Settings = { readonly [Name in SettingName]: ValueOf<(typeof SETTINGS)[Name]> }

/** Settings that name the database. */
export const TARGET = ['databaseUrl', 'schema', 'dataDir', 'pooler', 'listenUrl'] as const

/** Settings of dispatch. */
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

/** Settings of field protection, for a process that enqueues or shows payloads. */
export const PROTECTION = ['rails', 'vaultKeys'] as const

export const SCHEDULER = ['schedulerPollMs', 'missedAfterMs'] as const

export const CLEANUP = [
  'cleanupIntervalMs',
  'inboxRetentionDays',
  'jobRunRetentionDays',
  'timerRetentionDays',
  'leaseRetentionDays',
  'searchRetentionDays',
] as const

/** Settings of HTTP and logging of a long-running process. */
export const PROCESS = ['host', 'port', 'accessToken', 'logLevel', 'strict'] as const

/** Settings of the API: identity, limits and webhooks. */
export const API = [
  'webhooks',
  'oidc',
  'oidcClientSecret',
  'oidcClientSecretFile',
  'searchKey',
  'searchKeyFile',
  'requestsPerSecond',
  'streamsMax',
  'statementMibMax',
] as const

export const ALERTS = [
  'alertDueSeconds',
  'alertUnfinishedSeconds',
  'alertHeldSeconds',
  'alertExpiredLeaseSeconds',
  'alertNoWorkerSeconds',
  'alertRetries',
  'alertSchedulerSeconds',
  'alertSealingSeconds',
  'alertReconciliationSeconds',
] as const

/** Settings of alert notices, for processes that evaluate alerts or send messages. */
export const NOTIFY = ['notify'] as const

export type NotifyFileSettings = Pick<Settings, (typeof NOTIFY)[number]>
export type AlertSettings = Pick<Settings, (typeof ALERTS)[number]>
export type TargetSettings = Pick<Settings, (typeof TARGET)[number]>
export type RelaySettings = Pick<Settings, (typeof RELAY)[number]>
export type ProtectionSettings = Pick<Settings, (typeof PROTECTION)[number]>
export type ApiSettings = Pick<Settings, (typeof API)[number]>
export type SchedulerSettings = Pick<Settings, (typeof SCHEDULER)[number]>
export type CleanupSettings = Pick<Settings, (typeof CLEANUP)[number]>
export type ProcessSettings = Pick<Settings, (typeof PROCESS)[number]>
