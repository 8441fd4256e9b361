import type { Client } from 'pg'
import type { Queryable, Rows } from '../../libs/db/index.js'

/** One connection, each statement prepared once: a fuzz makes the same few calls many thousand times. */
export class PreparedConnection implements Queryable {
  readonly schema: string
  readonly #client: Client
  readonly #names = new Map<string, string>()

  private constructor(client: Client, schema: string) {
    this.#client = client
    this.schema = schema
  }

  static async open(client: Client, schema: string): Promise<PreparedConnection> {
    // Nothing here outlives the test, so nobody need wait for the disk.
    await client.query('SET synchronous_commit = off')
    return new PreparedConnection(client, schema)
  }

  async query<R>(text: string, values: readonly unknown[] = []): Promise<Rows<R>> {
    const name = this.#names.get(text) ?? `fuzz_${this.#names.size}`
    this.#names.set(text, name)
    try {
      return await this.#client.query<never>({ name, text, values: [...values] })
    } catch (error) {
      // PostgreSQL tells of an error before it undoes the transaction. Until then its row locks stand, and whoever skips
      // locked rows on another connection would skip these. The next answer of this connection comes after all that.
      await this.#client.query('SELECT')
      throw error
    }
  }
}
