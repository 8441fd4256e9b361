import { createHash } from 'node:crypto'
import { qualify, type Queryable } from '../../libs/db/index.js'

/*
 * Rules of every ledger, independent of blocks. The content hash of an identity matches its payload; attempts and
 * events have no gaps; no attempt follows a terminal one; each row belongs to an item. They are checked on text,
 * without functions of the database.
 */

export interface LedgerText {
  readonly identities: readonly TextRow<(typeof IDENTITY)[number]>[]
  readonly attempts: readonly TextRow<(typeof ATTEMPT)[number]>[]
  readonly events: readonly TextRow<(typeof EVENT)[number]>[]
  /** Queue rows, which hold the payload of an item without attempts. */
  readonly pending: readonly TextRow<(typeof PENDING)[number]>[]
}

type TextRow<Field extends string> = Readonly<Record<Field, string | null>>

/** Columns that are equal in all rows of one item. */
const COPIED = ['outbox_id', 'instruction_id', 'idempotency_key', 'participant_id', 'sequence_id', 'rail_type'] as const
const IDENTITY = [...COPIED, 'content_hash', 'redrive_of'] as const
const PENDING = [...COPIED, 'payload'] as const
const ATTEMPT = [...COPIED, 'payload', 'attempt_no', 'state', 'error_code'] as const
const EVENT = ['outbox_id', 'scope', 'event_no', 'event_type'] as const

/** Reads the whole ledger, or the rows of some items. */
export async function readLedgerText(auditor: Queryable, among?: readonly string[]): Promise<LedgerText> {
  const [condition, values] = among === undefined ? ['', []] : ['WHERE t.outbox_id = ANY ($1)', [among]]
  const select = async <R>(columns: readonly string[], table: string, order: string): Promise<R[]> => {
    const { rows } = await auditor.query<R>(
      `SELECT ${columns.map(asText).join(', ')} FROM ${qualify(auditor, table)} t ${condition} ORDER BY ${order}`,
      values,
    )
    return rows
  }
  return {
    identities: await select(IDENTITY, 'payment_outbox_identities', 't.outbox_id'),
    attempts: await select(ATTEMPT, 'payment_outbox_attempts', 't.outbox_id, t.attempt_no'),
    events: await select(EVENT, 'payment_outbox_events', 't.outbox_id, t.scope, t.event_no'),
    pending: await select(PENDING, 'payment_outbox_pending', 't.outbox_id'),
  }
}

function asText(column: string): string {
  return column.endsWith('_hash') ? `encode(t.${column}, 'hex') AS ${column}` : `t.${column}::text`
}

/** Returns one line per violation. */
export function brokenLedgerRules({ identities, attempts, events, pending }: LedgerText): string[] {
  const known = new Map(identities.map((row) => [row.outbox_id, row]))
  const places = new Set([...pending, ...attempts].map((row) => row.outbox_id))
  const broken = identities
    .filter((row) => !places.has(row.outbox_id))
    .map((row) => `identity ${row.outbox_id}: neither pending nor attempted`)
  for (const row of [...pending, ...attempts]) {
    const place =
      'attempt_no' in row ? `attempt ${String(row.attempt_no)} of ${row.outbox_id}` : `pending ${row.outbox_id}`
    const identity = known.get(row.outbox_id)
    if (identity === undefined) {
      broken.push(`${place}: no identity`)
      continue
    }
    if (contentHash(row) !== identity.content_hash) broken.push(`${place}: content_hash`)
    for (const column of COPIED) if (row[column] !== identity[column]) broken.push(`${place}: ${column}`)
  }
  for (const [outboxId, rows] of groupBy(attempts, (row) => row.outbox_id)) {
    broken.push(...numberGaps(`attempts of ${outboxId}`, rows, 'attempt_no'))
    const ended = rows.findIndex((row) => row.state === 'DISPATCHED' || row.state === 'FAILED')
    if (ended !== -1 && ended < rows.length - 1) broken.push(`attempts of ${outboxId}: a row after the terminal one`)
  }
  for (const [subject, rows] of groupBy(events, (row) => row.outbox_id ?? `scope ${row.scope}`)) {
    if (rows[0]!.outbox_id !== null && !known.has(subject)) broken.push(`events of ${subject}: no identity`)
    broken.push(...numberGaps(`events of ${subject}`, rows, 'event_no'))
  }
  return broken
}

function numberGaps<Field extends string>(subject: string, rows: readonly TextRow<Field>[], number: Field): string[] {
  return rows.flatMap((row, index) =>
    row[number] === String(index + 1) ? [] : [`${subject}: row ${index + 1} is numbered ${row[number]}`],
  )
}

/**
 * Returns the SHA-256 of participant, rail and payload, each as its length in bytes, a colon, the bytes and a comma.
 */
function contentHash(row: TextRow<'participant_id' | 'rail_type' | 'payload'>): string {
  const content = [row.participant_id, row.rail_type, row.payload]
    .map((text) => `${Buffer.byteLength(text ?? '', 'utf8')}:${text},`)
    .join('')
  return createHash('sha256').update(content).digest('hex')
}

function groupBy<R, K>(rows: readonly R[], key: (row: R) => K): Map<K, R[]> {
  const groups = new Map<K, R[]>()
  for (const row of rows) {
    const group = groups.get(key(row))
    if (group === undefined) groups.set(key(row), [row])
    else group.push(row)
  }
  return groups
}
