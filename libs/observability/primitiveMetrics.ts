import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { InboxWorkerEvent } from '../inbox/index.js'
import type { LeaseEvent } from '../lease/index.js'
import type { PlatformEvent } from '../platform/index.js'
import type { SchedulerEvent } from '../scheduler/index.js'
import { faultsCounter } from './OutboxMetrics.js'

export interface ReceivedMessage {
  readonly created: boolean
  readonly contentDiffers: boolean
}

/** Counters of the inbox in this process. `createStatusRegistry` reads depths from the database. */
export class InboxMetrics {
  readonly #received: Counter<'result'>
  readonly #handled: Counter
  readonly #abandoned: Counter
  readonly #deadLettered: Counter
  readonly #handlerMissing: Counter
  readonly #fenceLost: Counter
  readonly #takeovers: Counter
  readonly #faults: Counter<'during'>

  constructor(registry: Registry) {
    const registers = [registry]
    const counter = (name: string, help: string) => new Counter({ name, help, registers })
    this.#received = new Counter({
      name: 'inbox_received_total',
      help: 'Received messages: new, duplicate, or conflict (a known id with other content).',
      labelNames: ['result'],
      registers,
    })
    this.#handled = counter('inbox_handled_total', 'Messages whose handlers committed.')
    this.#abandoned = counter('inbox_abandoned_total', 'Failed attempts; the message is due again later.')
    this.#deadLettered = counter(
      'inbox_died_total',
      'Messages declared dead: by their handler, or after their last attempt.',
    )
    this.#handlerMissing = counter(
      'inbox_handler_missing_total',
      'Messages released because this process has no handler for their topic.',
    )
    this.#fenceLost = counter(
      'inbox_fence_lost_total',
      'Claims that were lost before their handlers ended. This is expected, not an error.',
    )
    this.#takeovers = counter('inbox_takeovers_total', 'Messages claimed again because the previous claim had expired.')
    this.#faults = faultsCounter(registry)
    for (const result of ['new', 'duplicate', 'conflict']) this.#received.inc({ result }, 0)
  }

  readonly onReceived = ({ created, contentDiffers }: ReceivedMessage): void => {
    this.#received.inc({ result: created ? 'new' : contentDiffers ? 'conflict' : 'duplicate' })
  }

  readonly onEvent = (event: InboxWorkerEvent): void => {
    switch (event.type) {
      case 'inbox.claimed':
        return this.#takeovers.inc(event.takeovers)
      case 'inbox.done':
        return this.#handled.inc()
      case 'inbox.retried':
        return this.#abandoned.inc()
      case 'inbox.deadLettered':
        return this.#deadLettered.inc()
      case 'inbox.handlerMissing':
        return this.#handlerMissing.inc()
      case 'inbox.fenceLost':
        return this.#fenceLost.inc()
      case 'inbox.fault':
        return this.#faults.inc({ during: event.during })
      case 'inbox.handlerNotCalled':
        return this.#faults.inc({ during: 'calling a handler' })
      case 'inbox.notified':
      case 'inbox.listening':
    }
  }
}

export class SchedulerMetrics {
  readonly #runsCreated: Counter
  readonly #lateRuns: Counter
  readonly #runLag: Histogram
  readonly #missed: Counter<'policy'>
  readonly #enqueued: Counter<'kind'>
  readonly #refused: Counter<'kind'>
  readonly #unreadable: Counter
  readonly #faults: Counter<'during'>

  constructor(registry: Registry) {
    const registers = [registry]
    const counter = (name: string, help: string) => new Counter({ name, help, registers })
    const byKind = (name: string, help: string) => new Counter({ name, help, labelNames: ['kind'], registers })
    this.#runsCreated = counter('scheduler_runs_created_total', 'Runs of jobs that this scheduler created.')
    this.#lateRuns = counter('scheduler_late_runs_total', 'Runs created more than a second after their occurrence.')
    this.#runLag = new Histogram({
      name: 'scheduler_run_lag_seconds',
      help: 'Time from an occurrence to the creation of its run, by the database clock.',
      buckets: [0.01, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300, 3_600, 86_400],
      registers,
    })
    this.#missed = new Counter({
      name: 'scheduler_missed_total',
      help: 'Jobs whose occurrences were missed because no scheduler ran, by policy.',
      labelNames: ['policy'],
      registers,
    })
    this.#enqueued = byKind('scheduler_enqueued_total', 'Due timers and runs that became messages of the outbox.')
    this.#refused = byKind('scheduler_refused_total', 'Due timers and runs that the outbox refused and that failed.')
    this.#unreadable = counter('scheduler_unreadable_total', 'Jobs found with an invalid expression or time zone.')
    this.#faults = faultsCounter(registry)
    for (const policy of ['skip', 'once', 'all']) this.#missed.inc({ policy }, 0)
    for (const counted of [this.#enqueued, this.#refused]) {
      for (const kind of ['timer', 'run']) counted.inc({ kind }, 0)
    }
  }

  readonly onEvent = (event: SchedulerEvent): void => {
    switch (event.type) {
      case 'scheduler.runsCreated':
        this.#runsCreated.inc(event.runs)
        for (const lagMs of event.lagsMs) {
          this.#runLag.observe(Math.max(0, lagMs) / 1_000)
          if (lagMs > LATE_MS) this.#lateRuns.inc()
        }
        return
      case 'scheduler.missed':
        return this.#missed.inc({ policy: event.policy })
      case 'scheduler.enqueued':
        return this.#enqueued.inc({ kind: event.kind }, event.items)
      case 'scheduler.refused':
        return this.#refused.inc({ kind: event.kind })
      case 'scheduler.invalidSchedule':
        return this.#unreadable.inc()
      case 'scheduler.fault':
        return this.#faults.inc({ during: event.during })
      case 'scheduler.notified':
      case 'scheduler.listening':
    }
  }
}

/** Lag from which a run counts as late. A running scheduler lags by one or two round trips. */
const LATE_MS = 1_000

export class LeaseMetrics {
  readonly #acquired: Counter
  readonly #renewed: Counter
  readonly #released: Counter
  readonly #lost: Counter<'reason'>
  readonly #renewFailures: Counter
  readonly #faults: Counter<'during'>

  constructor(registry: Registry) {
    const registers = [registry]
    const counter = (name: string, help: string) => new Counter({ name, help, registers })
    this.#acquired = counter('leases_acquired_total', 'Leases acquired by this process.')
    this.#renewed = counter('leases_renewed_total', 'Renewals that the database granted.')
    this.#released = counter('leases_released_total', 'Leases released.')
    this.#lost = new Counter({
      name: 'leases_lost_total',
      help: 'Lost leases: expired, refused by the database, or superseded by the same owner.',
      labelNames: ['reason'],
      registers,
    })
    this.#renewFailures = counter('leases_renew_failures_total', 'Renewals that failed and were retried.')
    this.#faults = faultsCounter(registry)
    for (const reason of ['expired', 'refused', 'superseded']) this.#lost.inc({ reason }, 0)
  }

  readonly onEvent = (event: LeaseEvent): void => {
    switch (event.type) {
      case 'lease.acquired':
        return this.#acquired.inc()
      case 'lease.renewed':
        return this.#renewed.inc()
      case 'lease.ended':
        return event.reason === 'released' ? this.#released.inc() : this.#lost.inc({ reason: event.reason })
      case 'lease.interrupted':
        return this.#faults.inc({ during: 'leading' })
      case 'lease.fault':
        if (event.during === RENEWING) this.#renewFailures.inc()
        return this.#faults.inc({ during: event.during })
    }
  }
}

/** Value of `during` that the class `Lease` emits for a failed renewal. */
const RENEWING = 'renewing a lease'

/** Availability of a fleet's databases, as seen by this process. */
export class FleetMetrics {
  readonly #up: Gauge<'database'>
  readonly #faults: Counter<'during'>

  constructor(registry: Registry) {
    this.#up = new Gauge({
      name: 'fleet_database_up',
      help: '1 while a database of the fleet answers, 0 after a failure.',
      labelNames: ['database'],
      registers: [registry],
    })
    this.#faults = faultsCounter(registry)
  }

  readonly onEvent = (event: PlatformEvent): void => {
    switch (event.type) {
      case 'platform.databaseAdded':
      case 'platform.databaseUp':
        return this.#up.set({ database: event.database }, 1)
      case 'platform.databaseDown':
        return this.#up.set({ database: event.database }, 0)
      case 'platform.databaseRemoved':
      case 'platform.alreadyServed':
        return this.#up.remove({ database: event.database })
      case 'platform.discoveryFailed':
        return this.#faults.inc({ during: 'discovering databases' })
      case 'platform.fault':
        return this.#faults.inc({ during: event.worker })
    }
  }
}

export interface VerifiedLedger {
  readonly breakCount: number
}

/** Result of the latest verification in this process; no value before the first. */
export class LedgerMetrics {
  readonly #breaks: Gauge
  readonly #verifiedAt: Gauge

  constructor(registry: Registry) {
    // A gauge without labels starts with 0, which would mean "no problem". remove() leaves it without a value.
    const gauge = (name: string, help: string) => {
      const made = new Gauge({ name, help, registers: [registry] })
      made.remove()
      return made
    }
    this.#breaks = gauge('ledger_chain_breaks', 'Places where a hash of the ledger does not match.')
    this.#verifiedAt = gauge('ledger_verified_timestamp_seconds', 'Time of the last verification of the ledger.')
  }

  onVerified({ breakCount }: VerifiedLedger, at: Date): void {
    this.#breaks.set(breakCount)
    this.#verifiedAt.set(at.getTime() / 1_000)
  }
}
