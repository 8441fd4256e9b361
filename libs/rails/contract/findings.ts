import { AppError } from '../../core/index.js'

/** How a rule ends when it does not hold, or cannot be checked. Neither leaves `runRailContract`. */

export class RuleBroken extends AppError {}
export class RuleSkipped extends AppError {}

export function fail(detail: string): never {
  throw new RuleBroken('RULE_BROKEN', detail)
}

export function skip(why: string): never {
  throw new RuleSkipped('RULE_SKIPPED', why)
}
