import type { Queryable } from '../../libs/db/index.js'
import type { TestDatabase } from '../support/database.js'
import { CEILING } from './outboxRules.js'
import { OutboxSequence, type OutboxConnections } from './OutboxSequence.js'
import type { OutboxStep } from './outboxSteps.js'
import { PreparedConnection } from './PreparedConnection.js'

/**
 * Runs sequences of steps on a database, each with its own participants, rails and instructions. Every answer, and the
 * queue after every step, is compared with the model.
 */
export class OutboxRunner {
  readonly #connections: OutboxConnections
  #sequences = 0

  private constructor(connections: OutboxConnections) {
    this.#connections = connections
  }

  /** @param db database that no other test uses: the retry ceiling is lowered, and each sequence empties the queue */
  static async open(db: TestDatabase): Promise<OutboxRunner> {
    await db.queryNoRole(`CREATE OR REPLACE FUNCTION outbox_attempt_ceiling() RETURNS integer
      LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN ${CEILING}`)
    const as = async (role?: string): Promise<Queryable> => PreparedConnection.open(await db.connect(role), db.schema)
    const person = async (name: string): Promise<Queryable> => {
      const login = await db.createLogin(name, { roles: ['symphony_control'] })
      const client = await login.connect()
      await client.query('SET ROLE symphony_control')
      return PreparedConnection.open(client, db.schema)
    }
    return new OutboxRunner({
      ingest: await as('symphony_ingest'),
      executor: await as('symphony_executor'),
      people: [await person('olga'), await person('pavel')],
      superuser: await as(),
    })
  }

  readonly run = async (steps: readonly OutboxStep[]): Promise<void> => {
    const sequence = new OutboxSequence(this.#connections, ++this.#sequences)
    try {
      await sequence.run(steps)
    } finally {
      // Claims and repairs read the whole queue, so the next sequence needs it empty.
      await this.#connections.superuser.query('DELETE FROM payment_outbox_pending')
      await this.#connections.superuser.query('DELETE FROM outbox_pauses')
      await this.#connections.superuser.query('DELETE FROM dispatch_epochs')
    }
  }
}
