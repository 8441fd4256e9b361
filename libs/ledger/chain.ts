import { hash } from 'node:crypto'

/**
 * The hash chain, recomputed from exported text. Nothing here asks the database's own functions: who could change a row could
 * change those too. The format is described in docs/internals/ledger-chain.md.
 */

export type RowKind = 'identity' | 'attempt' | 'event'

/** A field as text: times are microseconds, hashes hexadecimal, a lease token only its SHA-256. */
export type Field = string | null

/** A row of the ledger as text: all of it that is hashed, in the order in which it is. */
export interface RowText {
  readonly kind: RowKind
  readonly id: string
  /** The transaction that wrote it, in decimal. */
  readonly xid: string
  /** Without the predecessor's hash, which is hashed first. */
  readonly fields: readonly Field[]
  /** Always null for an identity: it is the first link. */
  readonly prevHash: string | null
  readonly rowHash: string | null
  /** Columns of an attempt that no hash covers; undefined for the other kinds. */
  readonly unsealed?: UnsealedColumns | undefined
}

export interface UnsealedColumns {
  readonly action: Field
  readonly outcomeUnknown: Field
}

/** A row seen only as a link of the chain that it belongs to. */
export interface Link {
  readonly kind: RowKind
  /** The item that the row is about, or the scope of an event that is about none. */
  readonly subject: string
  /** 0 for an identity, otherwise the number of the attempt or event. */
  readonly number: bigint
  readonly prevHash: string | null
  readonly rowHash: string | null
  /** Whether it is an attempt that ends its item. */
  readonly ends: boolean
}

/** A row as the verifier sees it, wherever it was read: its text, its place in its chain, and its hash computed anew. */
export interface LedgerRow extends RowText, Link {
  readonly kind: RowKind
  readonly prevHash: string | null
  readonly rowHash: string | null
  contentHash(): string
  /** Writes what a block keeps of it. */
  writeEntry(target: Buffer, at: number): void
}

export const TABLE_OF = Object.freeze({
  identity: 'payment_outbox_identities',
  attempt: 'payment_outbox_attempts',
  event: 'payment_outbox_events',
})

/** Where the fields that name a row stand among its fields. */
const NAMING = {
  identity: { subject: [0], number: undefined },
  attempt: { subject: [1], number: 8 },
  event: { subject: [1, 2], number: 3 },
} as const

/** Where an attempt's fields hold what it was sent to, and what was sent. */
export const ATTEMPT_FIELDS = Object.freeze({ railType: 6, payload: 7 })

/** How many fields a row has besides its predecessor's hash. */
export const FIELD_COUNT = Object.freeze({ identity: 10, attempt: 20, event: 9 })

/** The item that the row is about, or the scope of an event that is about none. */
export function subjectOf({ kind, fields }: Pick<RowText, 'kind' | 'fields'>): string {
  for (const at of NAMING[kind].subject) {
    const field = fields[at]
    if (field !== null && field !== undefined) return field
  }
  return ''
}

/** 0 for an identity, otherwise the number of the attempt or event. */
export function numberOf({ kind, fields }: Pick<RowText, 'kind' | 'fields'>): bigint {
  const at = NAMING[kind].number
  return at === undefined ? 0n : BigInt(fields[at] ?? 0)
}

/** `identity`, `attempt 3`, `event 2`: the place of a row in what is about its subject. */
export function placeOf(kind: RowKind, number: bigint): string {
  return kind === 'identity' ? 'identity' : `${kind} ${number}`
}

/** Whether an attempt in this state is the last one of its item. */
export function endsItem(state: Field | undefined): boolean {
  return state === 'DISPATCHED' || state === 'FAILED'
}

/** What is wrong with a row by itself, if anything. */
export function contentDefect(row: LedgerRow): string | undefined {
  const { rowHash } = row
  if (rowHash === null) return 'no hash'
  return row.contentHash() === rowHash ? undefined : 'content differs from its hash'
}

export function canonicalHash(fields: readonly Field[]): string {
  return hash('sha256', canonicalText(fields))
}

/** Each field as its length in bytes, a colon, the bytes and a comma; a null field has no length. */
export function canonicalText(fields: readonly Field[]): string {
  return fields.map((field) => (field === null ? ':,' : `${Buffer.byteLength(field)}:${field},`)).join('')
}
