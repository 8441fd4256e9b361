import type { Logger } from 'pino'
import type { InboxWorkerEvent } from '../inbox/index.js'
import type { LeaseEvent } from '../lease/index.js'
import type { RelayerEvent } from '../outbox/index.js'
import type { PlatformEvent } from '../platform/index.js'
import type { RepairEvent } from '../repair/index.js'
import type { SchedulerEvent } from '../scheduler/index.js'
import { isOfModule, type WorkerEvent } from './WorkerEvent.js'

/**
 * Returns a listener that logs each event, without payloads and secrets. Expected races, such as a lost lease, are not
 * logged as errors. Events of single items have the level debug, so that a busy worker logs little by default.
 */
export function logEvents(log: Logger): (event: WorkerEvent) => void {
  const faults = new FaultLog(log)
  return (event) => {
    if (isOfModule('outbox', event)) return logRelayerEvent(event, log, faults)
    if (isOfModule('inbox', event)) return logInboxEvent(event, log, faults)
    if (isOfModule('scheduler', event)) return logSchedulerEvent(event, log, faults)
    if (isOfModule('lease', event)) return logLeaseEvent(event, log, faults)
    if (isOfModule('platform', event)) return logPlatformEvent(event, log, faults)
    if (isOfModule('repair', event)) return logRepairEvent(event, log, faults)
    switch (event.type) {
      case 'ledger.sealed':
        return log.debug(event, 'ledger_sealed')
      case 'ledger.broken':
        return log.error({ block: event.block, breaks: event.breaks }, 'ledger_broken')
      case 'ledger.fault':
        return faults.writeFault(
          'error',
          event,
          event.during === 'sealing the ledger' ? 'ledger_sealing_failed' : 'ledger_verification_failed',
        )
      case 'retention.cleaned':
        return log.info(event, 'cleaned_up')
      case 'retention.fault':
        return faults.writeFault('warn', event, 'cleanup_failed')
    }
  }
}

function logRelayerEvent(event: RelayerEvent, log: Logger, faults: FaultLog): void {
  switch (event.type) {
    case 'outbox.claimed': {
      const { lagsMs: _, ...claim } = event
      return log.debug(claim, factOf(event))
    }
    case 'outbox.notified':
    case 'outbox.dispatchStarted':
    case 'outbox.dispatchFinished':
    case 'outbox.called':
    case 'outbox.released':
    case 'outbox.alreadyRecorded':
      return log.debug(event, factOf(event))
    case 'outbox.recorded':
      return log.debug(event, 'attempt_recorded')
    case 'outbox.leaseLost':
      return log.info(event, 'LEASE_LOST_CONCURRENCY_EVENT')
    case 'outbox.lateOutcome':
      if (event.contradicts) return log.error(event, 'late_outcome_contradicts_ending')
      return log.info(event, 'late_outcome_kept')
    case 'outbox.contradicted':
      return log.error(event, 'ending_contradicts_late_outcome')
    case 'outbox.listening':
      return log.info(event, event.connected ? 'listening' : 'listening_lost')
    case 'outbox.held':
      return log.warn(event, 'item_held')
    case 'outbox.unknownCode':
      return log.warn(event, 'rail_code_unknown')
    case 'outbox.breaker':
      return log.warn(event, `rail_breaker_${event.state}`)
    case 'outbox.clockJumped':
      return log.error(event, 'database_clock_jumped')
    case 'outbox.frozen':
      return log.error({ ...event, remedy: 'symphony freeze show' }, 'dispatch_frozen')
    case 'outbox.freezeLifted':
      return log.info(event, 'dispatch_freeze_lifted')
    case 'outbox.terminalGuard':
      return log.error(event, 'terminal_guard_hit')
    case 'outbox.fault':
      return faults.write(
        'error',
        kindOfFault(event),
        { during: event.during, outboxId: event.outboxId, err: event.error },
        'worker_fault',
      )
  }
}

function logRepairEvent(event: RepairEvent, log: Logger, faults: FaultLog): void {
  if (event.type === 'repair.fault') return faults.writeFault('warn', event, 'lease_repair_failed')
  if (event.type === 'repair.unrepaired') {
    const { leasesUnrepaired, unrepaired } = event
    return faults.write('error', '', { leases_unrepaired: leasesUnrepaired, unrepaired }, 'leases_unrepaired')
  }
  const { expiredLeasesDetected, leasesRepaired, outboxIds, holdsPlaced } = event
  log.info(
    { expired_leases_detected: expiredLeasesDetected, leases_repaired: leasesRepaired, outboxIds, holdsPlaced },
    'leases_repaired',
  )
}

function logSchedulerEvent(event: SchedulerEvent, log: Logger, faults: FaultLog): void {
  switch (event.type) {
    case 'scheduler.runsCreated':
      return log.debug({ type: event.type, jobs: event.jobs, runs: event.runs }, factOf(event))
    case 'scheduler.enqueued':
    case 'scheduler.notified':
      return log.debug(event, factOf(event))
    case 'scheduler.listening':
      return log.info(event, event.connected ? 'listening' : 'listening_lost')
    case 'scheduler.missed':
      return log.warn(event, 'job_missed')
    case 'scheduler.refused':
      return log.error(event, 'scheduled_message_refused')
    case 'scheduler.invalidSchedule':
      return log.error({ jobName: event.jobName, err: event.error }, 'job_invalid_schedule')
    case 'scheduler.fault':
      return faults.writeFault('error', event, 'scheduler_fault')
  }
}

/** Logs inbox events. Of a handler's error, logs only the kind, because its text may contain the payload. */
function logInboxEvent(event: InboxWorkerEvent, log: Logger, faults: FaultLog): void {
  switch (event.type) {
    case 'inbox.claimed':
    case 'inbox.notified':
      return log.debug(event, `inbox_${factOf(event)}`)
    case 'inbox.done':
      return log.debug(aboutMessage(event), 'inbox_done')
    case 'inbox.listening':
      return log.info(event, event.connected ? 'inbox_listening' : 'inbox_listening_lost')
    case 'inbox.retried':
      return log.info({ ...aboutMessage(event), threw: kindOf(event.error) }, 'inbox_retried')
    case 'inbox.fenceLost':
      return log.info(aboutMessage(event), 'INBOX_FENCE_LOST_CONCURRENCY_EVENT')
    case 'inbox.handlerMissing':
      return log.warn(aboutMessage(event), 'inbox_handler_missing')
    case 'inbox.handlerNotCalled':
      // The handler was not called, so the error contains no payload.
      return log.warn({ ...aboutMessage(event), err: event.error }, 'inbox_handler_not_called')
    case 'inbox.deadLettered':
      return log.error({ ...aboutMessage(event), threw: kindOf(event.error) }, 'inbox_dead_lettered')
    case 'inbox.fault':
      return faults.writeFault('error', event, 'inbox_fault')
  }
}

function aboutMessage(event: { source: string; messageId: string; topic: string; attemptCount: number }): object {
  const { source, messageId, topic, attemptCount } = event
  return { source, messageId, topic, attemptCount }
}

function logLeaseEvent(event: LeaseEvent, log: Logger, faults: FaultLog): void {
  switch (event.type) {
    case 'lease.renewed':
      return log.debug(leaseOf(event), 'lease_renewed')
    case 'lease.acquired':
      return log.info(leaseOf(event), 'lease_acquired')
    case 'lease.ended':
      // A lost lease is expected: the next holder continues the work.
      return log.info({ ...leaseOf(event), reason: event.reason }, 'lease_ended')
    case 'lease.interrupted':
      return log.warn({ ...leaseOf(event), threw: kindOf(event.error) }, 'leader_interrupted')
    case 'lease.fault':
      return faults.write(
        'warn',
        kindOfFault(event),
        { resource: event.resource, during: event.during, err: event.error },
        'lease_fault',
      )
  }
}

function leaseOf(event: { resource: string; owner: string; fencingToken?: bigint }): object {
  const { resource, owner, fencingToken } = event
  return { resource, owner, ...(fencingToken === undefined ? {} : { fencingToken: String(fencingToken) }) }
}

function logPlatformEvent(event: PlatformEvent, log: Logger, faults: FaultLog): void {
  switch (event.type) {
    case 'platform.databaseAdded':
    case 'platform.databaseRemoved':
    case 'platform.databaseUp':
      return log.info({ database: event.database }, EVENT_NAMES[event.type])
    case 'platform.alreadyServed':
    case 'platform.databaseDown':
      return log.warn({ database: event.database }, EVENT_NAMES[event.type])
    case 'platform.discoveryFailed':
      return faults.write('error', kindOf(event.error), { err: event.error }, 'discovery_failed')
    case 'platform.fault':
      return faults.write(
        'error',
        `${event.database} ${event.worker} ${kindOf(event.error)}`,
        { database: event.database, worker: event.worker, err: event.error },
        'fleet_fault',
      )
  }
}

/** Returns the fact of an event without its module: `outbox.claimed` becomes `claimed`. */
function factOf({ type }: { readonly type: string }): string {
  return type.slice(type.indexOf('.') + 1)
}

const EVENT_NAMES = {
  'platform.databaseAdded': 'database_added',
  'platform.databaseRemoved': 'database_removed',
  'platform.databaseUp': 'database_up',
  'platform.databaseDown': 'database_down',
  'platform.alreadyServed': 'database_already_served',
} as const

/** Returns name and code of a thrown value, never its text, which may contain a payload. */
function kindOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) return typeof thrown
  return 'code' in thrown && typeof thrown.code === 'string' ? `${thrown.name} ${thrown.code}` : thrown.name
}

interface Fault {
  readonly during: string
  readonly error: unknown
}

function kindOfFault({ during, error }: Fault): string {
  return `${during} ${kindOf(error)}`
}

interface Faults {
  /** Number of faults since the last line. */
  count: number
  write: (repeats: number) => void
}

/**
 * Limits the log lines about faults. Logs the first fault of a kind at once, and later ones at most once per minute
 * with their number. An outage of the database would otherwise fill a disk.
 */
export class FaultLog {
  readonly #log: Logger
  readonly #intervalMs: number
  readonly #kinds = new Map<string, Faults>()

  constructor(log: Logger, intervalMs = 60_000) {
    this.#log = log
    this.#intervalMs = intervalMs
  }

  writeFault(level: 'warn' | 'error', fault: Fault, message: string): void {
    this.write(level, kindOfFault(fault), { during: fault.during, err: fault.error }, message)
  }

  /** @param kind operation and kind of the error, never an id; faults of the same kind share a line */
  write(level: 'warn' | 'error', kind: string, fields: object, message: string): void {
    const write = (repeats: number) =>
      this.#log[level](repeats > 1 ? { ...fields, repeats, withinSeconds: this.#intervalMs / 1_000 } : fields, message)
    const key = `${message} ${kind}`
    const faults = this.#kinds.get(key)
    if (faults !== undefined) {
      faults.count += 1
      faults.write = write
      return
    }
    write(1)
    this.#kinds.set(key, { count: 0, write })
    this.#wait(key)
  }

  #wait(key: string): void {
    const timer = setTimeout(() => {
      const faults = this.#kinds.get(key)
      if (faults === undefined || faults.count === 0) return this.#kinds.delete(key)
      faults.write(faults.count)
      faults.count = 0
      return this.#wait(key)
    }, this.#intervalMs)
    timer.unref()
  }
}
