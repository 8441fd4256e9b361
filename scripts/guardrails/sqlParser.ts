import { loadModule, parsePlPgSQLSync, parseSync } from 'libpg-query'

await loadModule()

/** Node of PostgreSQL's parse tree: `{ InsertStmt: { relation: … } }`. */
export type SqlNode = Readonly<Record<string, unknown>>

export interface SqlStatement {
  readonly node: SqlNode
  readonly text: string
  /** Line of the first keyword in the parsed text, from 1. */
  readonly line: number
}

/** Parses SQL. Throws the error of PostgreSQL's parser. */
export function parseSql(sql: string): readonly SqlStatement[] {
  // The parser counts offsets in bytes.
  const bytes = Buffer.from(sql)
  return (parseSync(sql).stmts ?? []).map(({ stmt, stmt_location: start = 0, stmt_len: length }) => ({
    node: asNode(stmt),
    text: bytes.subarray(start, length === undefined ? undefined : start + length).toString(),
    line: bytes.subarray(0, start).toString().split('\n').length,
  }))
}

/**
 * Turns a query of a plpgsql tree into a statement that parses alone. Parse modes of plpgsql: 0 statement, 2
 * expression, 3 and above assignment (`target := expression`).
 */
export function statementOf(query: string, parseMode: number): string {
  if (parseMode === 0) return query
  return `SELECT ${parseMode === 2 ? query : query.replace(/^[^]*?:?=/, '')}`
}

/** Parses a plpgsql CREATE FUNCTION or DO statement. Line numbers count from the first line of the body. */
export function parsePlpgsql(statement: string): SqlNode {
  return asNode(parsePlPgSQLSync(statement))
}

/** Returns every node with this name at any depth. */
export function nodesNamed(tree: unknown, name: string): SqlNode[] {
  if (Array.isArray(tree)) return tree.flatMap((member) => nodesNamed(member, name))
  if (!isNode(tree)) return []
  const here = tree[name]
  const below = Object.values(tree).flatMap((value) => nodesNamed(value, name))
  return isNode(here) ? [here, ...below] : below
}

/** Returns the node at a path; an empty node if any step is missing. */
export function child(node: SqlNode, ...path: readonly string[]): SqlNode {
  return path.reduce<SqlNode>((parent, key) => asNode(parent[key]), node)
}

export function text(node: SqlNode, key: string): string | undefined {
  const value = node[key]
  return typeof value === 'string' ? value : undefined
}

export function list(node: SqlNode, key: string): readonly SqlNode[] {
  const value = node[key]
  return Array.isArray(value) ? value.map(asNode) : []
}

export function asNode(value: unknown): SqlNode {
  return isNode(value) ? value : {}
}

function isNode(value: unknown): value is SqlNode {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
