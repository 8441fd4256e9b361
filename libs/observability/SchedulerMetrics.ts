import { Counter, Histogram, type Registry } from 'prom-client'
import type { SchedulerEvent } from '../scheduler/index.js'
import { faultsCounter } from './faultsCounter.js'

/** The scheduler's metrics: what this process made of what was due. */
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
    this.#runsCreated = counter('scheduler_runs_created_total', 'Runs of jobs that this scheduler made.')
    this.#lateRuns = counter('scheduler_late_runs_total', 'Those made more than a second after their occurrence.')
    this.#runLag = new Histogram({
      name: 'scheduler_run_lag_seconds',
      help: 'From an occurrence to the run that was made of it, by the database’s clock.',
      buckets: [0.01, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300, 3_600, 86_400],
      registers,
    })
    this.#missed = new Counter({
      name: 'scheduler_missed_total',
      help: 'Jobs found due long after their occurrence, because no scheduler was there; by what was done about it.',
      labelNames: ['policy'],
      registers,
    })
    this.#enqueued = byKind('scheduler_enqueued_total', 'Due timers and runs that became messages of the outbox.')
    this.#refused = byKind('scheduler_refused_total', 'Due timers and runs that the outbox refused; they have failed.')
    this.#unreadable = counter('scheduler_unreadable_total', 'Times a job’s expression or zone could not be read.')
    this.#faults = faultsCounter(registry)
    for (const policy of ['skip', 'once', 'all']) this.#missed.inc({ policy }, 0)
    for (const counted of [this.#enqueued, this.#refused]) {
      for (const kind of ['timer', 'run']) counted.inc({ kind }, 0)
    }
  }

  readonly onEvent = (event: SchedulerEvent): void => {
    switch (event.type) {
      case 'runsCreated':
        this.#runsCreated.inc(event.runs)
        for (const lagMs of event.lagsMs) {
          this.#runLag.observe(Math.max(0, lagMs) / 1_000)
          if (lagMs > LATE_MS) this.#lateRuns.inc()
        }
        return
      case 'missed':
        return this.#missed.inc({ policy: event.policy })
      case 'enqueued':
        return this.#enqueued.inc({ kind: event.kind }, event.items)
      case 'refused':
        return this.#refused.inc({ kind: event.kind })
      case 'unreadable':
        return this.#unreadable.inc()
      case 'fault':
        return this.#faults.inc({ during: event.during })
      case 'notified':
      case 'listening':
    }
  }
}

/** A scheduler that is awake is late by a round trip or two. */
const LATE_MS = 1_000
