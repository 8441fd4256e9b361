import { systemClock, type Clock } from '../../core/index.js'
import { createStatusRegistry, type SystemStatus } from '../createStatusRegistry.js'
import { evaluate, measure, collectSamples, type MetricSamples } from './conditions.js'
import { ALERT_RULES, type AlertRule } from './rules.js'

/** Alert for the API and the dashboard. Times are ISO text. */
export interface Alert {
  readonly name: string
  readonly severity: AlertRule['severity']
  /** `pending`: the condition holds, but not for `forSeconds` yet. */
  readonly state: 'pending' | 'firing'
  /**
   * Start of the condition by the database clock, or by the clock of this process while the database does not answer.
   */
  readonly since: string
  readonly forSeconds: number
  /** Measured value; null if a metric is missing. */
  readonly value: number | null
  readonly summary: string
  readonly firstLook: string
  readonly remedy: string
  /** Cause, if the database names it. */
  readonly detail?: string
}

/**
 * Evaluates the rules against one set of samples. For most conditions, the samples contain the age (`age` of the rule).
 * For the others, such as a missing metric, the evaluator remembers since when the condition holds.
 */
export class AlertEvaluator {
  readonly #rules: readonly AlertRule[]
  readonly #since = new Map<string, Date>()

  constructor(rules: readonly AlertRule[] = ALERT_RULES) {
    this.#rules = rules
  }

  /** Returns the alerts of one set of samples, firing ones first, and among these critical ones first. */
  observe(samples: MetricSamples): readonly Alert[] {
    return this.#rules.flatMap((rule) => this.#evaluate(rule, samples)).toSorted((a, b) => rank(a) - rank(b))
  }

  #evaluate(rule: AlertRule, samples: MetricSamples): Alert[] {
    const { holds, value } = evaluate(rule.when, samples)
    const { name, severity, forSeconds, summary, firstLook, remedy } = rule
    if (!holds) {
      this.#since.delete(name)
      return []
    }
    const since = this.#sinceOf(rule, samples)
    const state = samples.at.getTime() - since.getTime() >= forSeconds * 1_000 ? 'firing' : 'pending'
    const texts = { summary, firstLook, remedy }
    return [{ name, severity, state, since: since.toISOString(), forSeconds, value: value ?? null, ...texts }]
  }

  #sinceOf({ name, age }: AlertRule, samples: MetricSamples): Date {
    const ageSeconds = age === undefined ? undefined : measure(age, samples)
    if (ageSeconds !== undefined) return new Date(samples.at.getTime() - Math.max(0, ageSeconds) * 1_000)
    const since = this.#since.get(name) ?? samples.at
    this.#since.set(name, since)
    return since
  }
}

function rank({ state, severity }: Alert): number {
  return (state === 'firing' ? 0 : 2) + (severity === 'critical' ? 0 : 1)
}

/** Alerts of one database. All processes return the same alerts, because they read the same database. */
export class AlertWatch {
  readonly #rules: readonly AlertRule[]
  readonly #evaluator: AlertEvaluator
  readonly #clock: Clock

  constructor(rules: readonly AlertRule[] = ALERT_RULES, clock: Clock = systemClock) {
    this.#rules = rules
    this.#evaluator = new AlertEvaluator(rules)
    this.#clock = clock
  }

  /** @param status undefined if the database did not answer */
  async evaluate(status: SystemStatus | undefined): Promise<readonly Alert[]> {
    const samples = await collectSamples(status?.at ?? this.#clock.now(), createStatusRegistry(status))
    return this.#evaluator.observe(samples).map((alert) => this.#detailed(alert, status))
  }

  #detailed(alert: Alert, status: SystemStatus | undefined): Alert {
    const rule = this.#rules.find(({ name }) => name === alert.name)
    const detail = status === undefined ? undefined : rule?.detail?.(status)
    return detail === undefined ? alert : { ...alert, detail }
  }
}
