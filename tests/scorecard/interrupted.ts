import { DatabaseError } from '../../libs/db/index.js'

/** Returns whether the server was down or lost the connection. The work may have been committed. */
export function isInterrupted(error: unknown): boolean {
  return error instanceof DatabaseError && error.disposition !== 'fatal'
}

/** Returns whether a function of Symphony refused the call by its own SQLSTATE, such as P7013. */
export function isRefused(error: unknown): boolean {
  return error instanceof DatabaseError && error.sqlstate?.startsWith('P7') === true
}
