import { parseSql, type SqlNode, type SqlStatement } from './sqlParser.js'
import { HOLE } from './typescriptTokens.js'

/**
 * Decides whether a text from the source code is SQL. PostgreSQL's parser is the judge; since it also accepts some
 * English (`show status`, `select one`), a statement counts only if nobody would have meant it as English, or if it
 * opens with a keyword in capitals, as our SQL does.
 */
export interface SqlGuess {
  /** Empty for the beginning of a statement that is put together elsewhere: `'DELETE FROM ' + table`. */
  readonly statements: readonly SqlStatement[]
}

export function guessSql(source: string): SqlGuess | undefined {
  const sql = source.replace(/^(?:\s|--[^\n]*\n)+/, '')
  const opening = /^[A-Za-z]+/.exec(sql)?.[0]
  if (opening === undefined) return undefined
  const inCapitals = opening === opening.toUpperCase()
  const statements = parseWithHoles(sql)
  if (statements === undefined) return inCapitals && FRAGMENT.test(sql) ? { statements: [] } : undefined
  return statements.some(({ node }) => isMeant(node, inCapitals)) ? { statements } : undefined
}

/** Names that stand for what is computed at run time. */
export const COMPUTED = 'computed_name'

/** A hole may stand for a name, for a whole clause, or for nothing. */
function parseWithHoles(sql: string): readonly SqlStatement[] | undefined {
  const spellings = sql.includes(HOLE) ? [COMPUTED, '', '$1'] : ['']
  for (const spelling of spellings) {
    try {
      const statements = parseSql(sql.replaceAll(HOLE, spelling))
      if (statements.length > 0) return statements
    } catch {
      // Not SQL in this spelling.
    }
  }
  return undefined
}

function isMeant(node: SqlNode, inCapitals: boolean): boolean {
  const kind = Object.keys(node)[0] ?? ''
  if (kind === 'SelectStmt') return inCapitals || /"(?:RangeVar|FuncCall)"/.test(JSON.stringify(node))
  if (kind === 'VariableSetStmt')
    return inCapitals || /"name":"(?:role|session_authorization|search_path)"/.test(JSON.stringify(node))
  if (AMBIGUOUS.has(kind)) return inCapitals
  return true
}

/** Commands short enough to be English: `show ID`, `commit`, `lock payments`, `move on`. */
const AMBIGUOUS = new Set([
  'CheckPointStmt',
  'ClosePortalStmt',
  'DeallocateStmt',
  'DiscardStmt',
  'ExecuteStmt',
  'FetchStmt',
  'ListenStmt',
  'LoadStmt',
  'LockStmt',
  'NotifyStmt',
  'ReindexStmt',
  'TransactionStmt',
  'UnlistenStmt',
  'VacuumStmt',
  'VariableShowStmt',
])

const FRAGMENT =
  /^(?:SELECT\s|INSERT\s+INTO\s|UPDATE\s+\S+\s+SET\s|DELETE\s+FROM\s|WITH\s+\w+\s+AS\s|MERGE\s+INTO\s|TRUNCATE\s|COPY\s+\S+\s+(?:FROM|TO)\s|(?:CREATE|ALTER|DROP)\s+(?:OR\s+REPLACE\s+)?(?:TABLE|TYPE|VIEW|INDEX|FUNCTION|TRIGGER|ROLE|USER|SCHEMA|DATABASE|SEQUENCE|EXTENSION)\s|GRANT\s[^]+\s(?:ON|TO)\s|REVOKE\s[^]+\s(?:ON|FROM)\s|SET\s+(?:LOCAL\s+|SESSION\s+)?\w+\s|LISTEN\s|NOTIFY\s)/
