import { call, onlyRow, qualify, type Queryable } from '../../db/index.js'

/** Progress of the hashes of destinations. */
export interface Hashing {
  /** Name of the key that made the stored hashes; null before the first hash. */
  readonly keyName: string | null
  /** Number of projected blocks whose destinations are not hashed. */
  readonly blocksBehind: bigint
}

export async function readHashing(role: Queryable): Promise<Hashing> {
  const { rows } = await role.query<Hashing>(
    `SELECT p.hash_key AS "keyName", p.last_block - p.hashed_block AS "blocksBehind"
     FROM ${qualify(role, 'ledger_projection')} p`,
  )
  return onlyRow(rows)
}

/** Destinations of the payments whose identities are in a block. */
export interface BlockDestinations {
  readonly blockNo: bigint
  readonly destinations: readonly { readonly outboxId: string; readonly destination: string }[]
}

/**
 * Reads the next projected block without hashes; undefined if there is none. Leaves out encrypted and forbidden
 * destinations: their hashes would remain after a person's key was destroyed.
 */
export async function readNextDestinations(role: Queryable): Promise<BlockDestinations | undefined> {
  const { rows } = await role.query<{ blockNo: bigint; entries: Buffer }>(
    `SELECT b.block_no AS "blockNo", b.entries FROM ${qualify(role, 'ledger_projection')} p
     JOIN ${qualify(role, 'payment_outbox_blocks')} b ON b.block_no = p.hashed_block + 1
     WHERE p.hashed_block < p.last_block`,
  )
  const [block] = rows
  if (block === undefined) return undefined
  const ids = identitiesIn(block.entries)
  const destinations: { outboxId: string; destination: string }[] = []
  for (let from = 0; from < ids.length; from += CHUNK) {
    destinations.push(...(await readDestinations(role, ids.slice(from, from + CHUNK))))
  }
  return { blockNo: block.blockNo, destinations }
}

/** Returns the ids of the entries of kind 1. An entry is kind (2 bytes), id (16), transaction (8) and hash (32). */
function identitiesIn(entries: Buffer): string[] {
  const ids: string[] = []
  for (let at = 0; at < entries.length; at += ENTRY_BYTES) {
    if (entries.readInt16BE(at) === 1) ids.push(entries.toString('hex', at + 2, at + 18))
  }
  return ids
}

async function readDestinations(
  role: Queryable,
  ids: readonly string[],
): Promise<{ outboxId: string; destination: string }[]> {
  const { rows } = await role.query<{ outboxId: string; destination: string }>(
    `SELECT d.outbox_id AS "outboxId", d.payload ->> 'destination' AS destination
     FROM (
       SELECT i.outbox_id, i.rail_type, COALESCE(p.payload, a.payload) AS payload
       FROM ${qualify(role, 'payment_outbox_identities')} i
       LEFT JOIN ${qualify(role, 'payment_outbox_pending')} p ON p.outbox_id = i.outbox_id
       LEFT JOIN LATERAL (
         SELECT t.payload FROM ${qualify(role, 'payment_outbox_attempts')} t
         WHERE t.outbox_id = i.outbox_id ORDER BY t.attempt_no DESC LIMIT 1
       ) a ON true
       WHERE i.outbox_id = ANY ($1::uuid[]) AND NOT i.is_message
     ) d
     WHERE jsonb_typeof(d.payload -> 'destination') = 'string'
       AND NOT starts_with(d.payload ->> 'destination', 'symphony.sealed.')
       AND NOT EXISTS (SELECT 1 FROM ${qualify(role, 'outbox_rails')} r WHERE r.rail_type = d.rail_type
         AND ARRAY[r.fields ->> '/destination', r.fields ->> '/*'] && '{encrypted,forbidden}')`,
    [ids],
  )
  return rows
}

interface HashedBlock {
  readonly blockNo: bigint
  readonly keyName: string
  readonly hashes: readonly { readonly outboxId: string; readonly hmac: Buffer }[]
}

/** Stores the hashes of a block. Returns false if another process stored them, or a rebuild began. */
export async function storeSearchDestinations(
  role: Queryable,
  { blockNo, keyName, hashes }: HashedBlock,
): Promise<boolean> {
  const rows = await call<{ store_search_destinations: boolean }>(role, 'store_search_destinations', [
    blockNo,
    keyName,
    hashes.map(({ outboxId }) => outboxId),
    hashes.map(({ hmac }) => hmac),
  ])
  return onlyRow(rows).store_search_destinations
}

const ENTRY_BYTES = 58
const CHUNK = 1_000
