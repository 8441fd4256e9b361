import { setTimeout as delay } from 'node:timers/promises'
import type { EmbeddedServer } from '../../../embedded/index.js'
import { between, type Random } from '../../../libs/cli/commands/demo/seededRandom.js'
import { STATEMENT_FORMATS } from '../../../libs/reconciliation/index.js'
import { spawnSymphony, type CommandOutput, type Running } from '../../support/commandLine.js'
import type { TestDatabase } from '../../support/database.js'
import { killServer } from '../../support/killServer.js'
import {
  findDifferences,
  findRemains,
  plantStatement,
  superuserOf,
  type PlantedStatement,
} from '../../support/plantedStatements.js'
import { openConnection, type Connection } from '../../support/race.js'
import type { PrivateServer } from '../../support/server.js'
import { defineScenario } from '../../scorecard/Scenario.js'
import type { ScenarioFixture } from '../../scorecard/ScenarioFixture.js'
import { retryUntilSuccess, waitUntil } from '../../scorecard/waitUntil.js'

/** Number of errors of each kind in one large statement. */
const PER_STATEMENT = 1_250
/** Number of errors of each kind in the statement of a killed run. */
const PER_KILL = 40

export default defineScenario({
  id: 'R27',
  title:
    'Statements with planted errors are reconciled by several processes at once. Processes and PostgreSQL are killed during runs.',
  bar: '10,000 planted errors of each of 6 kinds: all found, nothing else reported; one run per file after every kill.',
  sizes: {
    full: { perKind: 10_000, kills: 150, serverKills: 15 },
    short: { perKind: 120, kills: 8, serverKills: 2 },
  },
  async run(fixture, { perKind, kills, serverKills }) {
    const bank = await BankScenario.create(fixture)
    for (let left = perKind; left > 0; left -= PER_STATEMENT) await bank.reconcile(Math.min(PER_STATEMENT, left))
    const planted = bank.figures.planted
    for (let kill = 0; kill < kills; kill += 1) await bank.killProcess()
    for (let kill = 0; kill < serverKills; kill += 1) await bank.killServer()
    const violations = await plantViolations(bank.db, bank.last)
    return {
      figures: { plantedPerKind: planted / 6, ...bank.figures, plantedFound: violations.found },
      defects: [...bank.defects.slice(0, 20), ...violations.missed],
    }
  },
})

/** A ledger, its bank, and processes that compare the two. */
class BankScenario {
  readonly db: TestDatabase
  readonly defects: string[] = []
  readonly figures = {
    statements: 0,
    planted: 0,
    runsRepeated: 0,
    kills: 0,
    serverKills: 0,
    killedBefore: 0,
    killedAfter: 0,
  }
  readonly #fixture: ScenarioFixture
  readonly #random: Random
  readonly #env: Readonly<Record<string, string>>
  readonly #server: PrivateServer
  #running: EmbeddedServer
  #last: PlantedStatement | undefined

  private constructor(fixture: ScenarioFixture, db: TestDatabase, server: PrivateServer, url: string) {
    this.#fixture = fixture
    this.#random = fixture.randomFor('moments')
    this.db = db
    this.#server = server
    this.#running = server
    this.#env = { DATABASE_URL: url, SYMPHONY_SCHEMA: db.schema }
  }

  static async create(fixture: ScenarioFixture): Promise<BankScenario> {
    const server = await fixture.startServer()
    const db = await fixture.createDatabase(server)
    const { url } = await db.createLogin('bank', { roles: ['symphony_control'] })
    return new BankScenario(fixture, db, server, url)
  }

  /** Statement of the latest run. */
  get last(): PlantedStatement {
    if (this.#last === undefined) throw new Error('no statement was reconciled')
    return this.#last
  }

  /** Reconciles a new statement by two processes at once, and then again. */
  async reconcile(perKind: number): Promise<void> {
    const statement = await this.#plant(perKind)
    await this.#finish(statement)
  }

  /** Kills a process at a random moment of its run. Then other processes reconcile the same statement. */
  async killProcess(): Promise<void> {
    const statement = await this.#plant(PER_KILL)
    const run = this.#start(statement)
    await this.#moment(run)
    run.child.kill('SIGKILL')
    await run.ended
    this.figures.kills += 1
    // The server may still finish the statement that the process had sent.
    await waitUntil('the session of the killed process ends', async () => (await this.#sessions()) === 0)
    await this.#checkRemains(statement)
    await this.#finish(statement)
  }

  /** Kills PostgreSQL at a random moment of a run, and starts it again. */
  async killServer(): Promise<void> {
    const statement = await this.#plant(PER_KILL)
    const run = this.#start(statement)
    await this.#moment(run)
    await killServer(this.#running)
    await this.#running.stop()
    this.#running = await this.#server.restart()
    this.figures.serverKills += 1
    await run.ended
    await retryUntilSuccess('a query after the restart', () => this.db.queryNoRole('SELECT 1'))
    await this.#checkRemains(statement)
    await this.#finish(statement)
  }

  async #plant(perKind: number): Promise<PlantedStatement> {
    this.figures.statements += 1
    const { statements } = this.figures
    const format = STATEMENT_FORMATS[statements % STATEMENT_FORMATS.length]!
    const { folder, seed } = this.#fixture
    this.#fixture.progress(`statement ${statements}, ${this.figures.kills} kills`)
    const statement = await plantStatement(this.db, { seed: `${seed} ${statements}`, format, perKind, folder })
    this.figures.planted += statement.findings.length
    this.#last = statement
    return statement
  }

  #start({ words }: PlantedStatement): Running {
    const run = spawnSymphony(words, this.#env)
    this.#fixture.defer(() => run.child.kill('SIGKILL'))
    return run
  }

  /** Waits for a random moment: after a random time, while entries are staged, or while the database compares. */
  async #moment({ ended }: Running): Promise<void> {
    const dice = this.#random()
    const over = { now: false }
    void ended.then(() => (over.now = true))
    const isNow = async (query: string) => over.now || (await this.#count(query)) > 0
    if (dice < 0.3) return delay(between(this.#random, 0, 1_000))
    const query = dice < 0.6 ? 'SELECT count(*) FROM reconciliation_uploads' : COMPARING
    await waitUntil('the moment of the kill', () => isNow(query), { everyMs: 1 })
    await delay(between(this.#random, 0, 15))
  }

  /** Reconciles by two processes at once and once more. All of them must report one run with the planted errors. */
  async #finish(statement: PlantedStatement): Promise<void> {
    const atOnce = await Promise.all([this.#start(statement).ended, this.#start(statement).ended])
    const outputs = [...atOnce, await this.#start(statement).ended]
    const runIds = new Set(outputs.map((output) => this.#runIdOf(output)))
    if (runIds.size > 1) this.defects.push(`${statement.railType}: one file has the runs ${[...runIds].join(', ')}`)
    this.figures.runsRepeated += outputs.length - 1
    this.defects.push(...(await findDifferences(superuserOf(this.db), statement)))
    this.defects.push(...(await findRemains(superuserOf(this.db), statement.railType)))
  }

  /** Requires that a killed run left either nothing or the complete run. */
  async #checkRemains(statement: PlantedStatement): Promise<void> {
    const client = superuserOf(this.db)
    const runs = await this.#count('SELECT count(*) FROM reconciliation_runs WHERE rail_type = $1', [
      statement.railType,
    ])
    if (runs === 0) this.figures.killedBefore += 1
    else this.figures.killedAfter += 1
    if (runs > 0) this.defects.push(...(await findDifferences(client, statement)))
    this.defects.push(...(await findRemains(client, statement.railType)))
  }

  #runIdOf({ exitCode, stdout, stderr }: CommandOutput): string {
    try {
      const { runId }: { readonly runId: string } = JSON.parse(stdout)
      return runId
    } catch {
      this.defects.push(`a process ended with ${exitCode}: ${stderr.slice(0, 300)}`)
      return 'none'
    }
  }

  #sessions(): Promise<number> {
    return this.#count(
      `SELECT count(*) FROM pg_stat_activity WHERE usename LIKE 'bank%' AND datname = current_database()`,
    )
  }

  async #count(query: string, values: readonly unknown[] = []): Promise<number> {
    const { rows } = await this.db.queryNoRole<{ count: bigint }>(query, values)
    return Number(rows[0]?.count)
  }
}

const COMPARING = `SELECT count(*) FROM pg_stat_activity
  WHERE state = 'active' AND query LIKE '%finish_reconciliation%' AND pid <> pg_backend_pid()`

/** Changes that break the rules of this scenario, and that its checks must therefore find. */
const VIOLATIONS: Readonly<Record<string, string>> = {
  'a finding is missing': `DELETE FROM reconciliation_findings WHERE finding_id = (
    SELECT min(finding_id::text)::uuid FROM reconciliation_findings JOIN reconciliation_runs USING (run_id) WHERE rail_type = $1)`,
  'a finding has another kind': `UPDATE reconciliation_findings SET kind = 'reversed' WHERE finding_id = (
    SELECT min(finding_id::text)::uuid FROM reconciliation_findings f JOIN reconciliation_runs USING (run_id)
    WHERE rail_type = $1 AND f.kind = 'paid_twice')`,
  'a file has two runs': `INSERT INTO reconciliation_runs SELECT (jsonb_populate_record(r, jsonb_build_object(
    'run_id', gen_random_uuid(), 'settlement_days', 59))).* FROM reconciliation_runs r WHERE rail_type = $1`,
  'entries and findings have no run': 'DELETE FROM reconciliation_runs WHERE rail_type = $1',
  'a run has no event': `DELETE FROM payment_outbox_events WHERE event_id = (
    SELECT event_id FROM reconciliation_runs WHERE rail_type = $1)`,
}

/** Plants each violation in a transaction that is rolled back. Returns how many the checks found. */
async function plantViolations(db: TestDatabase, statement: PlantedStatement) {
  const connection = await openConnection(db)
  const missed: string[] = []
  for (const [name, change] of Object.entries(VIOLATIONS)) {
    if ((await differencesAfter(connection, statement, change)) === 0) missed.push(`not found by the checks: ${name}`)
  }
  await connection.close()
  return { found: Object.keys(VIOLATIONS).length - missed.length, missed }
}

async function differencesAfter(connection: Connection, statement: PlantedStatement, change: string): Promise<number> {
  await connection.query('BEGIN')
  for (const table of ['reconciliation_runs', 'reconciliation_findings', 'payment_outbox_events']) {
    await connection.query(`ALTER TABLE ${table} DISABLE TRIGGER ALL`)
  }
  await connection.query(change, [statement.railType])
  const differences = await findDifferences(connection, statement)
  const remains = await findRemains(connection, statement.railType)
  await connection.query('ROLLBACK')
  return differences.length + remains.length
}
