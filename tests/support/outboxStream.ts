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

/** A participant with a rail of its own, so that what a claim returns is this stream and nothing else. */
export class Stream {
  readonly participantId = `participant-${randomUUID()}`
  readonly railType = `rail-${randomUUID()}`
  readonly #db: TestDatabase

  constructor(db: TestDatabase) {
    this.#db = db
  }

  /** Queues the next item and returns its id. */
  async enqueue(ordered = true): Promise<string> {
    return (await enqueue(this.#db, this.#next(ordered))).outboxId
  }

  /** The same in the transaction of a connection. */
  async enqueueOn(connection: Connection, ordered = true): Promise<string> {
    return (await enqueuePaymentOutbox(connection, buildInstruction(this.#next(ordered)))).outboxId
  }

  #next(ordered: boolean) {
    return { participantId: this.participantId, railType: this.railType, ordered }
  }

  /** What a worker gets now. */
  async claimed(): Promise<string[]> {
    return (await claim(this.#db, this.railType)).map((item) => item.outboxId)
  }

  claimOnly(): Promise<ClaimedItem> {
    return claimOnly(this.#db, this.railType)
  }

  /** Ends what can be claimed, and whatever comes after it; the ids in the order in which they came. */
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

/** A connection in an open transaction, to step by hand. `closeTransactions` after the test closes it. */
export async function openTransaction(db: TestDatabase, role?: string): Promise<Connection> {
  const connection = await openConnection(db, role)
  transactions.push(connection)
  await connection.query('BEGIN')
  // Who waits for ever in what follows fails instead.
  await connection.query(`SET LOCAL lock_timeout = '20s'`)
  return connection
}

/** For `afterEach`: the server has only so many connections. */
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
