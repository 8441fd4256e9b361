import { judge, TRUSTED_MS } from './conditions.js'
import type { Reading } from './Reading.js'
import { ALERT_RULES, type AlertRule } from './rules.js'

/** An alert as it is shown: JSON without loss, times as ISO text. */
export interface Alert {
  readonly name: string
  readonly severity: AlertRule['severity']
  /** `pending`: true now, and not for long enough yet. */
  readonly state: 'pending' | 'firing'
  /** Since when it has been true without a break, as far as anybody looked. */
  readonly since: string
  readonly forSeconds: number
  /** What was measured; null where something is missing. */
  readonly value: number | null
  readonly summary: string
  readonly firstLook: string
  readonly remedy: string
}

/**
 * The rules over readings, as Prometheus would judge them: a condition must hold at every look for as long as its rule says. It
 * keeps readings only for as long as a rule can ask for them. It looks at what it is shown, and at nothing else: whoever has it
 * decides when and what to read.
 */
export class AlertEvaluator {
  readonly #rules: readonly AlertRule[]
  readonly #readings: Reading[] = []
  readonly #since = new Map<string, Date>()

  constructor(rules: readonly AlertRule[] = ALERT_RULES) {
    this.#rules = rules
  }

  /** Takes a reading and says what is true now: firing first, the gravest first. */
  observe(reading: Reading): readonly Alert[] {
    const last = this.#readings.at(-1) ?? reading
    const passedMs = reading.at.getTime() - last.at.getTime()
    // Two looks that overtook each other: the later one stands.
    if (passedMs < 0 && passedMs >= -SPACING_MS) return this.#judgeAll(last.at)
    if (passedMs < 0) this.#forget()
    // Nobody looked for a while: what was true then says nothing about the time between.
    if (passedMs > TRUSTED_MS) this.#since.clear()
    this.#keep(reading)
    return this.#judgeAll(reading.at)
  }

  #judgeAll(at: Date): readonly Alert[] {
    return this.#rules.flatMap((rule) => this.#judge(rule, at)).toSorted(byGravity)
  }

  #judge(rule: AlertRule, at: Date): Alert[] {
    const { holds, value } = judge(rule.when, this.#readings)
    if (!holds) {
      this.#since.delete(rule.name)
      return []
    }
    const since = this.#since.get(rule.name) ?? at
    this.#since.set(rule.name, since)
    const { name, severity, forSeconds, summary, firstLook, remedy } = rule
    const state = at.getTime() - since.getTime() >= forSeconds * 1_000 ? 'firing' : 'pending'
    return [
      {
        name,
        severity,
        state,
        since: since.toISOString(),
        forSeconds,
        value: value ?? null,
        summary,
        firstLook,
        remedy,
      },
    ]
  }

  /** Readings that come faster than anything is judged by replace each other: a page that is refreshed fills no memory. */
  #keep(reading: Reading): void {
    const [beforeLast, last] = this.#readings.slice(-2)
    const isCrowded =
      last !== undefined && beforeLast !== undefined && reading.at.getTime() - beforeLast.at.getTime() < SPACING_MS
    if (isCrowded) this.#readings.pop()
    this.#readings.push(reading)
    while (reading.at.getTime() - (this.#readings[0] ?? reading).at.getTime() > KEPT_MS) this.#readings.shift()
  }

  /** The clock went back: nothing from before it can be compared. */
  #forget(): void {
    this.#readings.length = 0
    this.#since.clear()
  }
}

/** The same without a memory: what the rules say after a series of readings, oldest first. */
export function evaluateAlerts(
  readings: readonly Reading[],
  rules: readonly AlertRule[] = ALERT_RULES,
): readonly Alert[] {
  const evaluator = new AlertEvaluator(rules)
  let alerts: readonly Alert[] = []
  for (const reading of readings) alerts = evaluator.observe(reading)
  return alerts
}

function byGravity(a: Alert, b: Alert): number {
  return rank(a) - rank(b)
}

function rank({ state, severity }: Alert): number {
  return (state === 'firing' ? 0 : 2) + (severity === 'critical' ? 0 : 1)
}

/** No rule asks for more than an hour, and what it finds then may be as old as anybody trusts. */
const KEPT_MS = 3_600_000 + TRUSTED_MS
const SPACING_MS = 10_000
