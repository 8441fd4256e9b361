import { SymphonyError, type ErrorCode } from '../core/index.js'

/**
 * What a caller may conclude from a failure.
 *
 * - `retry`: surely nothing happened, and trying again may help.
 * - `unknown`: the work may have been committed; find out before doing it again.
 * - `fatal`: surely nothing happened, and trying the same again will not help.
 */
export type Disposition = 'retry' | 'unknown' | 'fatal'

/**
 * Where the work stood when it failed. Before COMMIT is sent nothing can be durable, so a lost connection is harmless;
 * from then on (and for a statement that commits by itself, from the start) it leaves the outcome open.
 */
export type Phase = 'connecting' | 'uncommitted' | 'committing'

export interface FailureContext {
  readonly phase: Phase
  /**
   * False if the connection was gone after the failure: then an error may be the server's last word and not its answer.
   *
   * @default true
   */
  readonly sessionSurvived?: boolean
  /** Where the connection led, for the message. */
  readonly destination?: string
  /** Remedy of a failed connection. @default to start the server, or to correct DATABASE_URL */
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
 * A failure of the database or of the connection to it. It never holds a parameter of the statement: `redactDriverError` removes
 * those that PostgreSQL quotes.
 */
export class DatabaseError extends SymphonyError {
  readonly disposition: Disposition
  /** The five-character code, if the server answered at all. */
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

/** The login cannot act as the role that the work needs, or did not end up in it. */
export class RoleError extends DatabaseError {
  readonly role: string

  constructor(role: string, message: string, fields: Omit<DatabaseErrorFields, 'disposition'>) {
    super('ROLE_UNAVAILABLE', message, { ...fields, disposition: 'fatal' })
    this.role = role
  }
}

/** The connection is not as private as it must be: no TLS, or a certificate that proves nothing. */
export class TlsError extends DatabaseError {
  constructor(message: string, fields: Omit<DatabaseErrorFields, 'disposition'> = {}) {
    super('TLS_REFUSED', message, { ...fields, disposition: 'fatal' })
  }
}

/** A pooler shares server sessions between clients, and this call needs a session of its own. */
export class TransactionPoolerError extends DatabaseError {
  constructor(message: string, remedy: string, cause?: unknown) {
    super('TRANSACTION_POOLER', message, { disposition: 'fatal', remedy, cause })
  }
}

/** A transaction was started inside another one of the same database. */
export class NestedTransactionError extends DatabaseError {
  constructor() {
    super('NESTED_TRANSACTION', 'a transaction is already open here: it would commit apart from the one around it', {
      disposition: 'fatal',
      remedy: 'pass the handle of the open transaction down and query through it',
    })
  }
}

/** The handle of a transaction was used after its callback had ended. */
export class TransactionClosedError extends DatabaseError {
  constructor() {
    super('TRANSACTION_CLOSED', 'this transaction has ended: its handle cannot be used any more', {
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
      'a callback of asRole runs in another role: the handle of this transaction must wait for its end',
      {
        disposition: 'fatal',
        remedy: 'query through the handle of the asRole callback, and await asRole before the next query',
      },
    )
  }
}

/**
 * The callback returned as if all were well, yet nothing was committed: a statement had failed and its error was
 * swallowed. PostgreSQL answers such a COMMIT with ROLLBACK and no error. `cause` is the error that was swallowed.
 */
export class TransactionAbortedError extends DatabaseError {
  constructor(message: string, swallowed: DatabaseError | undefined) {
    super('TRANSACTION_ABORTED', message, { disposition: swallowed?.disposition ?? 'fatal', cause: swallowed })
  }
}

/** A prepared statement outlived what it was prepared for. Nothing was executed; asked again, it is prepared afresh. */
export class StaleStatementError extends DatabaseError {
  constructor(message: string, fields: Omit<DatabaseErrorFields, 'disposition'>) {
    super('STALE_STATEMENT', message, { ...fields, disposition: 'retry' })
  }
}

/** The database was closed by `close()`. */
export class DatabaseClosedError extends DatabaseError {
  constructor() {
    super('DATABASE_CLOSED', 'this database was closed', { disposition: 'fatal' })
  }
}

/** What this very lease had already recorded when it was found lost. */
export interface RecordedOutcome {
  readonly attemptNo: number
  readonly state: string
}

/**
 * Completion, renewal or release without a live lease. If `recorded` is there, this very token had recorded that
 * outcome before: the answer to a COMMIT was lost, not the lease, and there is nothing left to do.
 */
export class LeaseLostError extends DatabaseError {
  readonly recorded: RecordedOutcome | undefined

  constructor(code: ErrorCode, message: string, fields: DatabaseErrorFields) {
    super(code, message, fields)
    this.recorded = parseRecorded(fields.detail)
  }
}

/** The same key came again with other content. */
export class IdempotencyConflictError extends DatabaseError {}

/** A known idempotency key of the same HTTP caller came with another instruction. Nothing of the call was enqueued. */
export class KeyReusedError extends DatabaseError {
  /** Instruction that the key names. */
  readonly firstInstructionId: string | undefined

  constructor(code: ErrorCode, message: string, fields: DatabaseErrorFields) {
    super(code, message, fields)
    const { instruction_id: firstInstructionId } = parseDetail(fields.detail)
    this.firstInstructionId = typeof firstInstructionId === 'string' ? firstInstructionId : undefined
  }
}

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
