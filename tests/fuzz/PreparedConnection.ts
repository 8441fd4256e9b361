import type { Client } from 'pg'
import type { Queryable, Rows } from '../../libs/db/index.js'

/** A connection that prepares each statement once, because a fuzz repeats the same few calls thousands of times. */
export class PreparedConnection implements Queryable {
  readonly schema: string
  readonly #client: Client
  readonly #names = new Map<string, string>()

  private constructor(client: Client, schema: string) {
    this.#client = client
    this.schema = schema
  }

  static async open(client: Client, schema: string): Promise<PreparedConnection> {
    // The data is thrown away, so commits need not wait for the disk.
    await client.query('SET synchronous_commit = off')
    return new PreparedConnection(client, schema)
  }

  async query<R>(text: string, values: readonly unknown[] = []): Promise<Rows<R>> {
    const name = this.#names.get(text) ?? `fuzz_${this.#names.size}`
    this.#names.set(text, name)
    try {
      return await this.#client.query<never>({ name, text, values: [...values] })
    } catch (error) {
      // PostgreSQL sends an error before it rolls back and releases its row locks. SKIP LOCKED on another connection
      // would skip these rows. The answer to this query comes after the rollback.
      await this.#client.query('SELECT')
      throw error
    }
  }
}
