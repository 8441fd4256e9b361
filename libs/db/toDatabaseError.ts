import type { ErrorCode, PostgresErrorCode } from '../core/index.js'
import {
  DatabaseError,
  type Disposition,
  type FailureContext,
  IdempotencyConflictError,
  KeyReusedError,
  LeaseLostError,
  NotCancellableError,
  StaleStatementError,
  TlsError,
} from './errors.js'
import { isRaised, isServerError, type ServerError, redactDriverError } from './serverError.js'
import {
  isAppendOnlyError,
  isReplacedFunctionError,
  classifySqlstate,
  RAISED_SQLSTATES,
  remedyForState,
  SQLSTATE,
} from './sqlstates.js'

/**
 * States of sessions that the server ended because they were idle. Such a session never read the statement that got
 * this error.
 */
const ENDED_WHILE_IDLE: ReadonlySet<string> = new Set([SQLSTATE.idleInTransactionTimeout, SQLSTATE.idleSessionTimeout])

/** Converts any failure of a query into a `DatabaseError`. Returns a `DatabaseError` unchanged. */
export function toDatabaseError(error: unknown, context: FailureContext): DatabaseError {
  if (error instanceof DatabaseError) return error
  if (!isServerError(error)) return describeDriverError(error, context)
  redactDriverError(error)
  return raisedByUs(error) ?? reportedByServer(error, context)
}

export function dispositionOf(sqlstate: string, { phase, sessionSurvived = true }: FailureContext): Disposition {
  const listed = classifySqlstate(sqlstate)?.disposition ?? 'fatal'
  if (phase !== 'committing') return listed === 'unknown' ? 'retry' : listed
  // A server that panics while it writes the commit record first reports a resource shortage. Only the dead connection
  // shows that the commit is uncertain.
  if (!sessionSurvived && !ENDED_WHILE_IDLE.has(sqlstate)) return 'unknown'
  return listed
}

/**
 * Returns true if the error, or one inside it (`cause`, AggregateError), is a lost lease. Also recognises the raw error
 * of the caller's own client.
 */
export function isLeaseLostError(error: unknown): boolean {
  return leaseLostErrorIn(error) !== undefined
}

/**
 * Finds the LeaseLostError in an error and its causes. `recorded` is the outcome that an earlier call with the same
 * lease token recorded.
 */
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
  const name = RAISED_SQLSTATES.get(error.code)
  if (name === undefined) return undefined
  if (name === 'APPEND_ONLY' && !isAppendOnlyError(error.message, error.table)) return undefined
  // Removes the name of a P70xx state from the message, because the name is already the error's code.
  const prefix = `${name}: `
  const message = error.message.startsWith(prefix) ? error.message.slice(prefix.length) : error.message
  // `fatal`, because an immediate retry of a refused call never helps.
  return new (RAISED_CLASSES.get(name) ?? DatabaseError)(name, message, {
    ...fieldsOf(error),
    disposition: 'fatal',
    remedy: error.hint,
  })
}

/** Classes with additional fields, and classes that applications catch. */
const RAISED_CLASSES: ReadonlyMap<ErrorCode, typeof DatabaseError> = new Map<ErrorCode, typeof DatabaseError>([
  ['LEASE_LOST', LeaseLostError],
  ['IDEMPOTENCY_CONFLICT', IdempotencyConflictError],
  ['KEY_REUSED', KeyReusedError],
  ['NOT_CANCELLABLE', NotCancellableError],
])

function reportedByServer(error: ServerError, context: FailureContext): DatabaseError {
  if (isStaleStatement(error)) return new StaleStatementError(error.message, fieldsOf(error))
  const sqlstate = isStandbyRefusal(error) ? SQLSTATE.readOnlyServer : error.code
  const condition = classifySqlstate(sqlstate)?.condition ?? 'database_error'
  const message =
    sqlstate === SQLSTATE.readOnlyServer ? `the server accepts no writes: ${error.message}` : error.message
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- toUpperCase() returns a string of any content
  return new DatabaseError(condition.toUpperCase() as PostgresErrorCode, message, {
    ...fieldsOf(error),
    disposition: dispositionOf(sqlstate, context),
    // For an error that a function raised, its own hint is more precise than the general remedy for the SQLSTATE.
    remedy: isRaised(error) ? (error.hint ?? remedyForState(sqlstate)) : (remedyForState(sqlstate) ?? error.hint),
  })
}

/** Recognises a standby by the routine that reads the WAL position. Many other faults share its SQLSTATE. */
function isStandbyRefusal({ code, routine }: ServerError): boolean {
  return code === SQLSTATE.notInPrerequisiteState && routine === 'pg_current_wal_lsn'
}

/**
 * Recognises three errors after which nothing was executed: the session no longer has the prepared statement, the
 * statement no longer fits the schema, or a deployment replaced the function before its call. The second shares its
 * SQLSTATE with all unsupported features, so the routine identifies it.
 */
function isStaleStatement({ code, routine, message }: ServerError): boolean {
  return (
    code === SQLSTATE.unknownStatementName ||
    (code === SQLSTATE.featureNotSupported && routine === 'RevalidateCachedQuery') ||
    isReplacedFunctionError(code, message)
  )
}

function fieldsOf(error: ServerError) {
  const { code: sqlstate, detail, hint, table, column, constraint } = error
  return { sqlstate, detail, hint, table, column, constraint, cause: error }
}

/** Codes of Node and of the embedded server's package for a server that is currently unreachable. */
const NETWORK_CODES = new Set([
  'EADDRNOTAVAIL',
  'EAI_AGAIN',
  'ECONNABORTED',
  'ECONNREFUSED',
  'ECONNRESET',
  'EMBEDDED_START_FAILED',
  'EMBEDDED_START_TIMEOUT',
  'EHOSTDOWN',
  'EHOSTUNREACH',
  'EMFILE',
  'ENETDOWN',
  'ENETUNREACH',
  'ENFILE',
  'ENOENT',
  'ENOTFOUND',
  'EPIPE',
  'ETIMEDOUT',
])

/** Reason for each of Node's codes of an untrusted certificate. */
const CERTIFICATE_REASONS: Readonly<Record<string, string>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: 'its certificate is self-signed and not among the trusted ones',
  SELF_SIGNED_CERT_IN_CHAIN: 'its certificate chain ends in an authority that is not trusted',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'its certificate is signed by an authority that is not trusted',
  UNABLE_TO_GET_ISSUER_CERT: 'its certificate chain is incomplete or not trusted',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'its certificate is signed by an authority that is not trusted',
  CERT_UNTRUSTED: 'its certificate is not trusted',
  CERT_HAS_EXPIRED: 'its certificate has expired',
  CERT_NOT_YET_VALID: 'its certificate is not valid yet',
  CERT_REVOKED: 'its certificate was revoked',
  CERT_SIGNATURE_FAILURE: 'the signature of its certificate is wrong',
  INVALID_PURPOSE: 'its certificate is not meant for servers',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
}

const TLS_REMEDY =
  'give the authority as sslrootcert (or tls.ca), the expected name as tls.serverName, or correct the certificate of the server'

const UNREACHABLE_REMEDY = 'Start the server, or correct host and port in DATABASE_URL; a firewall may be in between.'

/**
 * Driver errors that have no code, recognised by their text. A test provokes each with the real driver, so that an
 * upgrade that rewords one is noticed.
 */
const DRIVER_MESSAGES = {
  plaintextServer: 'The server does not support SSL connections',
  noFreeConnection: 'timeout exceeded when trying to connect',
  connectTimeout: 'Connection terminated due to connection timeout',
  connectionEnded: 'Connection terminated unexpectedly',
  connectionBroken: 'Client has encountered a connection error and is not queryable',
  noAnswer: 'Query read timeout',
} as const

/** Describes a failure that the server did not report: network, TLS, a timeout, or the driver itself. */
function describeDriverError(error: unknown, context: FailureContext): DatabaseError {
  const { phase, destination = 'the server' } = context
  const code = codeOf(error)
  const message = error instanceof Error ? error.message : ''

  const certificate = code === undefined ? undefined : CERTIFICATE_REASONS[code]
  if (certificate !== undefined) {
    return new TlsError(`${destination} was refused: ${certificate} (${code})`, { cause: error, remedy: TLS_REMEDY })
  }
  if (message === DRIVER_MESSAGES.plaintextServer) {
    return new TlsError(`${destination} was refused: it offers no TLS`, { cause: error, remedy: TLS_REMEDY })
  }
  if (message === DRIVER_MESSAGES.noFreeConnection) {
    return new DatabaseError('POOL_EXHAUSTED', `no connection to ${destination} became free in time`, {
      disposition: 'retry',
      cause: error,
      remedy: 'raise connectionsMax, or make fewer concurrent calls',
    })
  }
  if (phase === 'connecting') {
    return new DatabaseError('CONNECT_FAILED', `could not connect to ${destination}: ${code ?? message}`, {
      disposition: isWorthRetrying(code, message) ? 'retry' : 'fatal',
      cause: error,
      remedy: context.remedy ?? (code === 'ENOTFOUND' ? 'Correct the host in DATABASE_URL.' : UNREACHABLE_REMEDY),
    })
  }
  const disposition: Disposition = phase === 'committing' ? 'unknown' : 'retry'
  if (message === DRIVER_MESSAGES.noAnswer) {
    return new DatabaseError('NO_ANSWER', 'the server did not answer in time', { disposition, cause: error })
  }
  if (code === undefined && isProgramError(error)) {
    return new DatabaseError('CLIENT_FAILED', `the program or its client failed: ${error.name}: ${message}`, {
      disposition: phase === 'committing' ? 'unknown' : 'fatal',
      cause: error,
      remedy: 'correct the program, as the cause shows; the connection and the server work',
    })
  }
  return new DatabaseError('CONNECTION_LOST', `no answer arrived: ${code ?? message}`, {
    disposition,
    cause: error,
  })
}

const MESSAGES_WORTH_RETRYING: ReadonlySet<string> = new Set([
  DRIVER_MESSAGES.connectTimeout,
  DRIVER_MESSAGES.connectionEnded,
  DRIVER_MESSAGES.connectionBroken,
  DRIVER_MESSAGES.noAnswer,
])

/** Returns whether another attempt may succeed. A refused password or an incompatible driver fails again. */
function isWorthRetrying(code: string | undefined, message: string): boolean {
  return code === undefined ? MESSAGES_WORTH_RETRYING.has(message) : NETWORK_CODES.has(code)
}

/** Recognises JavaScript's own errors, which come from a mistake in code, never from a network. */
function isProgramError(error: unknown): error is Error {
  return (
    error instanceof TypeError ||
    error instanceof RangeError ||
    error instanceof ReferenceError ||
    error instanceof SyntaxError
  )
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}
