import { BATCH_SIZE, type InvalidPayloadError } from '../core/index.js'
import { onlyRow, requireTransaction, undoOnError, withSchema, type Queryable, type Tx } from '../db/index.js'
import { findRefusal, type KnownContracts } from '../rails/index.js'
import { enqueuePaymentOutboxBatch, type EnqueueCallOptions } from './db.js'
import { proposePaymentOutbox, type ProposedInstruction, type ProposedItem } from './propose.js'
import type { EnqueuedItem, OutboxInstruction } from './types.js'

export interface EnqueueOptions extends EnqueueChecks {
  /**
   * Transaction of the caller: a `pg` client between BEGIN and COMMIT, or another library's transaction through an
   * adapter. The payment is committed or rolled back with it. `enqueue` refuses a `tx` that is known not to be a
   * transaction.
   */
  readonly tx: Tx
  /** Schema in which Symphony is deployed. @default the schema of `tx` if it has one, else `symphony` */
  readonly schema?: string
}

/**
 * Enqueues one payment inside the caller's transaction. The same instruction and key return the first item with
 * `created: false`; different content under that key throws `IdempotencyConflictError`. With `rails`, a new payment
 * that its rail refuses throws `InvalidPayloadError`. Call `enqueue` last: it locks the participant's sequence until
 * the transaction ends.
 */
export async function enqueue(instruction: OutboxInstruction, options: EnqueueOptions): Promise<EnqueuedItem> {
  return onlyRow(await enqueueChecked(transactionOf(options), [instruction], options))
}

/**
 * Enqueues many payments, in statements of up to 1000: all of them, or none if one is refused. Returns results in the
 * order given. The index in an error counts from the start of its statement.
 */
export async function enqueueMany(
  instructions: readonly OutboxInstruction[],
  options: EnqueueOptions,
): Promise<EnqueuedItem[]> {
  const tx = transactionOf(options)
  const send = async (role: Queryable) => {
    const items: EnqueuedItem[] = []
    for (let start = 0; start < instructions.length; start += BATCH_SIZE.max) {
      const batch = instructions.slice(start, start + BATCH_SIZE.max)
      items.push(...(await enqueueChecked(role, batch, options)))
    }
    return items
  }
  return instructions.length <= BATCH_SIZE.max ? send(tx) : undoOnError(tx, send)
}

/** Enqueues a message. Only `OutboxStore` and relayers with its topic claim it. */
export async function enqueueMessage(message: OutboxInstruction, options: EnqueueOptions): Promise<EnqueuedItem> {
  return onlyRow(await enqueuePaymentOutboxBatch(transactionOf(options), [message], { isMessage: true }))
}

function transactionOf({ tx, schema }: EnqueueOptions): Queryable {
  requireTransaction(tx)
  return schema === undefined ? tx : withSchema(tx, schema)
}

export interface InstructionEncryptor {
  /** Returns a promise only if there is a field to encrypt. */
  encrypt(
    tx: Queryable,
    instructions: readonly OutboxInstruction[],
  ): readonly OutboxInstruction[] | Promise<readonly OutboxInstruction[]>
}

export interface EnqueueChecks {
  /** Rails that check payloads before COMMIT. Other rail types are refused. @default no check */
  readonly rails?: KnownContracts | undefined
  /**
   * Encrypts, before anything leaves this process, the fields that a rail declares as encrypted. Refuses forbidden
   * fields.
   */
  readonly protection?: InstructionEncryptor | undefined
}

/**
 * Enqueues a batch after its rails have checked it. A repeated instruction returns the stored item even if its rail
 * would refuse it today. Otherwise a client might repeat the payment under a new key after the schema became stricter.
 * So the function enqueues an invalid item too. If that item was new, the function rolls back and throws the refusal.
 */
export function enqueueChecked(
  tx: Queryable,
  instructions: readonly OutboxInstruction[],
  checks: EnqueueChecks,
  options: EnqueueCallOptions = {},
): Promise<EnqueuedItem[]> {
  return sendChecked(tx, instructions, checks, (role, stored) => enqueuePaymentOutboxBatch(role, stored, options))
}

/** Enqueues a payment after its rail has checked it. The payment is held until a second person approves it. */
export async function proposeChecked(
  tx: Queryable,
  instruction: ProposedInstruction,
  reason: string,
  checks: EnqueueChecks,
  options: Pick<EnqueueCallOptions, 'keyScope'> = {},
): Promise<ProposedItem> {
  const propose = async (role: Queryable, [stored = instruction]: readonly OutboxInstruction[]) => [
    await proposePaymentOutbox(role, stored, reason, options),
  ]
  return onlyRow(await sendChecked(tx, [instruction], checks, propose))
}

/**
 * Checks and sends. Sends before any await, unless a check is asynchronous or a field is encrypted. Otherwise a caller
 * that forgets to await enqueue() would send COMMIT or ROLLBACK first, and the payment would be committed alone.
 */
async function sendChecked<Item extends EnqueuedItem>(
  tx: Queryable,
  instructions: readonly OutboxInstruction[],
  { rails, protection }: EnqueueChecks,
  enqueueStored: (role: Queryable, stored: readonly OutboxInstruction[]) => Promise<Item[]>,
): Promise<Item[]> {
  const finding = rails === undefined || rails.size === 0 ? [] : findFaults(instructions, rails)
  const faults = finding instanceof Promise ? await finding : finding
  const send = async (role: Queryable) => {
    const encrypting = protection?.encrypt(role, instructions) ?? instructions
    const stored = encrypting instanceof Promise ? await encrypting : encrypting
    // The transaction of a caller that did not await may have ended meanwhile.
    requireTransaction(role)
    return enqueueStored(role, stored)
  }
  if (faults.every((fault) => fault === undefined)) return send(tx)
  return undoOnError(tx, async (inner) => {
    const items = await send(inner)
    const refusal = faults.find((fault, index) => fault !== undefined && items[index]?.created === true)
    if (refusal !== undefined) throw refusal
    return items
  })
}

function isKnown<Fault>(fault: Fault | Promise<Fault>): fault is Fault {
  return !(fault instanceof Promise)
}

type Faults = (InvalidPayloadError | undefined)[]

function findFaults(instructions: readonly OutboxInstruction[], rails: KnownContracts): Faults | Promise<Faults> {
  const found = instructions.map(({ railType, payload }, index) => {
    const place = (field: string) => (instructions.length === 1 ? field : `instructions[${index}].${field}`)
    return findRefusal(rails, 'rail', railType, payload, place)
  })
  return found.every(isKnown) ? found : Promise.all(found.map(async (fault) => fault))
}
