import type { Client, ClientBase } from 'pg'
import type { TestDatabase } from './database.js'

/**
 * A plan that PostgreSQL executed inside our functions, reported by the extension auto_explain. An EXPLAIN of the call
 * would show only a function scan.
 */
export interface ExecutedStatement {
  readonly query: string
  readonly nodes: readonly PlanNode[]
  /** Pages read or found in memory, nested statements included. */
  readonly buffers: number
}

export interface PlanNode {
  readonly type: string
  readonly relation: string | undefined
  readonly index: string | undefined
  /** Whether the index is searched by a condition, instead of read from its beginning. */
  readonly isLookUp: boolean
  readonly loops: number
  /** Rows that were read, including filtered ones. */
  readonly rows: number
}

export interface Execution {
  /** Statements in the order of their end, the outermost last. */
  readonly statements: readonly ExecutedStatement[]
  /** Pages of the whole call. */
  readonly buffers: number
  /** Tables with a sequential scan, by the counters of PostgreSQL. */
  readonly scanned: readonly string[]
}

/** A connection in one role. It records the plans of the statements inside the functions that it calls. */
export class PlanRecorder {
  readonly #client: Client
  readonly #messages: string[] = []

  private constructor(client: Client) {
    this.#client = client
    client.on('notice', ({ message }) => {
      if (message !== undefined) this.#messages.push(message)
    })
  }

  static async open(db: TestDatabase, role: string): Promise<PlanRecorder> {
    const client = await db.connect()
    await client.query(`LOAD 'auto_explain'`)
    for (const [name, value] of Object.entries(RECORDING)) await client.query(`SET auto_explain.${name} = ${value}`)
    await client.query(`SET ROLE ${role}`)
    return new PlanRecorder(client)
  }

  /** Runs a call, commits it and returns its plans. */
  async run(sql: string, values: readonly unknown[] = []): Promise<Execution> {
    await this.#client.query('BEGIN')
    const before = await this.#sequentialScans()
    this.#messages.length = 0
    await this.#client.query(sql, [...values])
    const messages = [...this.#messages]
    const after = await this.#sequentialScans()
    await this.#client.query('COMMIT')
    const statements = messages.flatMap(readStatement)
    const outermost = statements.at(-1)
    if (outermost === undefined) throw new Error(`auto_explain reported nothing about ${sql}`)
    return {
      statements,
      buffers: outermost.buffers,
      scanned: [...after].flatMap(([table, count]) => (count > (before.get(table) ?? 0n) ? [table] : [])),
    }
  }

  async close(): Promise<void> {
    await this.#client.end()
  }

  /** Reads the counters of this transaction. */
  async #sequentialScans(): Promise<ReadonlyMap<string, bigint>> {
    const { rows } = await this.#client.query<{ relname: string; seq_scan: bigint }>(
      'SELECT relname, seq_scan FROM pg_stat_xact_user_tables WHERE seq_scan > 0',
    )
    return new Map(rows.map(({ relname, seq_scan: count }) => [relname, count]))
  }
}

const RECORDING: Readonly<Record<string, string>> = {
  log_min_duration: '0',
  log_analyze: 'on',
  log_buffers: 'on',
  log_timing: 'off',
  log_nested_statements: 'on',
  log_format: 'json',
  log_level: 'notice',
}

interface PlanJson {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Index Cond'?: string
  readonly 'Actual Loops': number
  readonly 'Actual Rows': number
  readonly 'Rows Removed by Filter'?: number
  readonly 'Rows Removed by Index Recheck'?: number
  readonly 'Shared Hit Blocks': number
  readonly 'Shared Read Blocks': number
  readonly Plans?: readonly PlanJson[]
}

function readStatement(message: string): ExecutedStatement[] {
  const at = message.indexOf('plan:\n')
  if (!message.startsWith('duration: ') || at === -1) return []
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the shape is auto_explain's
  const { 'Query Text': query, Plan: plan } = JSON.parse(message.slice(at + 6)) as {
    'Query Text': string
    Plan: PlanJson
  }
  return [{ query, nodes: nodesOf(plan), buffers: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'] }]
}

/** Flattens a plan. A bitmap index scan names no table, so its node takes the table of the parent. */
function nodesOf(plan: PlanJson, table?: string): PlanNode[] {
  const { 'Actual Loops': loops, 'Relation Name': relation = table } = plan
  const perLoop =
    plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0) + (plan['Rows Removed by Index Recheck'] ?? 0)
  const node = {
    type: plan['Node Type'],
    relation,
    index: plan['Index Name'],
    isLookUp: plan['Index Cond'] !== undefined,
    loops,
    rows: perLoop * loops,
  }
  const inherited = node.type.startsWith('Bitmap') ? relation : undefined
  return [node, ...(plan.Plans ?? []).flatMap((child) => nodesOf(child, inherited))]
}

export function scansOf({ statements }: Execution, table: string): PlanNode[] {
  return statements.flatMap(({ nodes }) =>
    nodes.filter(({ relation, type }) => relation === table && type.endsWith('Scan')),
  )
}

/**
 * Returns the indexes that each statement used on the large tables, sorted by name, and whether each has a condition.
 * Join order, bitmaps and caches are left out, because the planner may choose them.
 */
export function indexesOf({ statements }: Execution, tables: readonly string[]): string[] {
  return statements.flatMap(({ nodes }) => {
    const indexes = nodes
      .filter(
        ({ type, relation }) => type.endsWith('Scan') && type !== 'Bitmap Heap Scan' && tables.includes(relation ?? ''),
      )
      .map(({ type, relation, index, isLookUp }) =>
        index === undefined ? `${type} of ${relation}` : `${index}${isLookUp ? '' : ' from its beginning'}`,
      )
    return indexes.length === 0 ? [] : [indexes.toSorted().join(', ')]
  })
}

/**
 * Inserts many rows with the indexes disabled and rebuilds them afterwards, which halves the time. Needs a superuser.
 */
export async function insertMany(client: ClientBase, table: string, sql: string): Promise<void> {
  const setReady = `UPDATE pg_index SET indisready = $1 WHERE indrelid = $2::regclass`
  await client.query('BEGIN')
  await client.query(setReady, [false, table])
  await client.query(sql)
  await client.query(setReady, [true, table])
  await client.query(`REINDEX TABLE ${table}`)
  await client.query('COMMIT')
}
