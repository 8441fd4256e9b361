import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { readRailEffects } from '../../libs/cli/commands/ledger/withLedger.js'
import { enqueueInboxMessage } from '../../libs/inbox/index.js'
import { enqueuePaymentOutboxBatch, OutboxStore } from '../../libs/outbox/index.js'
import type { RailEffect, startRailBook } from '../../libs/rails/index.js'
import { pauseJob, resumeJob, SchedulerStore } from '../../libs/scheduler/index.js'
import { builtPath } from '../support/builtPath.js'
import type { TestDatabase } from '../support/database.js'
import { buildPaymentOn } from '../scorecard/payments.js'
import { createPerson, approve, propose, type Person } from '../support/outboxPeople.js'
import type { ScenarioFixture } from '../scorecard/ScenarioFixture.js'
import { waitUntil } from '../scorecard/waitUntil.js'
import { auditLedger } from '../support/ledgerFixture.js'

const RUNTIME = fileURLToPath(new URL('runtime.mjs', import.meta.url))
const PROGRAM = fileURLToPath(new URL('coreProcess.mjs', import.meta.url))
const STEPS = fileURLToPath(new URL('stepProcess.mjs', import.meta.url))
const JOB = 'report'

/** A kill point, and the step of stepProcess.mjs that reaches it. */
export interface StepPoint {
  readonly step: string
  readonly point: string
}

/** Unfinished work, and whether dispatch is frozen. */
interface Left {
  readonly payments: number
  readonly messages: number
  readonly timers: number
  readonly frozen: boolean | null
}

/**
 * A database with work for every worker, and processes of an instrumented build that do this work until they are
 * killed.
 */
export class CoreScenario {
  readonly db: TestDatabase
  readonly #fixture: ScenarioFixture
  readonly #dist: string
  readonly #program: Readonly<Record<string, string>>
  readonly #bookFile: string
  #started = 0
  #messages = 0

  readonly #people: readonly [Person, Person]

  private constructor(
    fixture: ScenarioFixture,
    db: TestDatabase,
    dist: string,
    people: readonly [Person, Person],
    places: Readonly<Record<string, string>>,
  ) {
    this.#fixture = fixture
    this.#people = people
    this.db = db
    this.#dist = dist
    const { bookFile, ...program } = places
    this.#bookFile = bookFile ?? ''
    this.#program = program
  }

  static async create(fixture: ScenarioFixture, server: { readonly url: string }, dist: string): Promise<CoreScenario> {
    const db = await fixture.createDatabase(server)
    const shop = await db.createLogin('shop')
    const runtime = ['ingest', 'executor', 'control', 'readonly', 'auditor'].map((role) => `symphony_${role}`)
    const { url } = await db.createLogin('worker', { roles: [...runtime, shop.name] })
    const { url: secondUrl } = await db.createLogin('second', { roles: ['symphony_control'] })
    await db.queryNoRole(`
      CREATE SCHEMA shop; GRANT USAGE ON SCHEMA shop TO ${shop.name};
      CREATE TABLE shop.effects (source text, message_id text);
      CREATE TABLE shop.led (turn bigint GENERATED ALWAYS AS IDENTITY, token bigint, worker text);
      GRANT SELECT, INSERT ON shop.effects, shop.led TO ${shop.name}`)
    const bookFile = join(fixture.folder, `book-${db.name}.ndjson`)
    const built: { startRailBook: typeof startRailBook } = await import(
      /* @vite-ignore */ pathToFileURL(builtPath('libs/rails/index.js')).href
    )
    const book = await built.startRailBook({ file: bookFile })
    fixture.defer(() => book.stop())
    const job = { name: JOB, cron: '* * * * * *', topic: 'scheduled', payload: PAYABLE }
    await new SchedulerStore(db.database).createOrUpdateJob(job)
    const people = [await createPerson(db, 'ann'), await createPerson(db, 'ben')] as const
    return new CoreScenario(fixture, db, dist, people, {
      url,
      secondUrl,
      adminUrl: db.url,
      bookUrl: book.url,
      bookFile,
      handlerRole: shop.name,
    })
  }

  /** Adds work for every worker. */
  async feed(): Promise<void> {
    const { db } = this
    await resumeJob(db.as('symphony_control'), JOB)
    await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), [
      buildPaymentOn('resend'),
      buildPaymentOn('resend', { simulate: ['retryable', 'success'] }),
      buildPaymentOn('inquire', { simulate: ['timeoutAfterPaying', 'success'] }),
      buildPaymentOn('inquire', { simulate: ['garbage', 'success'] }),
      buildPaymentOn('inquire', { simulate: ['terminal'] }),
      buildPaymentOn('hold'),
      { ...buildPaymentOn('resend'), participantId: 'in-order', ordered: true },
      { ...buildPaymentOn('resend'), participantId: 'in-order', ordered: true },
    ])
    for (const failsFirst of [false, true]) {
      const messageId = `message-${(this.#messages += 1)}`
      const message = { source: 'bank', messageId, topic: 'effect', payload: { failsFirst } }
      await enqueueInboxMessage(db.as('symphony_ingest'), message)
      await new OutboxStore(db.database).enqueue({ topic: 'booked', messageId, payload: { failsFirst } })
    }
    await new SchedulerStore(db.database).scheduleTimer({ topic: 'scheduled', payload: PAYABLE, dueAt: new Date() })
  }

  /** Expires all leases and claims, and shortens the backoff of retries. */
  async passTime(): Promise<void> {
    await this.db.queryNoRole(`
      UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() - interval '1 second' WHERE lease_token IS NOT NULL;
      UPDATE symphony_leases SET expires_at = clock_timestamp() - interval '1 second' WHERE expires_at > clock_timestamp();
      UPDATE inbox_messages SET claim_expires_at = clock_timestamp() - interval '1 second' WHERE fence IS NOT NULL`)
    await this.passTimeForRetries()
  }

  /** Returns whether all work is finished, except items that people must decide. */
  async isDone(): Promise<boolean> {
    const { payments, messages, timers } = await this.#left()
    return payments + messages + timers === 0
  }

  async #left(): Promise<Left> {
    const { rows } = await this.db.queryNoRole<Left>(`
      -- Held items, and items behind them in an ordered stream, wait for people and are not counted.
      SELECT (SELECT count(*) FROM payment_outbox_pending p WHERE p.hold_reason IS NULL AND NOT (p.ordered AND EXISTS (
          SELECT 1 FROM payment_outbox_pending h WHERE h.participant_id = p.participant_id AND h.ordered
            AND h.hold_reason IS NOT NULL AND h.sequence_id < p.sequence_id)))::int AS payments,
        (SELECT count(*) FROM inbox_messages WHERE topic = 'effect' AND state NOT IN ('done', 'dead'))::int AS messages,
        (SELECT count(*) FROM scheduler_timers WHERE delivery = 'outbox' AND finished_at IS NULL)::int AS timers,
        (SELECT e.frozen FROM dispatch_epochs e ORDER BY e.epoch_no DESC LIMIT 1) AS frozen`)
    return rows[0]!
  }

  start(env: Readonly<Record<string, string>> = {}): ChildProcess {
    return this.#spawn(PROGRAM, env)
  }

  #spawn(program: string, env: Readonly<Record<string, string>>, more: object = {}): ChildProcess {
    const settings = {
      ...this.#program,
      dist: this.#dist,
      schema: this.db.schema,
      workerId: `core-${(this.#started += 1)}`,
      ...more,
    }
    const child = spawn(process.execPath, ['--import', RUNTIME, program, JSON.stringify(settings)], {
      // A killed process leaves its temporary files, which the fixture removes with its folder.
      env: { PATH: process.env['PATH'] ?? '', TMPDIR: this.#fixture.folder, ...env },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    this.#fixture.defer(() => child.kill('SIGKILL'))
    return child
  }

  /** Returns the points that a process reaches from start to stop while it does all work. */
  async discover(): Promise<string[]> {
    const file = join(this.#fixture.folder, 'passed.log')
    await rm(file, { force: true })
    await this.feed()
    const child = this.start({ FAILPOINT_LOG: file })
    await this.#finish(child)
    return (await readFile(file, 'utf8')).trim().split('\n')
  }

  /** Returns points that only the steps reach, each with the first step that does. */
  async discoverSteps(known: ReadonlySet<string>): Promise<readonly StepPoint[]> {
    const file = join(this.#fixture.folder, 'passed-by-steps.log')
    await rm(file, { force: true })
    await this.#runSteps({ FAILPOINT_LOG: file })
    const found: StepPoint[] = []
    let step = ''
    for (const line of (await readFile(file, 'utf8')).trim().split('\n')) {
      if (line.startsWith('step ')) step = line.slice('step '.length)
      else if (!known.has(line)) found.push({ step, point: line })
    }
    return found
  }

  /** Kills the process of one step at a point. Returns false if the step ended without reaching the point. */
  async crashStepAt({ step, point }: StepPoint): Promise<boolean> {
    const child = await this.#runSteps({ FAILPOINT: point }, step)
    await this.passTime()
    // A killed step may leave dispatch frozen.
    await this.db.queryNoRole(`SELECT lift_dispatch_freeze('the drill is over')`)
    return child.signalCode === 'SIGKILL'
  }

  async #runSteps(env: Readonly<Record<string, string>>, only?: string): Promise<ChildProcess> {
    const child = this.#spawn(STEPS, env, only === undefined ? {} : { only })
    await once(child, 'exit')
    if (child.signalCode !== 'SIGKILL' && child.exitCode !== 0)
      throw new Error(`the steps exited with ${child.exitCode}; see their output above`)
    return child
  }

  /**
   * Kills a process at a point; the next process finishes its work. Returns false if the first process ended without
   * reaching the point.
   */
  async crashAt(point: string): Promise<boolean> {
    await this.feed()
    const child = this.start({ FAILPOINT: point })
    await this.#finish(child)
    await this.passTime()
    return child.signalCode === 'SIGKILL'
  }

  /** Lets one process after the other finish all work. No new work is added meanwhile. */
  async finishAll(): Promise<void> {
    await pauseJob(this.db.as('symphony_control'), JOB)
    do await this.#finish(this.start())
    while (await this.#retryHeldHeads())
  }

  /**
   * Approves a retry of ordered stream heads that three lease expiries have put on hold. Returns whether there were
   * any.
   */
  async #retryHeldHeads(): Promise<boolean> {
    const { rows } = await this.db.queryNoRole<{ outbox_id: string }>(
      `SELECT outbox_id FROM payment_outbox_pending WHERE ordered AND hold_reason = 'REPEATED_LEASE_EXPIRY'`,
    )
    const [first, second] = this.#people
    for (const { outbox_id: outboxId } of rows)
      await approve(second, await propose(first, outboxId, 'RETRY', 'it was not the payment that ended them'))
    return rows.length > 0
  }

  async #finish(child: ChildProcess): Promise<void> {
    const exited = once(child, 'exit')
    const hasEnded = async () => {
      if (child.exitCode !== null || child.signalCode !== null) return true
      await this.passTimeForRetries()
      return this.isDone()
    }
    // Polls less often than by default, because each poll writes to the queue that the process works on.
    await waitUntil('the process has exited or finished all work', hasEnded, { everyMs: 100 }).catch(
      async (cause: unknown) => {
        throw new Error(`unfinished work: ${JSON.stringify(await this.#left())}`, { cause })
      },
    )
    child.stdin?.end()
    await exited
    if (child.signalCode !== 'SIGKILL' && child.exitCode !== 0)
      throw new Error(`the process exited with ${child.exitCode}; see its output above`)
  }

  /** Shortens the backoff of retries, but not below the settle time of a rail. Live leases stay valid. */
  async passTimeForRetries(): Promise<void> {
    await this.db.queryNoRole(`
      UPDATE payment_outbox_pending SET next_attempt_at = clock_timestamp() + interval '400 milliseconds'
      WHERE lease_token IS NULL AND next_attempt_at > clock_timestamp() + interval '500 milliseconds';
      UPDATE inbox_messages SET due_at = clock_timestamp() WHERE state = 'seen' AND due_at > clock_timestamp()`)
  }

  /** Returns the effects of topic handlers as a rail book, which the ledger must match. */
  async #readBooked(): Promise<readonly RailEffect[]> {
    const { rows } = await this.db.queryNoRole<{ outbox_id: string; message_id: string }>(`
      SELECT i.outbox_id, e.message_id FROM shop.effects e
      JOIN payment_outbox_identities i ON i.instruction_id = e.message_id AND i.rail_type = 'booked'
      WHERE e.source = 'booked'`)
    return rows.map(({ outbox_id: reference, message_id: railReference }) => {
      return { reference, railReference, count: 1, repeats: 0, amount: null, currency: null, at: '' }
    })
  }

  async findDefects(): Promise<readonly string[]> {
    const effects = [...(await readRailEffects(this.#bookFile)), ...(await this.#readBooked())]
    const { invariants, notJudged } = await auditLedger(this.db, { effects, drained: true })
    const { rows } = await this.db.queryNoRole<{ what: string; found: string }>(`
      SELECT 'an effect of a message happened more than once' AS what, message_id AS found FROM shop.effects
        GROUP BY source, message_id HAVING count(*) > 1
      UNION ALL SELECT 'a message is done without its effect', m.message_id FROM inbox_messages m
        WHERE m.topic = 'effect' AND m.state = 'done'
          AND NOT EXISTS (SELECT FROM shop.effects e WHERE e.message_id = m.message_id AND e.source = m.source)
      UNION ALL SELECT 'a message died', message_id FROM inbox_messages WHERE topic = 'effect' AND state = 'dead'
      UNION ALL SELECT 'a token of the leader is smaller than one before it', token::text
        FROM (SELECT token, max(token) OVER (ORDER BY turn) AS highest FROM shop.led) l WHERE token < highest
      UNION ALL SELECT 'two leaders had the same token', token::text FROM shop.led GROUP BY token HAVING count(DISTINCT worker) > 1
      UNION ALL SELECT 'an occurrence of the job has two runs', scheduled_for::text FROM scheduler_job_runs
        GROUP BY job_name, scheduled_for HAVING count(*) > 1
      UNION ALL SELECT 'a timer is no message', t.timer_id::text FROM scheduler_timers t
        WHERE t.delivery = 'outbox'
          AND NOT EXISTS (SELECT FROM payment_outbox_identities i WHERE i.instruction_id = t.timer_id::text)`)
    return [
      ...notJudged.map((id) => `${id} was not checked`),
      ...invariants.filter(({ ok }) => !ok).map(({ id, found }) => `${id} is broken: ${found.slice(0, 3).join(', ')}`),
      ...rows.map(({ what, found }) => `${what}: ${found}`),
    ]
  }
}

const PAYABLE = { amount: '1.50', currency: 'EUR', destination: 'account-1' }
