import { Counter, Gauge, Histogram, type Registry } from 'prom-client'
import type { RelayerEvent } from '../outbox/index.js'
import type { RepairEvent } from '../repair/index.js'

/**
 * Counters and histograms of one process. Metrics that must equal the ledger are not here but read from the database at
 * each scrape.
 */
export class OutboxMetrics {
  readonly #notifyWakeups: Counter
  readonly #claimBatches: Counter
  readonly #claimMs: Histogram
  readonly #claimLag: Histogram
  readonly #timeToTerminal: Histogram<'rail' | 'state'>
  readonly #inFlight: Gauge<'rail'>
  readonly #dispatchLatency: Histogram<'rail'>
  readonly #repaired: Counter
  readonly #leaseLost: Counter
  readonly #lateOutcomes: Counter
  readonly #terminalGuard: Counter
  readonly #held: Counter<'reason'>
  readonly #answers: Counter<'rail' | 'answer'>
  readonly #errors: Counter<'rail' | 'error'>
  readonly #unknownCodes: Counter<'rail'>
  readonly #breaker: Gauge<'rail'>
  readonly #listening: Gauge
  readonly #clockJumps: Counter
  readonly #faults: Counter<'during'>

  constructor(registry: Registry) {
    const registers = [registry]
    const counter = (name: string, help: string) => new Counter({ name, help, registers })
    this.#notifyWakeups = counter(
      'notify_wakeups_total',
      'Times that notifications woke this worker, after the debounce.',
    )
    this.#claimBatches = counter('claim_batches_total', 'Claims that leased at least one item.')
    this.#claimMs = new Histogram({
      name: 'claim_duration_ms',
      help: 'Duration of a claim.',
      buckets: BUCKETS_MS,
      registers,
    })
    this.#claimLag = new Histogram({
      name: 'claim_lag_seconds',
      help: 'Time from the due time of an item to its claim, by the database clock, without takeovers of expired leases.',
      buckets: BUCKETS_SECONDS,
      registers,
    })
    this.#timeToTerminal = new Histogram({
      name: 'time_to_terminal_seconds',
      help: 'Time from the enqueue of an item to its terminal outcome.',
      labelNames: ['rail', 'state'],
      buckets: BUCKETS_SECONDS,
      registers,
    })
    this.#inFlight = new Gauge({
      name: 'rail_calls_in_flight',
      help: 'Items that this process dispatches now; at most the concurrency of the rail.',
      labelNames: ['rail'],
      registers,
    })
    this.#dispatchLatency = new Histogram({
      name: 'dispatch_latency_ms',
      help: 'Time from the call of a rail to its answer.',
      labelNames: ['rail'],
      buckets: BUCKETS_MS,
      registers,
    })
    this.#repaired = counter('repair_requeued_count', 'Expired leases returned to the queue by lease repair.')
    this.#leaseLost = counter('lease_lost_count', 'Leases that this worker has lost. This is expected, not an error.')
    this.#lateOutcomes = counter(
      'late_outcomes_total',
      'Late outcomes: results that workers reported after they had lost the lease.',
    )
    this.#terminalGuard = counter(
      'terminal_guard_hit_count',
      'Second terminal attempts of an item that the unique index refused.',
    )
    this.#held = new Counter({
      name: 'holds_placed_total',
      help: 'Items held by this process.',
      labelNames: ['reason'],
      registers,
    })
    this.#answers = new Counter({
      name: 'rail_answers_total',
      help: 'Calls of a rail, by their result.',
      labelNames: ['rail', 'answer'],
      registers,
    })
    this.#errors = new Counter({
      name: 'rail_errors_total',
      help: 'Calls of a rail without success, by Symphony’s error code or the kind of the rail’s answer.',
      labelNames: ['rail', 'error'],
      registers,
    })
    this.#unknownCodes = new Counter({
      name: 'rail_unknown_codes_total',
      help: 'Answers with a code that the rail’s table does not cover.',
      labelNames: ['rail'],
      registers,
    })
    this.#breaker = new Gauge({
      name: 'rail_breaker_open',
      help: 'State of the circuit breaker: 1 open, 0.5 half-open, 0 closed.',
      labelNames: ['rail'],
      registers,
    })
    this.#listening = new Gauge({
      name: 'notify_listening',
      help: '1 while this process listens for notifications.',
      registers,
    })
    this.#clockJumps = counter('clock_jumps_total', 'Jumps of the database clock against the clock of this process.')
    this.#faults = faultsCounter(registry)
    for (const reason of HOLD_REASONS) this.#held.inc({ reason }, 0)
    for (const during of FAULTS) this.#faults.inc({ during }, 0)
  }

  /**
   * Starts the series of the served rails at 0, because Prometheus does not see the first increase of a series that
   * starts with 1.
   */
  declareRails(rails: Iterable<string>): void {
    for (const rail of rails) {
      this.#unknownCodes.inc({ rail }, 0)
      for (const answer of ANSWERS) this.#answers.inc({ rail, answer }, 0)
      for (const error of ERRORS) this.#errors.inc({ rail, error }, 0)
      this.#inFlight.set({ rail }, 0)
      this.#breaker.set({ rail }, 0)
      this.#dispatchLatency.zero({ rail })
      for (const state of ['DISPATCHED', 'FAILED']) this.#timeToTerminal.zero({ rail, state })
    }
  }

  readonly onRelayerEvent = (event: RelayerEvent): void => {
    switch (event.type) {
      case 'outbox.notified':
        return this.#notifyWakeups.inc()
      case 'outbox.listening':
        return this.#listening.set(event.connected ? 1 : 0)
      case 'outbox.claimed':
        this.#claimMs.observe(event.claimMs)
        if (event.items > 0) this.#claimBatches.inc()
        for (const lagMs of event.lagsMs) this.#claimLag.observe(Math.max(0, lagMs) / 1_000)
        return
      case 'outbox.dispatchStarted':
        return this.#inFlight.inc({ rail: event.railType })
      case 'outbox.dispatchFinished':
        return this.#inFlight.dec({ rail: event.railType })
      case 'outbox.called':
        this.#dispatchLatency.observe({ rail: event.railType }, event.latencyMs)
        if (event.error !== undefined) this.#errors.inc({ rail: event.railType, error: event.error })
        return this.#answers.inc({ rail: event.railType, answer: event.answer })
      case 'outbox.unknownCode':
        return this.#unknownCodes.inc({ rail: event.railType })
      case 'outbox.recorded':
      // Counts the outcome now. An earlier call recorded it, but the answer was lost, so it was not counted then.
      case 'outbox.alreadyRecorded':
        if (event.state !== 'RETRYABLE') {
          const labels = { rail: event.railType, state: event.state }
          this.#timeToTerminal.observe(labels, Math.max(0, event.sinceAcceptedMs) / 1_000)
        }
        return
      case 'outbox.held':
        return this.#held.inc({ reason: event.reason })
      case 'outbox.leaseLost':
        return this.#leaseLost.inc()
      case 'outbox.lateOutcome':
        return this.#lateOutcomes.inc()
      case 'outbox.terminalGuard':
        return this.#terminalGuard.inc()
      case 'outbox.breaker':
        return this.#breaker.set({ rail: event.railType }, BREAKER_VALUES[event.state])
      case 'outbox.clockJumped':
        return this.#clockJumps.inc()
      case 'outbox.fault':
        return this.#faults.inc({ during: event.during })
      // Not counted: the database counts these (`terminal_blocked_total`, `dispatch_frozen`), or no metric exists.
      case 'outbox.contradicted':
      case 'outbox.frozen':
      case 'outbox.freezeLifted':
      case 'outbox.released':
    }
  }

  readonly onRepairEvent = (event: RepairEvent): void => {
    if (event.type === 'repair.fault') return this.#faults.inc({ during: event.during })
    // Not counted: the gauge `expired_lease_count` of the database shows these leases.
    if (event.type === 'repair.unrepaired') return
    this.#repaired.inc(event.leasesRepaired)
    for (const [reason, count] of Object.entries(event.holdsPlaced)) this.#held.inc({ reason }, count)
  }
}

const ANSWERS = ['success', 'terminal', 'retryable', 'unknown', 'notSent']
/** Values of the label `error`: kinds of answers, and Symphony's own codes. Codes of rails are no labels. */
const ERRORS = [
  'terminal',
  'retryable',
  'unknown',
  'RAIL_ANSWER_MALFORMED',
  'RAIL_REFERENCE_MISSING',
  'RAIL_REFERENCE_INVALID',
  'RAIL_CODE_NOT_LISTED',
  'RAIL_CODE_DISAGREES',
  'RAIL_THREW',
  'RAIL_TIMEOUT',
  'RAIL_ABORTED',
  'RAIL_NOT_SENT',
]
/** Reasons why a claim, a completion, the relayer or lease repair holds an item. */
const HOLD_REASONS = [
  'OUTCOME_UNKNOWN',
  'RETRY_CEILING',
  'OUTCOME_NOT_DELIVERED',
  'REPEATED_LEASE_EXPIRY',
  'RAIL_REFERENCE_INVALID',
  'decided by the database',
]
const FAULTS = ['claiming', 'completing', 'sending heartbeat', 'renewing leases', 'repairing leases']
const BUCKETS_MS = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000]
/** Buckets from 50 ms to a day, because payments may wait a day. */
const BUCKETS_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 14_400, 86_400]
const BREAKER_VALUES = { closed: 0, 'half-open': 0.5, open: 1 } as const

/** Returns the counter of faults, which all workers of a process share. */
export function faultsCounter(registry: Registry): Counter<'during'> {
  const known = registry.getSingleMetric('worker_faults_total')
  if (known instanceof Counter) return known
  return new Counter({
    name: 'worker_faults_total',
    help: 'Failed operations of workers, without expected races.',
    labelNames: ['during'],
    registers: [registry],
  })
}
