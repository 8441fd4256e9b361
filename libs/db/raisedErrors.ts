import { DatabaseError, type DatabaseErrorFields } from './errors.js'

/**
 * What our own SQL functions raise, one class per SQLSTATE. `sqlstates.ts` says which belongs to which. None is worth
 * a retry: each says that the question was answered, and the answer is no.
 */
export type RaisedFields = Omit<DatabaseErrorFields, 'disposition'>

class RaisedError extends DatabaseError {
  constructor(code: string, message: string, fields: RaisedFields) {
    super(code, message, { ...fields, disposition: 'fatal' })
  }
}

/** UPDATE, DELETE or TRUNCATE of a table that only grows. */
export class AppendOnlyError extends RaisedError {}

/** An operator's action on an item whose end is already recorded. */
export class AlreadyTerminalError extends RaisedError {}

/** What this very lease had already recorded when it was found lost. */
export interface RecordedOutcome {
  readonly attemptNo: number
  readonly state: string
}

/**
 * Completion, renewal or release without a live lease. If `recorded` is there, this very token had recorded that
 * outcome before: the answer to a COMMIT was lost, not the lease, and there is nothing left to do.
 */
export class LeaseLostError extends RaisedError {
  readonly recorded: RecordedOutcome | undefined

  constructor(code: string, message: string, fields: RaisedFields) {
    super(code, message, fields)
    this.recorded = parseRecorded(fields.detail)
  }
}

/** A completion with a state that is no outcome. */
export class InvalidCompletionStateError extends RaisedError {}

/** The same key came again with other content. */
export class IdempotencyConflictError extends RaisedError {}

/** A known idempotency key of the same HTTP caller came with another instruction. Nothing of the call was enqueued. */
export class KeyReusedError extends RaisedError {
  /** Instruction that the key names. */
  readonly firstInstructionId: string | undefined

  constructor(code: string, message: string, fields: RaisedFields) {
    super(code, message, fields)
    const { instruction_id: firstInstructionId } = parseDetail(fields.detail)
    this.firstInstructionId = typeof firstInstructionId === 'string' ? firstInstructionId : undefined
  }
}

/** An operator's decision that the state of the item forbids. */
export class HeldError extends RaisedError {}

/** An operator's decision that lacks its second person. */
export class ApprovalRequiredError extends RaisedError {}

/** A gateway showed no valid API key for the person who acts, and may not name people without one. */
export class ActorUnverifiedError extends RaisedError {}

/** A path tried to schedule an attempt beyond the ceiling. */
export class RetryCeilingError extends RaisedError {}

/** Dispatch is frozen, or the server has changed since this worker last looked at it: nothing may be sent. */
export class DispatchFrozenError extends RaisedError {}

/** What became of an inbox message forbids this step: it is done, dead, or moved by claims and not by marks. */
export class InboxTransitionError extends RaisedError {}

/** No message of this source and id came in, or it is not remembered any more. */
export class InboxUnknownError extends RaisedError {}

/** A job that nobody has defined, or that was deleted. */
export class UnknownJobError extends RaisedError {}

/** A null, blank, zero, negative or oversized argument of a function. */
export class InvalidParameterError extends RaisedError {}

interface RaisedDetail {
  readonly recorded?: unknown
  readonly attempt_no?: unknown
  readonly state?: unknown
  readonly instruction_id?: unknown
}

/** Parses the JSON that our SQL writes into DETAIL. Anything else in its place counts as no detail. */
function parseDetail(detail: string | undefined): RaisedDetail {
  try {
    const parsed: unknown = JSON.parse(detail ?? '')
    return typeof parsed === 'object' && parsed !== null ? parsed : {}
  } catch {
    return {}
  }
}

function parseRecorded(detail: string | undefined): RecordedOutcome | undefined {
  const { recorded, attempt_no: attemptNo, state } = parseDetail(detail)
  if (recorded !== true || typeof attemptNo !== 'number' || typeof state !== 'string') return undefined
  return { attemptNo, state }
}
