import { DatabaseError, TlsError, type Disposition, type FailureContext } from './errors.js'

/** Node's codes for a way to the server that is closed for now. */
const NETWORK_CODES = new Set([
  'EADDRNOTAVAIL',
  'EAI_AGAIN',
  'ECONNABORTED',
  'ECONNREFUSED',
  'ECONNRESET',
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

/** Node's codes for a certificate that proves nothing, and what each says about the server. */
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
  'give the authority as sslrootcert (or tls.ca), the expected name as tls.serverName, or mend the server'

const UNREACHABLE_REMEDY = 'Start the server, or correct host and port in DATABASE_URL; a firewall may be in between.'

/**
 * What the driver says without any code. The text is all there is to go by; a test provokes each of them with the
 * real driver, so that an upgrade that rewords one is noticed.
 */
const DRIVER_MESSAGES = {
  plaintextServer: 'The server does not support SSL connections',
  noFreeConnection: 'timeout exceeded when trying to connect',
  connectTimeout: 'Connection terminated due to connection timeout',
  connectionEnded: 'Connection terminated unexpectedly',
  noAnswer: 'Query read timeout',
} as const

/** A failure the server did not report: the network, TLS, a timeout, or the driver itself. */
export function describeDriverError(
  error: unknown,
  { phase, destination = 'the server' }: FailureContext,
): DatabaseError {
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
      remedy: 'raise connectionsMax, or do less at once',
    })
  }
  if (phase === 'connecting') {
    return new DatabaseError('CONNECT_FAILED', `could not connect to ${destination}: ${code ?? message}`, {
      disposition: isWorthRetrying(code, message) ? 'retry' : 'fatal',
      cause: error,
      remedy: code === 'ENOTFOUND' ? 'Correct the host in DATABASE_URL.' : UNREACHABLE_REMEDY,
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
      remedy: 'correct the program: the cause says where; the connection and the server are not at fault',
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
  DRIVER_MESSAGES.noAnswer,
])

/** A password the server refuses, or a driver that cannot speak to it, will be no better the next time. */
function isWorthRetrying(code: string | undefined, message: string): boolean {
  return code === undefined ? MESSAGES_WORTH_RETRYING.has(message) : NETWORK_CODES.has(code)
}

/** JavaScript's own errors: thrown by a mistake in code, never by a network. */
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
