import type { Queryable } from '../db/index.js'
import type { AttemptLink, EventLink, IdentityLink } from './chain.js'
import { readAttempts, readEventsOf, readIdentity } from './db.js'

/** Everything the hashes of one item are taken over. */
export interface ItemChain {
  readonly identity: IdentityLink
  readonly attempts: readonly AttemptLink[]
  readonly events: readonly EventLink[]
}

/** For whoever recomputes them elsewhere, such as a browser. Payloads included: reads as symphony_auditor. */
export async function readItemChain(role: Queryable, outboxId: string): Promise<ItemChain | undefined> {
  const identity = await readIdentity(role, outboxId)
  if (identity === undefined) return undefined
  return { identity, attempts: await readAttempts(role, [outboxId]), events: await readEventsOf(role, outboxId) }
}
