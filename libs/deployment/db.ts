import { quoteIdentifier, type Queryable } from '../db/index.js'

/** Everything from here to the end of the transaction belongs to the owner and lands in the schema. */
export async function enterSchemaAsOwner(tx: Queryable, schema: string): Promise<void> {
  const name = quoteIdentifier(schema)
  await tx.query(`CREATE SCHEMA IF NOT EXISTS ${name} AUTHORIZATION symphony_owner`)
  await tx.query(`SET LOCAL ROLE symphony_owner`)
  await tx.query(`SET LOCAL search_path = ${name}, pg_temp`)
}
