import { escapeLiteral } from 'pg'
import { quoteIdentifier } from '../../libs/db/index.js'
import { readCatalog } from '../../libs/deployment/catalog.js'
import type { TestDatabase } from './database.js'

/** State of all rows and objects. Equal fingerprints mean that nothing changed. */
export interface Fingerprint {
  /** SHA-256 of all rows per table, so that a difference names the table. */
  readonly rows: Readonly<Record<string, string>>
  /** Objects with their definition, owner and grants. */
  readonly objects: unknown
}

export async function fingerprint(db: TestDatabase): Promise<Fingerprint> {
  return { rows: await rowHashes(db), objects: await objectsOf(db) }
}

export async function rowHashes(db: TestDatabase): Promise<Record<string, string>> {
  // Uses one query for all tables, because tests call this after each of many attempts.
  const queries = (await tableNames(db)).map(
    (table) =>
      `SELECT ${escapeLiteral(table)} AS table,
         encode(sha256(convert_to(COALESCE(string_agg(t::text, chr(10) ORDER BY t::text), ''), 'UTF8')), 'hex') AS hash
       FROM ${quoteIdentifier(table)} t`,
  )
  const { rows } = await db.queryNoRole<{ table: string; hash: string }>(queries.join(' UNION ALL '))
  return Object.fromEntries(rows.map(({ table, hash }) => [table, hash]))
}

/** Reads the names from the catalog, so that no table is forgotten. */
export async function tableNames(db: TestDatabase): Promise<string[]> {
  const { rows } = await db.queryNoRole<{ name: string }>(
    `SELECT c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = $1 AND c.relkind IN ('r', 'p') ORDER BY 1`,
    [db.schema],
  )
  return rows.map(({ name }) => name)
}

async function objectsOf(db: TestDatabase): Promise<unknown> {
  const client = await db.connect()
  try {
    await client.query('BEGIN')
    const catalog = await readCatalog(
      { query: (text, values) => client.query<never>(text, values === undefined ? undefined : [...values]) },
      db.schema,
    )
    // Leaves out roles, because other test files create and drop roles of the same server.
    const kinds = [...catalog].filter(([kind]) => kind !== 'roles')
    return Object.fromEntries(kinds.map(([kind, objects]) => [kind, Object.fromEntries(objects)]))
  } finally {
    await client.end()
  }
}
