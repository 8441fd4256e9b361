import { SymphonyError, type ErrorCode } from '../core/index.js'

/**
 * Conclusion that a caller may draw from a failure.
 *
 * - `retry`: nothing happened, and another attempt may succeed.
 * - `unknown`: the work may have been committed; check before you repeat it.
 * - `fatal`: nothing happened, and the same attempt would fail again.
 */
export type Disposition = 'retry' | 'unknown' | 'fatal'

/**
 * Progress of the work when it failed. Before COMMIT is sent (`uncommitted`), a lost connection leaves no effect. After
 * COMMIT is sent (`committing`), a lost connection leaves the outcome unknown. A statement that commits by itself is
 * `committing` from its start.
 */
export type Phase = 'connecting' | 'uncommitted' | 'committing'

export interface FailureContext {
  readonly phase: Phase
  /**
   * Whether the connection worked after the failure. If not, the error may not be the answer to the statement.
   *
   * @default true
   */
  readonly sessionSurvived?: boolean
  /** Destination of the connection, for the message. */
  readonly destination?: string
  /** Remedy of a failed connection. @default a remedy that says to start the server or to correct DATABASE_URL */
  readonly remedy?: string
}

export interface DatabaseErrorFields {
  readonly disposition: Disposition
  readonly sqlstate?: string | undefined
  readonly detail?: string | undefined
  readonly hint?: string | undefined
  readonly table?: string | undefined
  readonly column?: string | undefined
  readonly constraint?: string | undefined
  readonly remedy?: string | undefined
  readonly cause?: unknown
}

/**
 * Failure of the database or of its connection. It never holds a parameter of the statement: `redactDriverError`
 * removes parameters that PostgreSQL quotes.
 */
export class DatabaseError extends SymphonyError {
  readonly disposition: Disposition
  /** SQLSTATE, if the server answered. */
  readonly sqlstate: string | undefined
  readonly detail: string | undefined
  readonly hint: string | undefined
  readonly table: string | undefined
  readonly column: string | undefined
  readonly constraint: string | undefined

  constructor(code: ErrorCode, message: string, fields: DatabaseErrorFields) {
    super(code, message, {
      ...(fields.cause === undefined ? {} : { cause: fields.cause }),
      ...(fields.remedy === undefined ? {} : { remedy: fields.remedy }),
    })
    this.disposition = fields.disposition
    this.sqlstate = fields.sqlstate
    this.detail = fields.detail
    this.hint = fields.hint
    this.table = fields.table
    this.column = fields.column
    this.constraint = fields.constraint
  }
}

/** The login cannot act as the role that the work needs, or SET ROLE did not take effect. */
export class RoleError extends DatabaseError {
  readonly role: string

  constructor(role: string, message: string, fields: Omit<DatabaseErrorFields, 'disposition'>) {
    super('ROLE_UNAVAILABLE', message, { ...fields, disposition: 'fatal' })
    this.role = role
  }
}

/** The connection is not secure: no TLS, or a certificate that is not trusted. */
export class TlsError extends DatabaseError {
  constructor(message: string, fields: Omit<DatabaseErrorFields, 'disposition'> = {}) {
    super('TLS_REFUSED', message, { ...fields, disposition: 'fatal' })
  }
}

/** A pooler shares server sessions between clients, and this call needs its own session. */
export class TransactionPoolerError extends DatabaseError {
  constructor(message: string, remedy: string, cause?: unknown) {
    super('TRANSACTION_POOLER', message, { disposition: 'fatal', remedy, cause })
  }
}

/** A transaction was started inside another one of the same database. */
export class NestedTransactionError extends DatabaseError {
  constructor() {
    super('NESTED_TRANSACTION', 'a transaction is already open: an inner one would commit separately', {
      disposition: 'fatal',
      remedy: 'pass the handle of the open transaction down and query through it',
    })
  }
}

/** The handle of a transaction was used after the end of its callback. */
export class TransactionClosedError extends DatabaseError {
  constructor() {
    super('TRANSACTION_CLOSED', 'this transaction has ended, and its handle with it', {
      disposition: 'fatal',
      remedy: 'await every query inside the callback, and do not keep the handle',
    })
  }
}

/** The handle of a transaction was used while its `asRole` callback runs. */
export class TransactionBusyError extends DatabaseError {
  constructor() {
    super(
      'TRANSACTION_BUSY',
      'a callback of asRole runs in another role, so the handle of this transaction is blocked until its end',
      {
        disposition: 'fatal',
        remedy: 'query through the handle of the asRole callback, and await asRole before the next query',
      },
    )
  }
}

/**
 * The callback returned normally, but nothing was committed: a statement had failed, and the callback caught its error.
 * PostgreSQL answers such a COMMIT with ROLLBACK and no error. `cause` is the caught error.
 */
export class TransactionAbortedError extends DatabaseError {
  constructor(message: string, swallowed: DatabaseError | undefined) {
    super('TRANSACTION_ABORTED', message, { disposition: swallowed?.disposition ?? 'fatal', cause: swallowed })
  }
}

/** A prepared statement is no longer valid. Nothing was executed. The next attempt prepares it again. */
export class StaleStatementError extends DatabaseError {
  constructor(message: string, fields: Omit<DatabaseErrorFields, 'disposition'>) {
    super('STALE_STATEMENT', message, { ...fields, disposition: 'retry' })
  }
}

export class DatabaseClosedError extends DatabaseError {
  constructor() {
    super('DATABASE_CLOSED', 'this database was closed', { disposition: 'fatal' })
  }
}

/** Outcome that an earlier call with the same lease token recorded. */
export interface RecordedOutcome {
  readonly attemptNo: number
  readonly state: string
}

/**
 * Completion, renewal or release without a live lease. With `recorded`, an earlier call with this token recorded that
 * outcome, and only its answer was lost. Then nothing remains to do.
 */
export class LeaseLostError extends DatabaseError {
  readonly recorded: RecordedOutcome | undefined

  constructor(code: ErrorCode, message: string, fields: DatabaseErrorFields) {
    super(code, message, fields)
    this.recorded = parseRecorded(fields.detail)
  }
}

/** An idempotency key was repeated with different content. */
export class IdempotencyConflictError extends DatabaseError {}

/**
 * An idempotency key of the same HTTP caller was repeated with another instruction. Nothing of the call was enqueued.
 */
export class KeyReusedError extends DatabaseError {
  /** Instruction that the key belongs to. */
  readonly firstInstructionId: string | undefined

  constructor(code: ErrorCode, message: string, fields: DatabaseErrorFields) {
    super(code, message, fields)
    const { instruction_id: firstInstructionId } = parseDetail(fields.detail)
    this.firstInstructionId = typeof firstInstructionId === 'string' ? firstInstructionId : undefined
  }
}

/** Reason why a payment cannot be cancelled. `CANCELLED`: an earlier call has cancelled it. */
type NotCancellableReason =
  | 'LEASED'
  | 'OUTCOME_UNKNOWN'
  | 'LATE_OUTCOME'
  | 'DISPATCH_FROZEN'
  | 'OUTCOME_MESSAGE'
  | 'DISPATCHED'
  | 'FAILED'
  | 'CANCELLED'

/**
 * A payment cannot be cancelled: a call may have paid it or may still pay it, or it has ended. See `remedy`.
 */
export class NotCancellableError extends DatabaseError {
  /** Reason. A newer database may raise another one, so a `switch` needs a `default`. */
  readonly reason: NotCancellableReason | (string & Record<never, never>) | undefined

  constructor(code: ErrorCode, message: string, fields: DatabaseErrorFields) {
    super(code, message, fields)
    const { reason } = parseDetail(fields.detail)
    this.reason = typeof reason === 'string' ? reason : undefined
  }
}

interface RaisedDetail {
  readonly recorded?: unknown
  readonly attempt_no?: unknown
  readonly state?: unknown
  readonly instruction_id?: unknown
  readonly reason?: unknown
}

/** Parses the JSON that our SQL writes into DETAIL. Any other content counts as no detail. */
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
