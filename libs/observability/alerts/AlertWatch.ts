import type { Registry } from 'prom-client'
import { systemClock, type Clock } from '../../core/index.js'
import { AlertEvaluator, type Alert } from './AlertEvaluator.js'
import { takeReading } from './Reading.js'
import { ALERT_RULES, type AlertRule } from './rules.js'

/**
 * Alerts for whoever looks: judges what it is shown in the light of the looks before. Who looks less often than every five
 * minutes hears `pending` of what a rule wants to have held for a while.
 */
export class AlertWatch {
  readonly #evaluator: AlertEvaluator
  readonly #clock: Clock

  constructor(rules: readonly AlertRule[] = ALERT_RULES, clock: Clock = systemClock) {
    this.#evaluator = new AlertEvaluator(rules)
    this.#clock = clock
  }

  /** @param registries how things stand now; a gauge that is in none of them is missing */
  async look(registries: readonly Registry[]): Promise<readonly Alert[]> {
    return this.#evaluator.observe(await takeReading(this.#clock.now(), registries))
  }
}
