import { SymphonyError } from '../core/index.js'
import { DEFAULT_SCHEMA, type Queryable, type Rows } from './Queryable.js'
import { callText, type FunctionCall } from './statement.js'
import { toDatabaseError } from './toDatabaseError.js'

/**
 * Calls a deployed SQL function by its full name and returns its rows. Errors are typed for every client: a lost lease
 * is a `LeaseLostError` on the caller's own `pg` client too.
 */
export async function call<R>(
  queryable: Queryable,
  functionName: string,
  values: readonly unknown[] = [],
): Promise<R[]> {
  try {
    const { rows } =
      queryable instanceof CallRunner
        ? await queryable.run<R>({ functionName, values })
        : await queryable.query<R>(callText(queryable.schema ?? DEFAULT_SCHEMA, functionName, values.length), values)
    return rows
  } catch (error) {
    throw toDatabaseError(error, { phase: 'committing' })
  }
}

/**
 * Role handle of a `Database`. It receives a function call instead of SQL text, so it knows that the call cannot change
 * the role of the connection.
 */
export abstract class CallRunner {
  abstract run<R>(call: FunctionCall): Promise<Rows<R>>
}

/** Returns the row of a database function that always returns one row. */
export function onlyRow<Row>(rows: readonly Row[]): Row {
  const [row] = rows
  if (row === undefined || rows.length > 1) {
    throw new SymphonyError('UNEXPECTED_ROWS', `a function that returns one row returned ${rows.length}`, {
      remedy: 'Run `symphony doctor`: the schema and this release do not match.',
    })
  }
  return row
}
