import { AppError, nearestSpelling } from '../core/index.js'
import type { Queryable } from '../db/index.js'
import { validatePayload, type LoadedRail } from '../rails/index.js'
import { enqueuePaymentOutboxBatch, undoOnError, type EnqueueCallOptions } from './db.js'
import type { EnqueuedItem, OutboxInstruction } from './types.js'

/** Rails of a process, by type: it refuses a payment that they are known to refuse. */
export type KnownRails = ReadonlyMap<string, LoadedRail>

/** A payment that its rail would refuse, or whose rail the process does not know. Nothing was enqueued. */
export class InvalidPayloadError extends AppError {
  /** Place of the fault: `payload`, or `instructions[3].railType`. */
  readonly argument: string

  constructor(argument: string, message: string, remedy: string) {
    super('INVALID_PAYLOAD', `${argument}: ${message}`, { remedy })
    this.argument = argument
  }
}

export interface InstructionEncryptor {
  encrypt(tx: Queryable, instructions: readonly OutboxInstruction[]): Promise<readonly OutboxInstruction[]>
}

export interface EnqueueChecks {
  /** Rails that check payloads before COMMIT, and whose types are the only known ones. @default no check */
  readonly rails?: KnownRails | undefined
  /** Encrypts the fields that a rail declares as encrypted, before anything leaves this process, and refuses what it forbids. */
  readonly protection?: InstructionEncryptor | undefined
}

/**
 * Enqueues a batch after its rails have checked it. A known instruction is answered from the record even if its rail would refuse
 * it today: a stricter schema must not push a client to a new key. So a faulty item is enqueued, and undone if it was new.
 */
export async function enqueueChecked(
  tx: Queryable,
  instructions: readonly OutboxInstruction[],
  { rails, protection }: EnqueueChecks,
  options: EnqueueCallOptions = {},
): Promise<EnqueuedItem[]> {
  const faults = rails === undefined || rails.size === 0 ? [] : await findFaults(instructions, rails)
  const send = async (role: Queryable) => {
    const stored = protection === undefined ? instructions : await protection.encrypt(role, instructions)
    return enqueuePaymentOutboxBatch(role, stored, options)
  }
  if (faults.every((fault) => fault === undefined)) return send(tx)
  return undoOnError(tx, async (inner) => {
    const items = await send(inner)
    const refusal = faults.find((fault, index) => fault !== undefined && items[index]?.created === true)
    if (refusal !== undefined) throw refusal
    return items
  })
}

async function findFaults(
  instructions: readonly OutboxInstruction[],
  rails: KnownRails,
): Promise<(InvalidPayloadError | undefined)[]> {
  const faults: (InvalidPayloadError | undefined)[] = []
  for (const [index, { railType, payload }] of instructions.entries()) {
    const at = (field: string) => (instructions.length === 1 ? field : `instructions[${index}].${field}`)
    const rail = rails.get(railType)
    if (rail === undefined) {
      const nearest = nearestSpelling(railType, rails.keys())
      const meant = nearest === undefined ? '' : `; did you mean ${nearest}?`
      faults.push(
        new InvalidPayloadError(at('railType'), `unknown rail${meant}`, `Use one of: ${[...rails.keys()].join(', ')}`),
      )
      continue
    }
    const check = await validatePayload(rail, payload)
    // A check that failed itself says nothing about the payload; the worker checks again.
    faults.push(
      check.ok || check.retryable
        ? undefined
        : new InvalidPayloadError(
            at('payload'),
            `${check.message} (${check.code})`,
            'Correct the payload and send it again.',
          ),
    )
  }
  return faults
}
