import { randomUUID } from 'node:crypto'
import {
  completeOutboxAttempt,
  enqueuePaymentOutbox,
  type ClaimedItem,
  type CompletionState,
  type RecordedAttempt,
} from '../../libs/outbox/index.js'
import type { TestDatabase } from './database.js'
import { buildInstruction, claim, claimOnly, complete, enqueue, WORKER } from './outboxItems.js'
import { openConnection, type Connection } from './race.js'

/** A participant with its own rail, so that a claim returns only items of this stream. */
export class Stream {
  readonly participantId = `participant-${randomUUID()}`
  readonly railType = `rail-${randomUUID()}`
  readonly #db: TestDatabase

  constructor(db: TestDatabase) {
    this.#db = db
  }

  /** Enqueues the next item and returns its id. */
  async enqueue(ordered = true): Promise<string> {
    return (await enqueue(this.#db, this.#next(ordered))).outboxId
  }

  /** Enqueues in the transaction of a connection. */
  async enqueueOn(connection: Connection, ordered = true): Promise<string> {
    return (await enqueuePaymentOutbox(connection, buildInstruction(this.#next(ordered)))).outboxId
  }

  #next(ordered: boolean) {
    return { participantId: this.participantId, railType: this.railType, ordered }
  }

  /** Claims due items and returns their ids. */
  async claimed(): Promise<string[]> {
    return (await claim(this.#db, this.railType)).map((item) => item.outboxId)
  }

  claimOnly(): Promise<ClaimedItem> {
    return claimOnly(this.#db, this.railType)
  }

  /** Completes items until none is due. Returns their ids in order. */
  async drain(): Promise<string[]> {
    const order: string[] = []
    for (;;) {
      const items = await claim(this.#db, this.railType)
      if (items.length === 0) return order
      if (items.filter((item) => item.ordered).length > 1) throw new Error('two ordered items of one stream at once')
      for (const item of items) {
        order.push(item.outboxId)
        await complete(this.#db, item, { state: 'DISPATCHED' })
      }
    }
  }
}

const transactions: Connection[] = []

/** Opens a transaction on a new connection. `closeTransactions` closes it after the test. */
export async function openTransaction(db: TestDatabase, role?: string): Promise<Connection> {
  const connection = await openConnection(db, role)
  transactions.push(connection)
  await connection.query('BEGIN')
  // A wait for a lock fails instead of blocking for ever.
  await connection.query(`SET LOCAL lock_timeout = '20s'`)
  return connection
}

/** Closes the connections in `afterEach`, because the server limits their number. */
export async function closeTransactions(): Promise<void> {
  await Promise.all(transactions.splice(0).map((connection) => connection.close()))
}

export function completeOn(
  connection: Connection,
  { outboxId, leaseToken }: ClaimedItem,
  state: CompletionState = 'DISPATCHED',
): Promise<RecordedAttempt> {
  return completeOutboxAttempt(connection, WORKER, { outboxId, leaseToken, state })
}
