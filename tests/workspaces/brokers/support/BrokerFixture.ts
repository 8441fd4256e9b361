import { fileURLToPath } from 'node:url'
import { onTestFinished, vi } from 'vitest'
import { enqueuePaymentOutboxBatch } from '../../../../libs/outbox/index.js'
import { spawnSymphony, type Running } from '../../../support/commandLine.js'
import { createTestDatabase, type TestDatabase } from '../../../support/database.js'
import { buildInstruction } from '../../../support/outboxItems.js'
import { PAYABLE } from '../../../support/railRequest.js'
import type { BrokerProcess } from './BrokerProcess.js'

/** Longer than the rails' `settleMs`: each question that comes too early is an attempt, and after twenty of them a payment is held. */
const HURRIED = { timeout: 90_000, interval: 1_500 }

/** A database with payments, and real workers that carry them to a broker. Gone when the test is. */
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

  /** `env` tells the rails, which are those of `tests/workspaces/brokers/rails/<railType>.mjs`, where their broker is. */
  static async set(railType: string, env: Readonly<Record<string, string>>): Promise<BrokerFixture> {
    const db = await createTestDatabase({ countBranches: false })
    onTestFinished(() => db.drop())
    const { url } = await db.createLogin('worker', { roles: ['symphony_executor', 'symphony_readonly'] })
    return new BrokerFixture(db, railType, env, url)
  }

  /** Their outbox ids. */
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

  /** Kills the broker while a worker brings it payments, and starts it again. Their outbox ids, when all have ended. */
  async killWhileFlowing(broker: BrokerProcess): Promise<string[]> {
    const worker = this.startWorker('only')
    const ids = await this.enqueue(400)
    await vi.waitUntil(async () => (await this.ended()) > 20, { interval: 5, timeout: 60_000 })
    await broker.kill()
    if ((await this.ended()) === ids.length) throw new Error('nothing flowed any more when the broker was killed')
    await broker.start()
    await this.untilEnded(ids.length)
    worker.child.kill('SIGTERM')
    const { exitCode } = await worker.ended
    if (exitCode !== 0) throw new Error(`the worker ended with ${exitCode}`)
    return ids
  }

  async untilEnded(count: number): Promise<void> {
    await vi.waitUntil(async () => (await this.#endedSoon()) === count, HURRIED)
  }

  /** How many have ended, after whatever waits for its next attempt was made due: what time would do, only sooner. */
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

  /** The rail's reference of each payment that was dispatched, by outbox id. */
  async dispatched(): Promise<Map<string, string>> {
    const rows = await this.#endings()
    return new Map(rows.filter(({ state }) => state === 'DISPATCHED').map((row) => [row.outbox_id, row.rail_reference]))
  }

  /** Every lease there is has ended: what time does to a worker that is gone. */
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
