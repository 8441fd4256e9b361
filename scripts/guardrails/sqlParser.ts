import { loadModule, parsePlPgSQLSync, parseSync } from 'libpg-query'

await loadModule()

/** A node of PostgreSQL's own parse tree: `{ InsertStmt: { relation: … } }`. */
export type SqlNode = Readonly<Record<string, unknown>>

export interface SqlStatement {
  readonly node: SqlNode
  readonly text: string
  /** Of its first keyword, counted from 1 in the text that was parsed. */
  readonly line: number
}

/** Throws what PostgreSQL's parser throws. */
export function parseSql(sql: string): readonly SqlStatement[] {
  // The parser counts bytes.
  const bytes = Buffer.from(sql)
  return (parseSync(sql).stmts ?? []).map(({ stmt, stmt_location: start = 0, stmt_len: length }) => ({
    node: asNode(stmt),
    text: bytes.subarray(start, length === undefined ? undefined : start + length).toString(),
    line: bytes.subarray(0, start).toString().split('\n').length,
  }))
}

/**
 * What plpgsql keeps as a query, as a statement that can be parsed by itself.
 * Its parse modes: 0 a statement, 2 an expression, 3 and above an assignment (`target := expression`).
 */
export function statementOf(query: string, parseMode: number): string {
  if (parseMode === 0) return query
  return `SELECT ${parseMode === 2 ? query : query.replace(/^[^]*?:?=/, '')}`
}

/** The tree of a CREATE FUNCTION or DO statement in plpgsql. Lines in it are counted from the body's first. */
export function parsePlpgsql(statement: string): SqlNode {
  return asNode(parsePlPgSQLSync(statement))
}

/** Every node of that name, however deep. */
export function nodesNamed(tree: unknown, name: string): SqlNode[] {
  if (Array.isArray(tree)) return tree.flatMap((member) => nodesNamed(member, name))
  if (!isNode(tree)) return []
  const here = tree[name]
  const below = Object.values(tree).flatMap((value) => nodesNamed(value, name))
  return isNode(here) ? [here, ...below] : below
}

/** The member of a node that is itself a node; empty if there is none, so that paths can be followed blindly. */
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
