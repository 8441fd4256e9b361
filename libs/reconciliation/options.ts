import { boundedInteger, InvalidArgumentError, requiredId, requireKnownOptions } from '../core/index.js'
import type { DecryptPayload, LoadedRail, RailPayment } from '../rails/index.js'
import type { Queryable } from '../db/index.js'
import {
  STATEMENT_FORMATS,
  type ReadStatementOptions,
  type StatementColumns,
  type StatementFormat,
} from './statements/types.js'

export interface ReconcileOptions extends Omit<ReadStatementOptions, 'format'> {
  /** Type of the rail whose payments are on the statement. */
  readonly rail: string
  /** Bytes of the statement, such as a file stream. @default the list of the rail's `listPayments` */
  readonly statement?: AsyncIterable<Uint8Array>
  /** Format of the statement. Required with a statement. */
  readonly format?: StatementFormat
  /** Start of the period. @default the start in the statement */
  readonly from?: Date
  /** End of the period, exclusive. @default the end in the statement */
  readonly to?: Date
  /** Days within which a dispatched payment must be on a statement. @default the rail's, or 1 */
  readonly settlementDays?: number
  /**
   * Whether to store debits that name none of our payments. Such a debit may name other people.
   * @default false: only count and sum
   */
  readonly keepUnknown?: boolean
  /** Whether to compare without recording anything. @default false */
  readonly dryRun?: boolean
  /** Signal that aborts the run until the comparison begins. An aborted run records nothing. */
  readonly signal?: AbortSignal
}

/** Rail and keys of the process that reconciles. */
export interface ReconcileTools {
  /** Rail, if this process has loaded it. */
  readonly rail?: Partial<Pick<LoadedRail, 'listPayments' | 'accountOf' | 'settlementDays' | 'fields'>> | undefined
  /** Decrypts payloads. Without the master keys, returns `FIELD_KEY_MISSING`. */
  readonly vault: { decrypter(role: Queryable, rail: Pick<LoadedRail, 'fields' | 'subject'>): DecryptPayload }
}

/** Validated options. */
export interface ReconciliationPlan {
  readonly railType: string
  readonly format: StatementFormat | 'rail'
  readonly statement: AsyncIterable<Uint8Array>
  readonly reading: ReadStatementOptions
  readonly from: Date | undefined
  readonly to: Date | undefined
  readonly settlementDays: number
  readonly keepUnknown: boolean
  readonly dryRun: boolean
  readonly signal: AbortSignal
}

export function planReconciliation(options: ReconcileOptions, { rail }: ReconcileTools): ReconciliationPlan {
  requireKnownOptions(options, RECONCILE_OPTIONS)
  const { statement, format, from, to, keepUnknown = false, dryRun = false } = options
  const { signal = new AbortController().signal } = options
  const railType = requiredId('rail', options.rail)
  for (const [name, time] of Object.entries({ from, to })) requireTime(name, time)
  if (from !== undefined && to !== undefined && from >= to)
    throw new InvalidArgumentError('to', 'expected a time after from')
  const { account, columns, decimal, dateFormat, referencePattern } = options
  const reading = {
    ...(account === undefined ? {} : { account }),
    ...(columns === undefined ? {} : { columns }),
    ...(decimal === undefined ? {} : { decimal }),
    ...(dateFormat === undefined ? {} : { dateFormat }),
    ...(referencePattern === undefined ? {} : { referencePattern }),
  }
  const settlementDays = boundedInteger('settlementDays', options.settlementDays ?? rail?.settlementDays ?? 1, DAYS)
  const common = { railType, from, to, settlementDays, keepUnknown, dryRun, signal }
  if (statement === undefined) {
    const listed = listedStatement(railType, rail, from, to, signal)
    return { ...common, statement: listed, format: 'rail', reading: { ...reading, format: 'ndjson' } }
  }
  if (!isAsyncIterable(statement)) throw new InvalidArgumentError('statement', 'expected a stream of bytes')
  if (format === undefined) throw new InvalidArgumentError('format', `expected ${STATEMENT_FORMATS.join(', ')}`)
  return { ...common, statement, format, reading: { ...reading, format } }
}

/** Returns the payments that the rail lists, as NDJSON, so that one reader checks all entries. */
function listedStatement(
  railType: string,
  rail: ReconcileTools['rail'],
  from: Date | undefined,
  to: Date | undefined,
  signal: AbortSignal,
): AsyncIterable<Uint8Array> {
  if (rail?.listPayments === undefined) {
    throw new InvalidArgumentError(
      'statement',
      `expected a statement, because the rail ${railType} has no listPayments here`,
    )
  }
  if (from === undefined || to === undefined) {
    throw new InvalidArgumentError('from', 'expected from and to, because there is no statement with a period')
  }
  return linesOf(rail.listPayments({ from, to }, { signal }))
}

async function* linesOf(payments: AsyncIterable<RailPayment>): AsyncGenerator<Uint8Array> {
  for await (const payment of payments) {
    const direction = payment.reversal === true ? 'credit' : 'debit'
    yield Buffer.from(`${JSON.stringify({ ...payment, direction })}\n`)
  }
}

function requireTime(name: string, time: Date | undefined): void {
  if (time === undefined || (time instanceof Date && !Number.isNaN(time.getTime()))) return
  throw new InvalidArgumentError(name, 'expected a valid Date')
}

function isAsyncIterable(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value
}

/** Timeout of the comparison and of its lock, because a statement with millions of entries takes minutes. */
export const RECONCILE_TIMEOUT_MS = 3_600_000

const DAYS = Object.freeze({ min: 0, max: 60 })

const RECONCILE_OPTIONS: readonly string[] = Object.keys({
  rail: true,
  statement: true,
  format: true,
  account: true,
  columns: true,
  decimal: true,
  dateFormat: true,
  referencePattern: true,
  from: true,
  to: true,
  settlementDays: true,
  keepUnknown: true,
  dryRun: true,
  signal: true,
} satisfies Record<keyof ReconcileOptions, true>)

/** Parses a list such as `reference=Zweck,amount=Betrag`. The reader checks the names. */
export function parseStatementColumns(argument: string, text: string): StatementColumns {
  const columns = text.split(',').map((part) => {
    const equals = part.indexOf('=')
    if (equals < 1) throw new InvalidArgumentError(argument, 'expected a list such as reference=Zweck,amount=Betrag')
    return [part.slice(0, equals).trim(), part.slice(equals + 1).trim()]
  })
  return Object.fromEntries(columns)
}
