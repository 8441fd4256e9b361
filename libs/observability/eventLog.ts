import type { Logger } from 'pino'
import type { SealerEvent } from '../ledger/index.js'
import type { RelayerEvent } from '../outbox/index.js'
import type { RepairEvent } from '../repair/index.js'
import type { SchedulerEvent } from '../scheduler/index.js'

/**
 * Log lines of the workers: no payloads, no secrets, and no "error" for a race. What happens for every item is at debug, so
 * that a busy worker is silent unless asked.
 */
export function logRelayerEvents(log: Logger): (event: RelayerEvent) => void {
  return (event) => {
    switch (event.type) {
      case 'claimed':
      case 'notified':
      case 'departed':
      case 'landed':
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
      case 'terminalGuard':
        return log.error(event, 'terminal_guard_hit')
      case 'fault':
        return log.error({ during: event.during, outboxId: event.outboxId, err: event.error }, 'worker_fault')
    }
  }
}

export function logRepairEvents(log: Logger): (event: RepairEvent) => void {
  return (event) => {
    if (event.type === 'fault') return log.warn({ during: event.during, err: event.error }, 'lease_repair_failed')
    const { expiredLeasesDetected, leasesRepaired, outboxIds } = event
    log.info(
      { expired_leases_detected: expiredLeasesDetected, leases_repaired: leasesRepaired, outboxIds },
      'leases_repaired',
    )
  }
}

export function logSealerEvents(log: Logger): (event: SealerEvent) => void {
  return (event) => {
    if (event.type === 'fault') return log.error({ during: event.during, err: event.error }, 'ledger_sealing_failed')
    log.debug(event, 'ledger_sealed')
  }
}

export function logSchedulerEvents(log: Logger): (event: SchedulerEvent) => void {
  return (event) => {
    switch (event.type) {
      case 'runsCreated':
      case 'enqueued':
      case 'notified':
        return log.debug(event, event.type)
      case 'listening':
        return log.info(event, event.connected ? 'listening' : 'listening_lost')
      case 'missed':
        return log.warn(event, 'job_missed')
      case 'refused':
        return log.error(event, 'scheduled_message_refused')
      case 'unreadable':
        return log.error({ jobName: event.jobName, err: event.error }, 'job_unreadable')
      case 'fault':
        return log.error({ during: event.during, err: event.error }, 'scheduler_fault')
    }
  }
}
