import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Queryable } from '../db/index.js'
import { useSchema } from './db.js'
import { schemaFolder } from './schemaFolder.js'

/** A list is a set: its order means nothing. */
export type PropertyValue = string | boolean | readonly string[]

/** What is absent (no default, no comment, no options) is left out. */
export type Properties = Readonly<Record<string, PropertyValue>>

/**
 * Everything in a schema, by kind and name, said the same way on every version of PostgreSQL and whatever the schema is
 * called. The queries are the files of `schema/catalog/`, one per kind.
 */
export type Catalog = ReadonlyMap<string, ReadonlyMap<string, Properties>>

/** Reads in the snapshot of the given transaction, and leaves the schema in its search path. */
export async function readCatalog(tx: Queryable, schema: string): Promise<Catalog> {
  // The queries look at the current schema; and names are spelled without their schema where they are found without it.
  await tx.query(useSchema(schema))
  const catalog = new Map<string, ReadonlyMap<string, Properties>>()
  for (const { kind, sql } of catalogQueries()) {
    const { rows } = await tx.query<{ name: string; properties: Record<string, PropertyValue | null> }>(sql)
    catalog.set(kind, new Map(rows.map(({ name, properties }) => [name, withoutAbsent(properties)])))
  }
  return catalog
}

function catalogQueries(): readonly { kind: string; sql: string }[] {
  const folder = join(schemaFolder(), 'catalog')
  return readdirSync(folder)
    .toSorted()
    .map((file) => ({ kind: file.replace(/\.sql$/, ''), sql: readFileSync(join(folder, file), 'utf8') }))
}

function withoutAbsent(properties: Record<string, PropertyValue | null>): Properties {
  return Object.fromEntries(
    Object.entries(properties)
      .filter((entry): entry is [string, PropertyValue] => entry[1] !== null && !isEmptyList(entry[1]))
      .toSorted(([left], [right]) => (left < right ? -1 : 1)),
  )
}

function isEmptyList(value: PropertyValue): boolean {
  return Array.isArray(value) && value.length === 0
}
