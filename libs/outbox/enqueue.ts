import { BATCH_SIZE, InvalidArgumentError } from '../core/index.js'
import { withSchema, type Queryable } from '../db/index.js'
import { enqueuePaymentOutbox, enqueuePaymentOutboxBatch } from './db.js'
import { onlyRow } from './rows.js'
import type { EnqueuedItem, OutboxInstruction } from './types.js'

export interface EnqueueOptions {
  /**
   * The caller's own transaction: anything that can run a parameterised query, such as a `pg` client between BEGIN and COMMIT. What
   * is enqueued is committed or rolled back with it.
   */
  readonly tx: Queryable
  /** Where Symphony is deployed. @default `symphony`, or what `tx` says itself */
  readonly schema?: string
  /** Encrypts the fields that a rail declares as encrypted, before anything leaves this process, and refuses what it forbids. */
  readonly protection?: InstructionSealer
}

/** What stands between a producer and the database: `FieldVault` of the room protection. */
export interface InstructionSealer {
  seal(tx: Queryable, instructions: readonly OutboxInstruction[]): Promise<readonly OutboxInstruction[]>
}

/**
 * Enqueues one payment inside the caller's transaction. The same instruction and key again returns the first item with
 * `created: false`; other content under that key throws `IdempotencyConflictError`. Call it last: the participant's sequence is
 * locked until the transaction ends.
 */
export async function enqueue(instruction: OutboxInstruction, options: EnqueueOptions): Promise<EnqueuedItem> {
  const tx = transactionOf(options)
  return enqueuePaymentOutbox(tx, onlyRow(await sealed(tx, [instruction], options)))
}

/** The same for many, in statements of up to 1000; answers come in the order given. One that is refused refuses all. */
export async function enqueueMany(
  instructions: readonly OutboxInstruction[],
  options: EnqueueOptions,
): Promise<EnqueuedItem[]> {
  const tx = transactionOf(options)
  const items: EnqueuedItem[] = []
  for (let start = 0; start < instructions.length; start += BATCH_SIZE.max) {
    const batch = instructions.slice(start, start + BATCH_SIZE.max)
    items.push(...(await enqueuePaymentOutboxBatch(tx, await sealed(tx, batch, options))))
  }
  return items
}

/** The same for a message: only the message verbs and rails without money get it. */
export async function enqueueMessage(message: OutboxInstruction, options: EnqueueOptions): Promise<EnqueuedItem> {
  return onlyRow(await enqueuePaymentOutboxBatch(transactionOf(options), [message], { isMessage: true }))
}

async function sealed(
  tx: Queryable,
  instructions: readonly OutboxInstruction[],
  { protection }: EnqueueOptions,
): Promise<readonly OutboxInstruction[]> {
  return protection === undefined ? instructions : protection.seal(tx, instructions)
}

function transactionOf({ tx, schema }: EnqueueOptions): Queryable {
  if (typeof tx?.query !== 'function') {
    throw new InvalidArgumentError('tx', 'expected a client or transaction with a query(text, values) method')
  }
  return schema === undefined ? tx : withSchema(tx, schema)
}
