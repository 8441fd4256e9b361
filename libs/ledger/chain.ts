import { createHash } from 'node:crypto'

/**
 * The hash chain, recomputed from exported text. Nothing here asks the database's own functions: who could change a row could
 * change those too. The format is described in docs/internals/ledger-chain.md.
 */

export type RowKind = 'identity' | 'attempt' | 'event'

/** A field as text: times are microseconds, hashes hexadecimal, a lease token only its SHA-256. */
export type Field = string | null

/** A row of the ledger as text: all of it that is hashed, in the order in which it is. */
export interface LedgerRow {
  readonly kind: RowKind
  readonly id: string
  /** The transaction that wrote it, in decimal. */
  readonly xid: string
  /** Without the predecessor's hash, which is hashed first. */
  readonly fields: readonly Field[]
  /** Always null for an identity: it is the first link. */
  readonly prevHash: string | null
  readonly rowHash: string | null
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
export function subjectOf({ kind, fields }: LedgerRow): string {
  for (const at of NAMING[kind].subject) {
    const field = fields[at]
    if (field !== null && field !== undefined) return field
  }
  return ''
}

/** 0 for an identity, otherwise the number of the attempt or event. */
export function numberOf({ kind, fields }: LedgerRow): bigint {
  const at = NAMING[kind].number
  return at === undefined ? 0n : BigInt(fields[at] ?? 0)
}

/** `identity`, `attempt 3`, `event 2`: the place of a row in what is about its subject. */
export function placeOf(kind: RowKind, number: bigint): string {
  return kind === 'identity' ? 'identity' : `${kind} ${number}`
}

/** What is wrong with a row by itself, if anything. */
export function contentDefect({ kind, fields, prevHash, rowHash }: LedgerRow): string | undefined {
  if (rowHash === null) return 'no hash'
  const hashed = kind === 'identity' ? fields : [prevHash, ...fields]
  return canonicalHash(hashed) === rowHash ? undefined : 'content differs from its hash'
}

export function canonicalHash(fields: readonly Field[]): string {
  return createHash('sha256').update(canonicalText(fields)).digest('hex')
}

/** Each field as its length in bytes, a colon, the bytes and a comma; a null field has no length. */
export function canonicalText(fields: readonly Field[]): string {
  return fields.map((field) => (field === null ? ':,' : `${Buffer.byteLength(field)}:${field},`)).join('')
}
