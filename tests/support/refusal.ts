import { DatabaseError } from 'pg'

/** What PostgreSQL said, as it said it; anything else is no refusal and is thrown on. */
export function refusalIn(error: unknown): DatabaseError & { readonly code: string } {
  if (!(error instanceof DatabaseError) || !hasCode(error)) throw error
  return error
}

/** The SQLSTATE with which a statement was refused, or `succeeded`. */
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
