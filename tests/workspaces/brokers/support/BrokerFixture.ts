import { fileURLToPath } from 'node:url'
import { onTestFinished, vi } from 'vitest'
import { enqueuePaymentOutboxBatch } from '../../../../libs/outbox/index.js'
import { spawnSymphony, type Running } from '../../../support/commandLine.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { buildInstruction } from '../../../support/outboxItems.js'
import { PAYABLE } from '../../../support/railRequest.js'
import type { BrokerProcess } from './BrokerProcess.js'

/**
 * Poll options with an interval longer than the rails' `settleMs`, because each poll makes waiting items due. A claim
 * before `settleMs` costs an attempt, and after 20 attempts the payment is held.
 */
const POLL_OPTIONS = { timeout: 90_000, interval: 1_500 }

/** Database with payments, and real workers that dispatch them to a broker. Removed when the test ends. */
export class BrokerFixture {
  readonly db: TestDatabase
  readonly #railType: string
  readonly #env: Readonly<Record<string, string>>
  readonly #loginUrl: string

  private constructor(db: TestDatabase, railType: string, env: Readonly<Record<string, string>>, loginUrl: string) {
    this.db = db
    this.#railType = railType
    this.#env = env
    this.#loginUrl = loginUrl
  }

  /** @param env address of the broker, for the rails of `tests/workspaces/brokers/rails/<railType>.mjs` */
  static async set(railType: string, env: Readonly<Record<string, string>>): Promise<BrokerFixture> {
    const db = await createTestDatabase({ countBranches: false })
    onTestFinished(() => db.drop())
    const { url } = await db.createLogin('worker', { roles: ['symphony_executor', 'symphony_readonly'] })
    return new BrokerFixture(db, railType, env, url)
  }

  /** Enqueues payments and returns their outbox ids. */
  async enqueue(count: number): Promise<string[]> {
    const instructions = Array.from({ length: count }, () =>
      buildInstruction({ railType: this.#railType, payload: PAYABLE }),
    )
    const items = await enqueuePaymentOutboxBatch(this.db.as('symphony_ingest'), instructions)
    return items.map(({ outboxId }) => outboxId)
  }

  startWorker(name: string, env: Readonly<Record<string, string>> = {}): Running {
    const rails = fileURLToPath(new URL(`../rails/${this.#railType}.mjs`, import.meta.url))
    const worker = spawnSymphony(['worker', '--rails', rails, '--no-http', '--lease-seconds', '5'], {
      DATABASE_URL: this.#loginUrl,
      SYMPHONY_SCHEMA: this.db.schema,
      OUTBOX_WORKER_ID: name,
      ...this.#env,
      ...env,
    })
    onTestFinished(async () => {
      worker.child.kill('SIGKILL')
      await worker.ended
    })
    return worker
  }

  /**
   * Kills a worker after 15 publishes, lets a second worker finish, and returns the outbox ids. `betweenWorkers` runs
   * after the kill.
   */
  async killWorkerWhileFlowing(betweenWorkers?: () => Promise<void>): Promise<string[]> {
    const ids = await this.enqueue(40)
    const { exitCode, stderr } = await this.startWorker('first', { KILLED_AFTER: '15' }).ended
    if (exitCode !== 'SIGKILL') throw new Error(`expected the worker to end with SIGKILL, got ${exitCode}: ${stderr}`)
    await betweenWorkers?.()
    await this.expireLeases()
    this.startWorker('second')
    await this.untilEnded(ids.length)
    return ids
  }

  /** Kills the broker while a worker publishes, restarts it, and returns the outbox ids once all are terminal. */
  async killWhileFlowing(broker: BrokerProcess): Promise<string[]> {
    const worker = this.startWorker('only')
    const ids = await this.enqueue(400)
    await vi.waitUntil(async () => (await this.ended()) > 20, { interval: 5, timeout: 60_000 })
    await broker.kill()
    if ((await this.ended()) === ids.length) throw new Error('every payment was terminal before the broker was killed')
    await broker.start()
    await this.untilEnded(ids.length)
    worker.child.kill('SIGTERM')
    const { exitCode } = await worker.ended
    if (exitCode !== 0) throw new Error(`the worker ended with ${exitCode}`)
    return ids
  }

  async untilEnded(count: number): Promise<void> {
    await vi.waitUntil(async () => (await this.#endedSoon()) === count, POLL_OPTIONS)
  }

  /** Makes waiting items due at once, then counts terminal items. */
  async #endedSoon(): Promise<number> {
    await this.db.queryNoRole(
      `UPDATE payment_outbox_pending SET next_attempt_at = clock_timestamp()
       WHERE lease_token IS NULL AND hold_reason IS NULL AND next_attempt_at > clock_timestamp()`,
    )
    return this.ended()
  }

  async ended(): Promise<number> {
    return (await this.#endings()).length
  }

  /** Returns the rail reference of each dispatched payment, by outbox id. */
  async dispatched(): Promise<Map<string, string>> {
    const rows = await this.#endings()
    return new Map(rows.filter(({ state }) => state === 'DISPATCHED').map((row) => [row.outbox_id, row.rail_reference]))
  }

  /** Expires all leases, as if a worker had died long ago. */
  async expireLeases(): Promise<void> {
    await this.db.queryNoRole(
      `UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() - interval '1 second'
       WHERE lease_token IS NOT NULL`,
    )
  }

  async #endings(): Promise<{ outbox_id: string; state: string; rail_reference: string }[]> {
    const { rows } = await this.db.queryNoRole<{ outbox_id: string; state: string; rail_reference: string }>(
      `SELECT outbox_id, state::text, rail_reference FROM payment_outbox_attempts WHERE state IN ('DISPATCHED', 'FAILED')`,
    )
    return rows
  }
}
