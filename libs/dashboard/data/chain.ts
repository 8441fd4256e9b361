import type { Chain, ChainLink } from '../../http/index.js'

/**
 * The hash chain of one payment, recomputed here, in the reader's own browser, from the text the server sent. The format is
 * described in docs/internals/ledger-chain.md. A link is sound if it is numbered after the one before, names its hash, is
 * about this payment, and its own hash comes out of its content.
 */
export type LinkDefect =
  | 'it has no hash'
  | 'its content differs from its hash'
  | 'it does not follow the one before'
  | 'a number is missing before it'
  | 'it is about another payment'

export interface CheckedLink {
  readonly position: string
  readonly hash: string | null
  /** Undefined: sound. */
  readonly defect: LinkDefect | undefined
  /** A field of it is masked: that it follows the one before was checked, its own hash could not be. */
  readonly isMasked: boolean
}

export interface CheckedChain {
  /** The identity, then the attempts. */
  readonly ledger: readonly CheckedLink[]
  /** The events: a chain of their own. */
  readonly events: readonly CheckedLink[]
}

/** Where the fields hold the id of the payment, by the order that the format gives them. */
const OUTBOX_ID_AT = { identity: 0, attempt: 1, event: 1 }
const IDENTITY = 'identity'

export async function checkChain({ outboxId, identity, attempts, events }: Chain): Promise<CheckedChain> {
  const isAbout = (fields: readonly (string | null)[], at: number) => fields[at] === outboxId
  const first: CheckedLink = {
    position: IDENTITY,
    hash: identity.rowHash,
    isMasked: false,
    defect: isAbout(identity.fields, OUTBOX_ID_AT.identity)
      ? await contentDefect(identity.fields, identity.rowHash)
      : 'it is about another payment',
  }
  const check = async (kind: 'attempt' | 'event', links: readonly ChainLink[], firstHash: string | null) => {
    const checked: CheckedLink[] = []
    let previous = { number: 0n, hash: firstHash }
    for (const link of links) {
      const defect = isAbout(link.fields, OUTBOX_ID_AT[kind])
        ? await linkDefect(link, previous)
        : 'it is about another payment'
      checked.push({ position: `${kind} ${link.number}`, hash: link.rowHash, defect, isMasked: link.masked })
      previous = { number: BigInt(link.number), hash: link.rowHash }
    }
    return checked
  }
  return {
    ledger: [first, ...(await check('attempt', attempts, identity.rowHash))],
    events: await check('event', events, null),
  }
}

/** The first place where the chain breaks; undefined if it holds. */
export function firstBreak({ ledger, events }: CheckedChain): CheckedLink | undefined {
  return [...ledger, ...events].find(({ defect }) => defect !== undefined)
}

async function linkDefect(
  { number, fields, masked, prevHash, rowHash }: ChainLink,
  previous: { readonly number: bigint; readonly hash: string | null },
): Promise<LinkDefect | undefined> {
  if (BigInt(number) !== previous.number + 1n) return 'a number is missing before it'
  if (prevHash !== previous.hash) return 'it does not follow the one before'
  return masked && rowHash !== null ? undefined : contentDefect([prevHash, ...fields], rowHash)
}

async function contentDefect(
  fields: readonly (string | null)[],
  rowHash: string | null,
): Promise<LinkDefect | undefined> {
  if (rowHash === null) return 'it has no hash'
  return (await canonicalHash(fields)) === rowHash ? undefined : 'its content differs from its hash'
}

/** Each field as its length in bytes, a colon, the bytes and a comma; a null field has no length. */
export async function canonicalHash(fields: readonly (string | null)[]): Promise<string> {
  const encoder = new TextEncoder()
  const canonical = fields.map((field) => (field === null ? ':,' : `${encoder.encode(field).length}:${field},`))
  const digest = await crypto.subtle.digest('SHA-256', encoder.encode(canonical.join('')))
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
