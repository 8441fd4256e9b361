import type { Queryable } from '../db/index.js'
import { becomeRole, SPELLING_SETTINGS, useSchema } from './db.js'
import { findReadingRole } from './reads.js'
import { readSqlQueries } from './schemaFiles.js'
import { schemaAccessError } from './deploymentErrors.js'

/** Value of a property. A list is a set: its order has no meaning. */
export type PropertyValue = string | boolean | readonly string[]

/** Properties of an object, without absent ones (no default, no comment, no options). */
export type Properties = Readonly<Record<string, PropertyValue>>

/**
 * Objects of a schema by kind and name. The kinds are the files of `schema/catalog/`. Values of properties do not
 * contain the schema name. A few values differ between versions of PostgreSQL (`since` in the manifest).
 */
export type Catalog = ReadonlyMap<string, ReadonlyMap<string, Properties>>

/**
 * Reads the catalog in the snapshot of the transaction. Changes the transaction: it then has a role that may use the
 * schema, and the schema as its search path.
 */
export async function readCatalog(tx: Queryable, schema: string): Promise<Catalog> {
  const role = await findReadingRole(tx, schema)
  if (role === undefined) throw schemaAccessError(schema)
  await tx.query(becomeRole(role))
  await tx.query(SPELLING_SETTINGS)
  // PostgreSQL prints names without their schema if that schema is on the search path.
  await tx.query(useSchema(schema))
  const catalog = new Map<string, ReadonlyMap<string, Properties>>()
  for (const { name: kind, sql } of readSqlQueries('catalog')) {
    const { rows } = await tx.query<{ name: string; properties: Record<string, PropertyValue | null> }>(sql)
    catalog.set(kind, new Map(rows.map(({ name, properties }) => [name, tidy(properties)])))
  }
  return catalog
}

/** Removes absent properties and sorts the rest. The server's order would depend on the collation of the database. */
function tidy(properties: Record<string, PropertyValue | null>): Properties {
  const present = Object.entries(properties).flatMap(([property, value]): [string, PropertyValue][] => {
    if (value === null || (typeof value === 'object' && value.length === 0)) return []
    return [[property, typeof value === 'object' ? [...value].toSorted(byCodeUnits) : value]]
  })
  return Object.fromEntries(present.toSorted(([left], [right]) => byCodeUnits(left, right)))
}

function byCodeUnits(left: string, right: string): number {
  return left < right ? -1 : Number(left > right)
}
