import { toDatabaseError } from './toDatabaseError.js'

/** The schema that is meant when nobody names another one. */
export const DEFAULT_SCHEMA = 'symphony'

export interface Rows<R> {
  readonly rows: R[]
}

/**
 * The smallest thing that can run a parameterised query. A `pg` client or pool satisfies it as it is; so does what
 * `database.as(role)` returns and the handle a transaction receives. Wrappers of database functions ask for this and
 * nothing more, so they run in our transactions and in the caller's own alike.
 */
export interface Queryable {
  query<R>(text: string, values?: readonly unknown[]): Promise<Rows<R>>
  /** The schema the product was deployed to. A foreign client has none: see `withSchema`. */
  readonly schema?: string
}

/** The same client, said to work on a deployment in another schema. */
export function withSchema(queryable: Queryable, schema: string): Queryable & { readonly schema: string } {
  const wrapper: Queryable & { readonly schema: string } = {
    schema,
    query: (text, values) => queryable.query(text, values),
  }
  WRAPPED.set(wrapper, unwrapSchema(queryable))
  return wrapper
}

/** Returns the client behind `withSchema`, or the queryable itself. */
export function unwrapSchema(queryable: Queryable): Queryable {
  return WRAPPED.get(queryable) ?? queryable
}

const WRAPPED = new WeakMap<Queryable, Queryable>()

/** `"My Schema"."claim_outbox_batch"`: the full name of one of our objects, as this queryable must spell it. */
export function qualify(queryable: Queryable, objectName: string): string {
  return `${quoteIdentifier(queryable.schema ?? DEFAULT_SCHEMA)}.${quoteIdentifier(objectName)}`
}

/** Always quoted, so that no name can be read as a keyword, be folded to lower case, or end the identifier early. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/**
 * Calls one of our set-returning or scalar functions by its full name and returns its rows. Errors are typed whatever
 * client ran the call: a lease lost on the caller's own `pg` client is the same `LeaseLostError` as on ours.
 */
export async function callFunction<R>(
  queryable: Queryable,
  functionName: string,
  values: readonly unknown[] = [],
): Promise<R[]> {
  const placeholders = values.map((_, index) => `$${index + 1}`).join(', ')
  try {
    const { rows } = await queryable.query<R>(
      `SELECT * FROM ${qualify(queryable, functionName)}(${placeholders})`,
      values,
    )
    return rows
  } catch (error) {
    throw toDatabaseError(error, { phase: 'committing' })
  }
}

/**
 * Whether a text is what `callFunction` sends for this schema, and nothing else: a call of one of our functions, with nothing
 * but parameters. It cannot change the role of its session: the functions that could run as another are definers', and
 * PostgreSQL lets no definer's function set a role.
 */
export function isFunctionCall(text: string, schema: string): boolean {
  const start = `SELECT * FROM ${quoteIdentifier(schema)}."`
  return text.startsWith(start) && PLAIN_CALL.test(text.slice(start.length))
}

const PLAIN_CALL = /^\w+"\((?:\$\d+(?:, \$\d+)*)?\)$/
