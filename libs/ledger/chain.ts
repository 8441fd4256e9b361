import { createHash } from 'node:crypto'

/**
 * The hash chain, recomputed from exported text. Nothing here asks the database's own functions: who could change a row could
 * change those too. The format is described in docs/internals/ledger-chain.md.
 */

/** The fields of an identity in canonical order, each as text or null, and the hash the row carries. */
export interface IdentityLink {
  readonly outboxId: string
  readonly fields: readonly (string | null)[]
  readonly rowHash: string | null
}

/** The fields of an attempt after its predecessor's hash, in canonical order. */
export interface AttemptLink {
  readonly outboxId: string
  readonly attemptNo: number
  readonly fields: readonly (string | null)[]
  readonly prevHash: string | null
  readonly rowHash: string | null
}

export interface EventLink {
  /** The item, or the scope, whose events form one chain. */
  readonly subject: string
  readonly eventNo: string
  readonly fields: readonly (string | null)[]
  readonly prevHash: string | null
  readonly rowHash: string | null
}

/** Where a chain breaks, and how. */
export interface ChainBreak {
  readonly table: 'payment_outbox_identities' | 'payment_outbox_attempts' | 'payment_outbox_events'
  readonly subject: string
  readonly position: string
  readonly why: 'no hash' | 'content differs from its hash' | 'does not follow its predecessor' | 'number missing'
}

export function identityBreak({ outboxId, fields, rowHash }: IdentityLink): ChainBreak | undefined {
  const why = contentDefect(fields, rowHash)
  return why && { table: 'payment_outbox_identities', subject: outboxId, position: 'identity', why }
}

/** `previous`: the attempt before of the same item, or for the first the hash of its identity. */
export function attemptBreak(
  link: AttemptLink,
  previous: { readonly attemptNo: number; readonly hash: string | null },
): ChainBreak | undefined {
  const { outboxId, attemptNo, fields, prevHash, rowHash } = link
  const why =
    attemptNo !== previous.attemptNo + 1
      ? 'number missing'
      : prevHash !== previous.hash
        ? 'does not follow its predecessor'
        : contentDefect([prevHash, ...fields], rowHash)
  return why && { table: 'payment_outbox_attempts', subject: outboxId, position: `attempt ${attemptNo}`, why }
}

export function eventBreak(
  link: EventLink,
  previous: { readonly eventNo: string; readonly hash: string | null },
): ChainBreak | undefined {
  const { subject, eventNo, fields, prevHash, rowHash } = link
  const why =
    BigInt(eventNo) !== BigInt(previous.eventNo) + 1n
      ? 'number missing'
      : prevHash !== previous.hash
        ? 'does not follow its predecessor'
        : contentDefect([prevHash, ...fields], rowHash)
  return why && { table: 'payment_outbox_events', subject, position: `event ${eventNo}`, why }
}

function contentDefect(fields: readonly (string | null)[], rowHash: string | null): ChainBreak['why'] | undefined {
  if (rowHash === null) return 'no hash'
  return canonicalHash(fields) === rowHash ? undefined : 'content differs from its hash'
}

/** Each field as its length in bytes, a colon, the bytes and a comma; a null field has no length. */
export function canonicalHash(fields: readonly (string | null)[]): string {
  const canonical = fields.map((field) => (field === null ? ':,' : `${Buffer.byteLength(field)}:${field},`)).join('')
  return createHash('sha256').update(canonical).digest('hex')
}
