import { parseSql, type SqlNode, type SqlStatement } from './sqlParser.js'
import { HOLE } from './typescriptTokens.js'

/** Result of `guessSql` for a text that is SQL. */
export interface SqlGuess {
  /** Parsed statements; empty for an incomplete start of a statement, such as `'DELETE FROM ' + table`. */
  readonly statements: readonly SqlStatement[]
}

/**
 * Decides by PostgreSQL's parser whether a text is SQL. The parser also accepts some English (`show status`, `select
 * one`), so an ambiguous statement counts only if its first keyword is in capitals, as in our SQL.
 */
export function guessSql(source: string): SqlGuess | undefined {
  const sql = source.replace(/^(?:\s|--[^\n]*\n)+/, '')
  const opening = /^[A-Za-z]+/.exec(sql)?.[0]
  if (opening === undefined) return undefined
  const inCapitals = opening === opening.toUpperCase()
  const statements = parseWithHoles(sql)
  if (statements === undefined) return inCapitals && FRAGMENT.test(sql) ? { statements: [] } : undefined
  return statements.some(({ node }) => isMeant(node, inCapitals)) ? { statements } : undefined
}

/** Name that replaces a hole where SQL needs an identifier. */
export const COMPUTED = 'computed_name'

/**
 * Parses the text with each hole replaced by a name, else by nothing, else by a parameter. Returns the first result
 * that parses.
 */
function parseWithHoles(sql: string): readonly SqlStatement[] | undefined {
  const spellings = sql.includes(HOLE) ? [COMPUTED, '', '$1'] : ['']
  for (const spelling of spellings) {
    try {
      const statements = parseSql(sql.replaceAll(HOLE, spelling))
      if (statements.length > 0) return statements
    } catch {
      // Tries the next spelling.
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

/** Commands that may also be English: `show ID`, `commit`, `lock payments`, `move on`. */
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
