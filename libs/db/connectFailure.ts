import { PoolerInTheWayError, type DatabaseError } from './errors.js'
import type { ConnectionTarget } from './options.js'
import { isServerError } from './serverError.js'
import { SQLSTATE } from './sqlstates.js'
import { toDatabaseError } from './toDatabaseError.js'

/** Why a connection could not be made, and where to. */
export function connectFailure(error: unknown, { url }: ConnectionTarget): DatabaseError {
  const destination = `${url.host}:${url.port}/${url.database}`
  return toDatabaseError(error, { phase: 'connecting', destination })
}

/** The same, for a session that brings settings along: PgBouncer answers those with a protocol violation. */
export function directConnectFailure(error: unknown, target: ConnectionTarget): DatabaseError {
  if (isServerError(error) && error.code === SQLSTATE.protocolViolation) return poolerInTheWay(error)
  return connectFailure(error, target)
}

export function poolerInTheWay(cause?: unknown): PoolerInTheWayError {
  return new PoolerInTheWayError(
    'a pooler stands between us and the server: the role and settings of a session would not stay with us',
    "open the database with pooler: 'transaction' (and a direct listenUrl), or connect to the server itself",
    cause,
  )
}
