import { DatabaseError } from 'pg'

/** Returns an error of PostgreSQL, and rethrows any other. */
export function refusalIn(error: unknown): DatabaseError & { readonly code: string } {
  if (!(error instanceof DatabaseError) || !hasCode(error)) throw error
  return error
}

/** Returns the SQLSTATE of a failed statement, or `succeeded`. */
export async function sqlstateOf(statement: Promise<unknown>): Promise<string> {
  try {
    await statement
    return 'succeeded'
  } catch (error) {
    return refusalIn(error).code
  }
}

function hasCode(error: DatabaseError): error is DatabaseError & { readonly code: string } {
  return typeof error.code === 'string'
}
