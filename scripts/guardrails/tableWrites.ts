import { isSql, type Repository } from './repository.js'
import { sqlOf } from './sqlFragments.js'
import { list, nodesNamed, text, child, type SqlNode } from './sqlParser.js'

export interface TableWrite {
  readonly verb: 'INSERT' | 'UPDATE' | 'DELETE' | 'MERGE' | 'TRUNCATE' | 'COPY'
  readonly table: string
  readonly node: SqlNode
}

/** Returns the writes of a statement, including those in WITH and subqueries. */
export function tableWrites(statement: SqlNode): TableWrite[] {
  return WRITES.flatMap(([kind, verb]) =>
    nodesNamed(statement, kind)
      .filter((node) => verb !== 'COPY' || node['is_from'] === true)
      .flatMap((node) => targetsOf(node).map((table) => ({ verb, table, node }))),
  )
}

function targetsOf(node: SqlNode): string[] {
  const several = list(node, 'relations').map((relation) => child(relation, 'RangeVar'))
  const relations = several.length > 0 ? several : [child(node, 'relation')]
  return relations.map((relation) => text(relation, 'relname') ?? '')
}

const WRITES = [
  ['InsertStmt', 'INSERT'],
  ['UpdateStmt', 'UPDATE'],
  ['DeleteStmt', 'DELETE'],
  ['MergeStmt', 'MERGE'],
  ['TruncateStmt', 'TRUNCATE'],
  ['CopyStmt', 'COPY'],
] as const

/** Returns the names of the tables that schema/ creates. */
export function ownTables(repository: Repository): ReadonlySet<string> {
  const created = repository
    .filter((file) => isSql(file) && file.path.startsWith('schema/'))
    .flatMap((file) => sqlOf(file).fragments)
    .flatMap(({ node }) => nodesNamed(node, 'CreateStmt'))
  return new Set(created.map((table) => text(child(table, 'relation'), 'relname') ?? ''))
}
