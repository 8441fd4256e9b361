import type { Client, ClientBase } from 'pg'
import type { TestDatabase } from './database.js'

/**
 * Plans as PostgreSQL executed them inside our functions: an EXPLAIN of a call shows a function scan and nothing else.
 * The extension auto_explain reports each nested statement with its rows and buffers.
 */
export interface ExecutedStatement {
  readonly query: string
  readonly nodes: readonly PlanNode[]
  /** Pages looked at, found in memory or read; those of nested statements included. */
  readonly buffers: number
}

export interface PlanNode {
  readonly type: string
  readonly relation: string | undefined
  readonly index: string | undefined
  /** Whether the index was entered at a place, rather than read from its beginning. */
  readonly isLookUp: boolean
  readonly loops: number
  /** Rows that were looked at, whether or not they were wanted. */
  readonly rows: number
}

export interface Execution {
  /** Outermost last, as they ended. */
  readonly statements: readonly ExecutedStatement[]
  /** Of the call itself: everything in it together. */
  readonly buffers: number
  /** Tables that were read from end to end, by PostgreSQL's own counters, which do not depend on a plan. */
  readonly scanned: readonly string[]
}

/** A connection in a role, which reports what happens inside the functions it calls. */
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

  /** Calls, and looks inside. What the call did stays done. */
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

  /** Of this transaction so far. */
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

/** The scan of an index for a bitmap does not say which table it is for; its parent does. */
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

/** The scans of one table, wherever they happened. */
export function scansOf({ statements }: Execution, table: string): PlanNode[] {
  return statements.flatMap(({ nodes }) =>
    nodes.filter(({ relation, type }) => relation === table && type.endsWith('Scan')),
  )
}

/**
 * Which way each statement went to the large tables: the indexes it used, in the order of their names, and whether it entered
 * them at a place. Join order, bitmaps and caches in front of a look-up are left to the planner.
 */
export function waysOf({ statements }: Execution, tables: readonly string[]): string[] {
  return statements.flatMap(({ nodes }) => {
    const ways = nodes
      .filter(
        ({ type, relation }) => type.endsWith('Scan') && type !== 'Bitmap Heap Scan' && tables.includes(relation ?? ''),
      )
      .map(({ type, relation, index, isLookUp }) =>
        index === undefined ? `${type} of ${relation}` : `${index}${isLookUp ? '' : ' from its beginning'}`,
      )
    return ways.length === 0 ? [] : [ways.toSorted().join(', ')]
  })
}

/**
 * Inserts many rows with the indexes set aside, and builds them afterwards: half the time. Only a superuser of a test can.
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
