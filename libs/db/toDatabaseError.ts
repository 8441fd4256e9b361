import { describeDriverError } from './driverErrors.js'
import { DatabaseError, StaleStatementError, type Disposition, type FailureContext } from './errors.js'
import { LeaseLostError } from './raisedErrors.js'
import { isServerError, type ServerError } from './serverError.js'
import { isAppendOnlyRefusal, lookUpState, RAISED_STATES, remedyForState, SQLSTATE } from './sqlstates.js'
import { withholdValues } from './withholdValues.js'

/** Sessions that ended for idleness: they had not read the statement that met this error. */
const ENDED_WHILE_IDLE: ReadonlySet<string> = new Set([SQLSTATE.idleInTransactionTimeout, SQLSTATE.idleSessionTimeout])

/** Any failure of a query, typed. What already is one of ours passes unchanged. */
export function toDatabaseError(error: unknown, context: FailureContext): DatabaseError {
  if (error instanceof DatabaseError) return error
  if (!isServerError(error)) return describeDriverError(error, context)
  withholdValues(error)
  return raisedByUs(error) ?? reportedByServer(error, context)
}

export function dispositionOf(sqlstate: string, { phase, sessionSurvived = true }: FailureContext): Disposition {
  const listed = lookUpState(sqlstate)?.disposition ?? 'fatal'
  if (phase !== 'committing') return listed === 'unknown' ? 'retry' : listed
  // A PANIC while the commit record is being written looks like any shortage, until the connection is found dead.
  if (!sessionSurvived && !ENDED_WHILE_IDLE.has(sqlstate)) return 'unknown'
  return listed
}

/**
 * True if the error, or anything it wraps (`cause`, the members of an AggregateError), is a lost lease: ours, or the
 * raw error of the caller's own client.
 */
export function isLeaseLostError(error: unknown): boolean {
  return leaseLostErrorIn(error) !== undefined
}

/** The lost lease inside an error, however deep it is wrapped, with what its token had already recorded. */
export function leaseLostErrorIn(error: unknown): LeaseLostError | undefined {
  const seen = new Set<unknown>()
  const open = [error]
  while (open.length > 0) {
    const next = open.shift()
    if (!(next instanceof Error) || seen.has(next)) continue
    seen.add(next)
    if (next instanceof LeaseLostError) return next
    const typed = isServerError(next) ? raisedByUs(next) : undefined
    if (typed instanceof LeaseLostError) return typed
    open.push(next.cause)
    if (next instanceof AggregateError) open.push(...next.errors)
  }
  return undefined
}

function raisedByUs(error: ServerError): DatabaseError | undefined {
  const raised = RAISED_STATES.get(error.code)
  if (raised === undefined) return undefined
  const { name, errorClass } = raised
  if (name === 'APPEND_ONLY' && !isAppendOnlyRefusal(error.message, error.table)) return undefined
  // The name of a P70xx is its code here: without it the message reads well beside the code.
  const prefix = `${name}: `
  const message = error.message.startsWith(prefix) ? error.message.slice(prefix.length) : error.message
  return new errorClass(name, message, fieldsOf(error))
}

function reportedByServer(error: ServerError, context: FailureContext): DatabaseError {
  if (isStaleStatement(error)) return new StaleStatementError(error.message, fieldsOf(error))
  const sqlstate = isStandbyRefusal(error) ? SQLSTATE.readOnlyServer : error.code
  const condition = lookUpState(sqlstate)?.condition ?? 'database_error'
  const message =
    sqlstate === SQLSTATE.readOnlyServer ? `the server accepts no writes: ${error.message}` : error.message
  return new DatabaseError(condition.toUpperCase(), message, {
    ...fieldsOf(error),
    disposition: dispositionOf(sqlstate, context),
    remedy: remedyForState(sqlstate),
  })
}

/** A function that reads the position of the WAL fails on a standby with the state of many other faults. */
function isStandbyRefusal({ code, routine }: ServerError): boolean {
  return code === SQLSTATE.notInPrerequisiteState && routine === 'pg_current_wal_lsn'
}

/**
 * A prepared statement that the session no longer has, or that fits the schema no more. Found before anything was
 * executed. The second shares its SQLSTATE with all that PostgreSQL cannot do, hence the routine.
 */
function isStaleStatement({ code, routine }: ServerError): boolean {
  return (
    code === SQLSTATE.unknownStatementName ||
    (code === SQLSTATE.featureNotSupported && routine === 'RevalidateCachedQuery')
  )
}

function fieldsOf(error: ServerError) {
  const { code: sqlstate, detail, hint, table, column, constraint } = error
  return { sqlstate, detail, hint, table, column, constraint, cause: error }
}
