import type { RoleHandle } from '../../libs/db/index.js'
import { cancelOutboxInstruction, enqueuePaymentOutboxBatch, type EnqueuedItem } from '../../libs/outbox/index.js'
import { isInterrupted, isRefused } from './interrupted.js'
import type { Order } from './orders.js'
import type { RelayScenario } from './RelayScenario.js'
import { retryUntilSuccess } from './waitUntil.js'

/**
 * Tables of the application. `orders_outcomes` has no unique index, so that a handler that commits twice leaves two
 * rows.
 */
const TABLES = `
  CREATE SCHEMA shop;
  CREATE TABLE shop.orders (
    instruction_id text PRIMARY KEY, amount numeric NOT NULL, state text NOT NULL DEFAULT 'RESERVED',
    outcome_no integer NOT NULL DEFAULT 0, is_cancelled boolean NOT NULL DEFAULT false);
  CREATE TABLE shop.orders_outcomes (
    instruction_id text NOT NULL, outcome_no integer NOT NULL, outbox_id uuid NOT NULL, state text NOT NULL,
    is_final boolean NOT NULL);
  CREATE INDEX ON shop.orders_outcomes (instruction_id);`

/**
 * Application that reserves money for orders, enqueues their payments and cancels some, each in its own transaction.
 */
export class OrderShop {
  /** Name of the application in the ledger: its login. */
  readonly name: string
  readonly #role: RoleHandle
  cancelled = 0
  /** Cancellations that the database refused, because a call may have paid the order. */
  refused = 0
  rolledBack = 0

  private constructor(name: string, role: RoleHandle) {
    this.name = name
    this.#role = role
  }

  static async create({ db, workerUrl }: RelayScenario): Promise<OrderShop> {
    const { name, database } = await db.createLogin('shop', { roles: ['symphony_ingest'], inherit: true })
    // Handlers run with the rights of the worker's login.
    const handlers = `"${new URL(workerUrl).username}"`
    await db.queryNoRole(`${TABLES}
      GRANT USAGE ON SCHEMA shop TO "${name}", ${handlers};
      GRANT SELECT, INSERT, UPDATE ON shop.orders TO "${name}", ${handlers};
      GRANT SELECT, INSERT, UPDATE ON shop.orders_outcomes TO ${handlers}`)
    return new OrderShop(name, database.as(name))
  }

  /** Reserves the money and enqueues the payments. Repeats the transaction until it succeeds. */
  enqueue(orders: readonly Order[]): Promise<EnqueuedItem[]> {
    const payments = orders.map(({ payment }) => payment)
    return retryUntilSuccess('a transaction of the application', () =>
      this.#role.transaction(async (tx) => {
        await tx.query(
          `INSERT INTO shop.orders (instruction_id, amount) SELECT * FROM unnest($1::text[], $2::numeric[])
           ON CONFLICT DO NOTHING`,
          [payments.map(({ instructionId }) => instructionId), payments.map(({ payload }) => payload['amount'])],
        )
        return enqueuePaymentOutboxBatch(tx, payments)
      }),
    )
  }

  /** Cancels an order together with its payment. Does not repeat the cancellation if the server is down. */
  async cancel(instructionId: string, { commits }: { readonly commits: boolean }): Promise<void> {
    try {
      await this.#role.transaction(async (tx) => {
        await tx.query('UPDATE shop.orders SET is_cancelled = true WHERE instruction_id = $1', [instructionId])
        await cancelOutboxInstruction(tx, instructionId, instructionId, 'the customer cancelled')
        if (!commits) throw new RolledBackError()
      })
      this.cancelled += 1
    } catch (error) {
      if (error instanceof RolledBackError) this.rolledBack += 1
      else if (isRefused(error)) this.refused += 1
      else if (!isInterrupted(error)) throw error
    }
  }
}

class RolledBackError extends Error {}
