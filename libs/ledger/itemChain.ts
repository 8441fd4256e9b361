import type { Queryable } from '../db/index.js'
import type { LedgerRow } from './chain.js'
import { readItemRows } from './db.js'

/** Everything the hashes of one item are taken over. */
export interface ItemChain {
  readonly identity: LedgerRow
  readonly attempts: readonly LedgerRow[]
  readonly events: readonly LedgerRow[]
}

/** For whoever recomputes them elsewhere, such as a browser. Payloads included: reads as symphony_auditor. */
export async function readItemChain(role: Queryable, outboxId: string): Promise<ItemChain | undefined> {
  const [identity] = await readItemRows(role, 'identity', outboxId)
  if (identity === undefined) return undefined
  const attempts = await readItemRows(role, 'attempt', outboxId)
  return { identity, attempts, events: await readItemRows(role, 'event', outboxId) }
}
