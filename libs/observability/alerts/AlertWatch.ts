import type { Registry } from 'prom-client'
import { systemClock, type Clock } from '../../core/index.js'
import { AlertEvaluator, type Alert } from './AlertEvaluator.js'
import { takeReading } from './Reading.js'
import { ALERT_RULES, type AlertRule } from './rules.js'

/**
 * Alerts for whoever looks: reads what it was given to read, and judges it in the light of its earlier looks. It looks only
 * when asked: who does so less often than every five minutes hears `pending` of what a rule wants to have held for a while.
 */
export class AlertWatch {
  readonly #read: () => Promise<readonly Registry[]>
  readonly #evaluator: AlertEvaluator
  readonly #clock: Clock

  constructor(
    read: () => Promise<readonly Registry[]>,
    rules: readonly AlertRule[] = ALERT_RULES,
    clock: Clock = systemClock,
  ) {
    this.#read = read
    this.#evaluator = new AlertEvaluator(rules)
    this.#clock = clock
  }

  async look(): Promise<readonly Alert[]> {
    const registries = await this.#read()
    return this.#evaluator.observe(await takeReading(this.#clock.now(), registries))
  }
}
