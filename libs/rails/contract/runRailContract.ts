import { AppError } from '../../core/index.js'
import { loadRail } from '../loadRails.js'
import type { RailDeclaration } from '../types.js'
import { RuleSkipped } from './findings.js'
import { RULES } from './rules.js'
import { Sandbox, type ContractOptions } from './Sandbox.js'

export interface RuleResult {
  readonly rule: string
  readonly ok: boolean
  readonly detail: string
  /** The rule does not apply, or could not be checked (`detail` says what for); then `ok` says nothing. */
  readonly skipped?: true
}

/** Thrown when an adapter breaks the contract. `results` has every rule, `errors` one error per broken one. */
export class RailContractError extends AppError {
  readonly results: readonly RuleResult[]
  readonly errors: readonly Error[]

  constructor(type: string, results: readonly RuleResult[]) {
    const broken = results.filter(({ ok }) => !ok)
    const lines = broken.map(({ rule, detail }) => `- ${rule}: ${detail}`)
    super(
      'RAIL_CONTRACT_BROKEN',
      [`the rail "${type}" breaks ${broken.length} rules of the contract`, ...lines].join('\n'),
    )
    this.results = results
    this.errors = broken.map(({ rule, detail }) => new Error(`${rule}: ${detail}`))
  }
}

/**
 * Checks an adapter against what Symphony relies on, with real calls to it: run it against a sandbox, from any test
 * framework. Returns every rule with what was found, or throws a `RailContractError` if one is broken.
 */
export async function runRailContract(rail: RailDeclaration<object>, options: ContractOptions): Promise<RuleResult[]> {
  const loaded = loadRail(rail)
  const results: RuleResult[] = []
  for (const { rule, check } of RULES) {
    results.push(await resultOf(rule, () => check(new Sandbox(loaded, options))))
  }
  if (results.some(({ ok }) => !ok)) throw new RailContractError(loaded.type, results)
  return results
}

async function resultOf(rule: string, check: () => Promise<string>): Promise<RuleResult> {
  try {
    return { rule, ok: true, detail: await check() }
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error)
    return error instanceof RuleSkipped ? { rule, ok: true, detail, skipped: true } : { rule, ok: false, detail }
  }
}
