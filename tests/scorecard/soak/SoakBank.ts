import { STATEMENT_FORMATS } from '../../../libs/reconciliation/index.js'
import { spawnSymphony } from '../../support/commandLine.js'
import {
  findDifferences,
  findRemains,
  superuserOf,
  writePlantedStatement,
  type PlantedStatement,
} from '../../support/plantedStatements.js'
import type { RelayScenario } from '../RelayScenario.js'
import type { ScenarioFixture } from '../ScenarioFixture.js'
import { retryUntilSuccess, waitUntil } from '../waitUntil.js'
import { bankRail } from './soakRails.js'

/** Number of planted errors of each kind in a statement. */
const PER_KIND = 3
const PAID = PER_KIND * 6
const REFUSED = PER_KIND + 2

/** A bank that sends a statement about each of its rails, and a process that reconciles it. */
export class SoakBank {
  readonly #fixture: ScenarioFixture
  readonly #scenario: RelayScenario
  readonly #env: Readonly<Record<string, string>>
  readonly defects: string[] = []
  statements = 0
  planted = 0

  private constructor(fixture: ScenarioFixture, scenario: RelayScenario, url: string) {
    this.#fixture = fixture
    this.#scenario = scenario
    this.#env = { DATABASE_URL: url, SYMPHONY_SCHEMA: scenario.db.schema }
  }

  static async create(fixture: ScenarioFixture, scenario: RelayScenario): Promise<SoakBank> {
    const { url } = await scenario.db.createLogin('bank', { roles: ['symphony_control'] })
    return new SoakBank(fixture, scenario, url)
  }

  /** Pays on a rail of its own, writes a statement about these payments, plants errors in it and reconciles it. */
  async reconcile(): Promise<void> {
    this.statements += 1
    const number = this.statements
    const { db } = this.#scenario
    const railType = bankRail(number)
    await this.#scenario.enqueue(
      Array.from({ length: PAID + REFUSED }, (_, index) => buildBankPayment(railType, index)),
    )
    await waitUntil(`the payments of ${railType} have ended`, () => this.#haveEnded(railType), {
      timeoutMs: 600_000,
      everyMs: 250,
    })
    const statement = await retryUntilSuccess('a statement', () =>
      writePlantedStatement(db, railType, {
        seed: `${this.#fixture.seed} ${number}`,
        format: STATEMENT_FORMATS[number % STATEMENT_FORMATS.length]!,
        perKind: PER_KIND,
        folder: this.#fixture.folder,
        settlementDays: 0,
        daysBefore: 1,
      }),
    )
    this.planted += statement.findings.length
    await retryUntilSuccess(`the reconciliation of ${railType}`, () => this.#run(statement), { everyMs: 1_000 })
    this.defects.push(
      ...(await retryUntilSuccess('a read of findings', () => findDifferences(superuserOf(db), statement))),
    )
  }

  /** Returns a sentence for rows that belong to no run. */
  findRemains(): Promise<readonly string[]> {
    return findRemains(superuserOf(this.#scenario.db), bankRail(this.statements))
  }

  /** Runs `symphony reconcile`. Fails if PostgreSQL was killed meanwhile; a repeated run has the same result. */
  async #run({ words }: PlantedStatement): Promise<void> {
    const run = spawnSymphony(words, this.#env)
    this.#fixture.defer(() => run.child.kill('SIGKILL'))
    const { stdout, stderr, exitCode } = await run.ended
    if (!stdout.includes('"runId"')) throw new Error(`symphony reconcile ended with ${exitCode}: ${stderr}`)
  }

  async #haveEnded(railType: string): Promise<boolean> {
    const { db } = this.#scenario
    const { rows } = await retryUntilSuccess('a read of the queue', () =>
      db.queryNoRole(`SELECT FROM payment_outbox_pending WHERE rail_type = $1 LIMIT 1`, [railType]),
    )
    return rows.length === 0
  }
}

function buildBankPayment(railType: string, index: number) {
  const id = `${railType}-${index + 1}`
  return {
    instructionId: id,
    idempotencyKey: id,
    participantId: `${railType}-${index % 3}`,
    railType,
    payload: {
      amount: `${10 + index}.50`,
      currency: 'EUR',
      destination: 'DE89370400440532013000',
      ...(index < REFUSED ? { simulate: ['terminal'] } : {}),
    },
  }
}
