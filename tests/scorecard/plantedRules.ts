import type { Client } from 'pg'
import { asQueryable } from '../support/database.js'
import { disableGuards } from '../support/ledgerTampers.js'

/** Rule about the rows of a run, with a violation that a superuser plants to show that the rule finds it. */
export interface PlantedRule {
  readonly id: string
  /** Sentence that follows the number of violations. */
  readonly violated: string
  /** Query for the ids that violate the rule. */
  readonly find: string
  /** Statement that makes one id violate the rule. */
  readonly plant: string
}

interface Violation {
  readonly rule: string
  readonly count: number
  /** Sentence with the number and the first ids. */
  readonly defect: string
}

export interface CheckedRules {
  readonly violations: readonly Violation[]
  /** Rules that did not find the violation that was planted for them. */
  readonly missed: readonly string[]
}

/**
 * Checks the rules, then plants one violation per rule, in a transaction of a superuser that the caller rolls back.
 * `$1` in a query is `parameter`.
 */
export async function checkRules(
  client: Client,
  rules: readonly PlantedRule[],
  parameter?: string,
): Promise<CheckedRules> {
  const violations: Violation[] = []
  const missed: string[] = []
  for (const rule of rules) {
    const found = await findViolations(client, rule, parameter)
    if (found.length > 0) {
      const defect = `${found.length} ${rule.violated}: ${found.slice(0, EXAMPLES_MAX).join(', ')}`
      violations.push({ rule: rule.id, count: found.length, defect })
    }
  }
  await disableGuards(asQueryable(client))
  for (const rule of rules) {
    await client.query('SAVEPOINT before_plant')
    const { rowCount } = await client.query(rule.plant)
    const found = await findViolations(client, rule, parameter)
    const before = violations.find((violation) => violation.rule === rule.id)?.count ?? 0
    if (rowCount === 0 || found.length <= before) missed.push(rule.id)
    await client.query('ROLLBACK TO SAVEPOINT before_plant')
  }
  return { violations, missed }
}

async function findViolations(
  client: Client,
  { find }: PlantedRule,
  parameter: string | undefined,
): Promise<readonly string[]> {
  const { rows } = await client.query<{ id: string }>({
    text: `SELECT id FROM (${find}) AS found(id) ORDER BY 1`,
    values: find.includes('$1') ? [parameter] : [],
  })
  return rows.map(({ id }) => id)
}

const EXAMPLES_MAX = 3
