import { systemClock, type Clock } from '../../core/index.js'
import { registryOfStatus, type SystemStatus } from '../registryOfStatus.js'
import { AlertEvaluator, type Alert } from './AlertEvaluator.js'
import { takeReading } from './Reading.js'
import { ALERT_RULES, type AlertRule } from './rules.js'

/** Alerts of one database. Every process derives the same alerts, because each reads them from the database. */
export class AlertWatch {
  readonly #rules: readonly AlertRule[]
  readonly #evaluator: AlertEvaluator
  readonly #clock: Clock

  constructor(rules: readonly AlertRule[] = ALERT_RULES, clock: Clock = systemClock) {
    this.#rules = rules
    this.#evaluator = new AlertEvaluator(rules)
    this.#clock = clock
  }

  /** @param status undefined: the database did not answer */
  async look(status: SystemStatus | undefined): Promise<readonly Alert[]> {
    const reading = await takeReading(status?.at ?? this.#clock.now(), registryOfStatus(status))
    return this.#evaluator.observe(reading).map((alert) => this.#detailed(alert, status))
  }

  #detailed(alert: Alert, status: SystemStatus | undefined): Alert {
    const rule = this.#rules.find(({ name }) => name === alert.name)
    const detail = status === undefined ? undefined : rule?.detail?.(status)
    return detail === undefined ? alert : { ...alert, detail }
  }
}
