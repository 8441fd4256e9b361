import { createHash } from 'node:crypto'
import { qualify, type Queryable } from '../../libs/db/index.js'

/**
 * The ledger's hash chain, recomputed as an auditor would: from exported text, by the description in
 * docs/internals/ledger-chain.md, and with none of the database's own functions. Were a hash taken over something that
 * depends on the session that wrote it, it would not come out here.
 */
export interface LedgerText {
  readonly identities: readonly TextRow<IdentityField>[]
  readonly attempts: readonly TextRow<AttemptField>[]
  readonly events: readonly TextRow<EventField>[]
  /** What is still in the queue: where the payload of an item without attempts is. */
  readonly pending: readonly { readonly outbox_id: string; readonly payload: string }[]
}

export type TextRow<Field extends string> = Readonly<Record<Field | 'row_hash', string | null>>

/** The fields of each kind of row, in the order in which they are hashed. */
const CONTENT = ['participant_id', 'rail_type', 'payload'] as const
const IDENTITY = [
  'outbox_id',
  'instruction_id',
  'idempotency_key',
  'participant_id',
  'sequence_id',
  'rail_type',
  'ordered',
  'redrive_of',
  'content_hash',
  'created_at',
] as const
const ATTEMPT = [
  'prev_hash',
  'attempt_id',
  'outbox_id',
  'instruction_id',
  'participant_id',
  'sequence_id',
  'idempotency_key',
  'rail_type',
  'payload',
  'attempt_no',
  'state',
  'claimed_at',
  'completed_at',
  'rail_reference',
  'rail_code',
  'error_code',
  'error_message',
  'latency_ms',
  'worker_id',
  'lease_token',
  'created_at',
] as const
const EVENT = [
  'prev_hash',
  'event_id',
  'outbox_id',
  'scope',
  'event_no',
  'event_type',
  'attempt_id',
  'actor',
  'detail',
  'created_at',
] as const
type IdentityField = (typeof IDENTITY)[number]
type AttemptField = (typeof ATTEMPT)[number]
type EventField = (typeof EVENT)[number]

/** All of the ledger as text, or what it says of some items, the same whatever the session is set to. */
export async function exportLedger(auditor: Queryable, among?: readonly string[]): Promise<LedgerText> {
  const [condition, values] = among === undefined ? ['', []] : ['WHERE t.outbox_id = ANY ($1)', [among]]
  const select = async <R>(columns: readonly string[], table: string, order: string): Promise<R[]> => {
    const { rows } = await auditor.query<R>(
      `SELECT ${columns.map(asText).join(', ')} FROM ${qualify(auditor, table)} t ${condition} ORDER BY ${order}`,
      values,
    )
    return rows
  }
  return {
    identities: await select([...IDENTITY, 'row_hash'], 'payment_outbox_identities', 't.outbox_id'),
    attempts: await select([...ATTEMPT, 'row_hash'], 'payment_outbox_attempts', 't.outbox_id, t.attempt_no'),
    events: await select([...EVENT, 'row_hash'], 'payment_outbox_events', 't.outbox_id, t.scope, t.event_no'),
    pending: await select(['outbox_id', 'payload'], 'payment_outbox_pending', 't.outbox_id'),
  }
}

function asText(column: string): string {
  if (column.endsWith('_hash')) return `encode(${column}, 'hex') AS ${column}`
  if (column.endsWith('_at')) return `to_char(${column} AT TIME ZONE 'UTC', '${TIME_FORMAT}') AS ${column}`
  return `${column}::text`
}

const TIME_FORMAT = 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'

/** What is wrong with the ledger; nothing when every hash, number and link is as it must be. */
export function ledgerDefects(ledger: LedgerText): string[] {
  return [...identityDefects(ledger), ...attemptDefects(ledger), ...eventDefects(ledger)]
}

function identityDefects({ identities, attempts, pending }: LedgerText): string[] {
  const defects: string[] = []
  const payloads = new Map([...pending, ...attempts].map((row) => [row.outbox_id, row.payload]))
  for (const row of identities) {
    const payload = payloads.get(row.outbox_id)
    if (payload === undefined) defects.push(`identity ${row.outbox_id}: neither pending nor attempted`)
    else if (row.content_hash !== rowHash({ ...row, payload }, CONTENT))
      defects.push(`identity ${row.outbox_id}: content_hash`)
    if (row.row_hash !== rowHash(row, IDENTITY)) defects.push(`identity ${row.outbox_id}: row_hash`)
  }
  return defects
}

function attemptDefects({ identities, attempts }: LedgerText): string[] {
  const defects: string[] = []
  const heads = new Map(identities.map((row) => [row.outbox_id, row.row_hash]))
  for (const [outboxId, rows] of groupBy(attempts, (row) => row.outbox_id)) {
    if (!heads.has(outboxId)) defects.push(`attempts of ${outboxId}: no identity`)
    defects.push(...linkDefects(`attempts of ${outboxId}`, rows, 'attempt_no', ATTEMPT, heads.get(outboxId) ?? null))
    const ended = rows.findIndex((row) => row.state === 'DISPATCHED' || row.state === 'FAILED')
    if (ended !== -1 && ended < rows.length - 1) defects.push(`attempts of ${outboxId}: something after the ending`)
  }
  return defects
}

function eventDefects({ events, identities }: LedgerText): string[] {
  const defects: string[] = []
  const known = new Set(identities.map((row) => row.outbox_id))
  for (const [subject, rows] of groupBy(events, (row) => row.outbox_id ?? `scope ${row.scope}`)) {
    if (rows[0]!.outbox_id !== null && !known.has(subject)) defects.push(`events of ${subject}: no identity`)
    defects.push(...linkDefects(`events of ${subject}`, rows, 'event_no', EVENT, null))
  }
  return defects
}

/** The rows of one chain: numbered without a gap, each with its own hash and that of the one before. */
function linkDefects<Field extends string>(
  chain: string,
  rows: readonly TextRow<Field | 'prev_hash'>[],
  number: Field,
  fields: readonly (Field | 'prev_hash')[],
  firstLink: string | null,
): string[] {
  return rows.flatMap((row, index) => {
    const expected = index === 0 ? firstLink : rows[index - 1]!.row_hash
    return [
      ...(row[number] === String(index + 1) ? [] : [`${chain}: row ${index + 1} is numbered ${row[number]}`]),
      ...(row.prev_hash === expected ? [] : [`${chain}: prev_hash of ${index + 1}`]),
      ...(row.row_hash === rowHash(row, fields) ? [] : [`${chain}: row_hash of ${index + 1}`]),
    ]
  })
}

/** Each field as its length in bytes, a colon, the bytes and a comma; a null has no length. */
function rowHash<Field extends string>(row: Readonly<Record<Field, string | null>>, fields: readonly Field[]): string {
  const content = fields.map((field) => {
    const value = canonicalValue(field, row[field])
    return value === null ? ':,' : `${Buffer.byteLength(value, 'utf8')}:${value},`
  })
  return createHash('sha256').update(content.join('')).digest('hex')
}

function canonicalValue(field: string, text: string | null): string | null {
  if (text === null) return null
  if (field.endsWith('_at')) return microsSince1970(text)
  if (field !== 'lease_token') return text
  if (!UUID.test(text)) return `not a token: ${text}`
  return createHash('sha256')
    .update(Buffer.from(text.replaceAll('-', ''), 'hex'))
    .digest('hex')
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** `2026-02-03T04:05:06.789123Z`. A Date would keep three of the six digits. */
function microsSince1970(time: string): string {
  const fraction = /\.(\d{6})Z$/.exec(time)?.[1]
  const milliseconds = Date.parse(`${time.slice(0, 19)}Z`)
  if (fraction === undefined || Number.isNaN(milliseconds)) return `not a time: ${time}`
  return String(BigInt(milliseconds) * 1_000n + BigInt(fraction))
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
