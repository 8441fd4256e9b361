import type { Logger } from 'pino'
import type { InboxWorkerEvent } from '../inbox/index.js'
import type { LeaseEvent } from '../lease/index.js'
import type { SealerEvent, VerifierEvent } from '../ledger/index.js'
import type { RelayerEvent } from '../outbox/index.js'
import type { CleanupEvent, PlatformEvent } from '../platform/index.js'
import type { RepairEvent } from '../repair/index.js'
import type { SchedulerEvent } from '../scheduler/index.js'

/**
 * Log lines of the workers: no payloads, no secrets, and no "error" for a race. What happens for every item is at debug, so
 * that a busy worker is silent unless asked.
 */
export function logRelayerEvents(log: Logger): (event: RelayerEvent) => void {
  const faults = new FaultLog(log)
  return (event) => {
    switch (event.type) {
      case 'claimed': {
        const { lagsMs: _, ...claim } = event
        return log.debug(claim, event.type)
      }
      case 'notified':
      case 'dispatchStarted':
      case 'dispatchFinished':
      case 'called':
      case 'released':
      case 'alreadyRecorded':
        return log.debug(event, event.type)
      case 'recorded':
        return log.debug(event, 'attempt_recorded')
      case 'leaseLost':
        return log.info(event, 'LEASE_LOST_CONCURRENCY_EVENT')
      case 'lateOutcome':
        if (event.contradicts) return log.error(event, 'late_outcome_contradicts_ending')
        return log.info(event, 'late_outcome_kept')
      case 'contradicted':
        return log.error(event, 'ending_contradicts_late_outcome')
      case 'listening':
        return log.info(event, event.connected ? 'listening' : 'listening_lost')
      case 'held':
        return log.warn(event, 'item_held')
      case 'unknownCode':
        return log.warn(event, 'rail_code_unknown')
      case 'breaker':
        return log.warn(event, `rail_breaker_${event.state}`)
      case 'clockJumped':
        return log.error(event, 'database_clock_jumped')
      case 'frozen':
        return log.error({ ...event, remedy: 'symphony freeze show' }, 'dispatch_frozen')
      case 'freezeLifted':
        return log.info(event, 'dispatch_freeze_lifted')
      case 'terminalGuard':
        return log.error(event, 'terminal_guard_hit')
      case 'fault':
        return faults.write(
          'error',
          kindOfFault(event),
          { during: event.during, outboxId: event.outboxId, err: event.error },
          'worker_fault',
        )
    }
  }
}

export function logRepairEvents(log: Logger): (event: RepairEvent) => void {
  const faults = new FaultLog(log)
  return (event) => {
    if (event.type === 'fault') return faults.writeFault('warn', event, 'lease_repair_failed')
    if (event.type === 'unrepaired') {
      const { leasesUnrepaired, unrepaired } = event
      return faults.write('error', '', { leases_unrepaired: leasesUnrepaired, unrepaired }, 'leases_unrepaired')
    }
    const { expiredLeasesDetected, leasesRepaired, outboxIds, holdsPlaced } = event
    log.info(
      { expired_leases_detected: expiredLeasesDetected, leases_repaired: leasesRepaired, outboxIds, holdsPlaced },
      'leases_repaired',
    )
  }
}

export function logCleanupEvents(log: Logger): (event: CleanupEvent) => void {
  const faults = new FaultLog(log)
  return (event) => {
    if (event.type === 'fault') return faults.writeFault('warn', event, 'cleanup_failed')
    log.info(event, 'cleaned_up')
  }
}

export function logSealerEvents(log: Logger): (event: SealerEvent) => void {
  const faults = new FaultLog(log)
  return (event) => {
    if (event.type === 'fault') return faults.writeFault('error', event, 'ledger_sealing_failed')
    log.debug(event, 'ledger_sealed')
  }
}

export function logVerifierEvents(log: Logger): (event: VerifierEvent) => void {
  const faults = new FaultLog(log)
  return (event) => {
    if (event.type === 'fault') return faults.writeFault('error', event, 'ledger_verification_failed')
    log.error({ block: event.block, breaks: event.breaks }, 'ledger_broken')
  }
}

export function logSchedulerEvents(log: Logger): (event: SchedulerEvent) => void {
  const faults = new FaultLog(log)
  return (event) => {
    switch (event.type) {
      case 'runsCreated':
        return log.debug({ type: event.type, jobs: event.jobs, runs: event.runs }, event.type)
      case 'enqueued':
      case 'notified':
        return log.debug(event, event.type)
      case 'listening':
        return log.info(event, event.connected ? 'listening' : 'listening_lost')
      case 'missed':
        return log.warn(event, 'job_missed')
      case 'refused':
        return log.error(event, 'scheduled_message_refused')
      case 'invalidSchedule':
        return log.error({ jobName: event.jobName, err: event.error }, 'job_invalid_schedule')
      case 'fault':
        return faults.writeFault('error', event, 'scheduler_fault')
    }
  }
}

/** A handler's error may quote its message, which is a payload: of what it threw, only the kind is told. */
export function logInboxEvents(log: Logger): (event: InboxWorkerEvent) => void {
  const faults = new FaultLog(log)
  return (event) => {
    switch (event.type) {
      case 'claimed':
      case 'notified':
        return log.debug(event, `inbox_${event.type}`)
      case 'done':
        return log.debug(aboutMessage(event), 'inbox_done')
      case 'listening':
        return log.info(event, event.connected ? 'inbox_listening' : 'inbox_listening_lost')
      case 'retried':
        return log.info({ ...aboutMessage(event), threw: kindOf(event.error) }, 'inbox_retried')
      case 'fenceLost':
        return log.info(aboutMessage(event), 'INBOX_FENCE_LOST_CONCURRENCY_EVENT')
      case 'handlerMissing':
        return log.warn(aboutMessage(event), 'inbox_handler_missing')
      case 'handlerNotCalled':
        // The error quotes no payload: the handler was not called.
        return log.warn({ ...aboutMessage(event), err: event.error }, 'inbox_handler_not_called')
      case 'deadLettered':
        return log.error({ ...aboutMessage(event), threw: kindOf(event.error) }, 'inbox_dead_lettered')
      case 'fault':
        return faults.writeFault('error', event, 'inbox_fault')
    }
  }
}

function aboutMessage(event: { source: string; messageId: string; topic: string; attemptCount: number }): object {
  const { source, messageId, topic, attemptCount } = event
  return { source, messageId, topic, attemptCount }
}

export function logLeaseEvents(log: Logger): (event: LeaseEvent) => void {
  const faults = new FaultLog(log)
  return (event) => {
    switch (event.type) {
      case 'renewed':
        return log.debug(leaseOf(event), 'lease_renewed')
      case 'acquired':
        return log.info(leaseOf(event), 'lease_acquired')
      case 'ended':
        // Losing one is what leases are for: whoever holds it next goes on.
        return log.info({ ...leaseOf(event), reason: event.reason }, 'lease_ended')
      case 'interrupted':
        return log.warn({ ...leaseOf(event), threw: kindOf(event.error) }, 'leader_interrupted')
      case 'fault':
        return faults.write(
          'warn',
          kindOfFault(event),
          { resource: event.resource, during: event.during, err: event.error },
          'lease_fault',
        )
    }
  }
}

function leaseOf(event: { resource: string; owner: string; fencingToken?: bigint }): object {
  const { resource, owner, fencingToken } = event
  return { resource, owner, ...(fencingToken === undefined ? {} : { fencingToken: String(fencingToken) }) }
}

export function logPlatformEvents(log: Logger): (event: PlatformEvent) => void {
  const faults = new FaultLog(log)
  return (event) => {
    switch (event.type) {
      case 'databaseAdded':
      case 'databaseRemoved':
      case 'databaseUp':
        return log.info({ database: event.database }, EVENT_NAMES[event.type])
      case 'alreadyServed':
      case 'databaseDown':
        return log.warn({ database: event.database }, EVENT_NAMES[event.type])
      case 'discoveryFailed':
        return faults.write('error', kindOf(event.error), { err: event.error }, 'discovery_failed')
      case 'fault':
        return faults.write(
          'error',
          `${event.database} ${event.worker} ${kindOf(event.error)}`,
          { database: event.database, worker: event.worker, err: event.error },
          'fleet_fault',
        )
    }
  }
}

const EVENT_NAMES = {
  databaseAdded: 'database_added',
  databaseRemoved: 'database_removed',
  databaseUp: 'database_up',
  databaseDown: 'database_down',
  alreadyServed: 'database_already_served',
} as const

/** The name of what was thrown, and its code: never its text, which may repeat what it was thrown about. */
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
  /** Since the last line. */
  count: number
  /** The latest. */
  write: (repeats: number) => void
}

/**
 * Bounds the log lines about faults: of each kind one at once, then at most one each minute, with the number of faults that it
 * stands for. An outage of the database would otherwise fill a disk.
 */
export class FaultLog {
  readonly #log: Logger
  readonly #intervalMs: number
  readonly #kinds = new Map<string, Faults>()

  constructor(log: Logger, intervalMs = 60_000) {
    this.#log = log
    this.#intervalMs = intervalMs
  }

  /** A failed run of a worker. */
  writeFault(level: 'warn' | 'error', fault: Fault, message: string): void {
    this.write(level, kindOfFault(fault), { during: fault.during, err: fault.error }, message)
  }

  /** @param kind same kind, same line: the operation and the kind of its error, never an id */
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
