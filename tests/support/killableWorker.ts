import { once } from 'node:events'
import type { ChildProcess } from 'node:child_process'
import { spawnSymphony, type Running } from './commandLine.js'
import type { TestDatabase } from './database.js'

export interface KillableWorkerOptions {
  /** URL of a login that may act as executor. */
  readonly url: string
  readonly workerId: string
  readonly railsFile: string
  /** Further arguments of the command. */
  readonly words?: readonly string[]
}

/** A real `symphony worker` that a test can kill. */
export class KillableWorker {
  readonly workerId: string
  readonly #db: TestDatabase
  readonly #running: Running

  constructor(db: TestDatabase, { url, workerId, railsFile, words = [] }: KillableWorkerOptions) {
    this.workerId = workerId
    this.#db = db
    this.#running = spawnSymphony(['worker', '--rails', railsFile, '--worker-id', workerId, '--no-http', ...words], {
      DATABASE_URL: url,
      SYMPHONY_SCHEMA: db.schema,
    })
  }

  get child(): ChildProcess {
    return this.#running.child
  }

  /** Resolves when the worker prints that it serves its rails. */
  async atWork(): Promise<void> {
    const { stdout, ended, child } = this.#running
    while (!stdout().includes(`Worker ${this.workerId} serves`)) {
      if (child.stdout === null) throw new Error(`${this.workerId} has no output`)
      const output = await Promise.race([once(child.stdout, 'data'), ended])
      if ('stderr' in output) throw new Error(`${this.workerId} ended before it was at work: ${output.stderr}`)
    }
  }

  /** Kills the worker with SIGKILL and waits for its exit. */
  async kill(): Promise<void> {
    const { child } = this
    if (child.exitCode !== null || child.signalCode !== null) {
      throw new Error(`${this.workerId} had ended before it was killed: ${this.#running.stderr()}`)
    }
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  }

  /** Expires the worker's leases. Returns their number. */
  async outlive(): Promise<number> {
    const { rows } = await this.#db.queryNoRole(
      `UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() - interval '1 second'
       WHERE claimed_by = $1 RETURNING outbox_id`,
      [this.workerId],
    )
    return rows.length
  }

  /** Stops the worker cleanly. */
  async stop(): Promise<void> {
    this.child.kill('SIGTERM')
    const { exitCode, stderr } = await this.#running.ended
    if (exitCode !== 0) throw new Error(`${this.workerId} ended with ${exitCode}: ${stderr}`)
  }
}
