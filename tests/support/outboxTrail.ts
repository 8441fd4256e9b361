import { foldTrail, type PendingRow } from '../../libs/outbox/foldTrail.js'
import { readTrails } from '../../libs/outbox/reads/replay.js'
import type { TestDatabase } from './database.js'

/** Pending items by id: computed from their events (`folded`), and read from the queue (`pending`). */
export interface TrailAndQueue {
  readonly folded: ReadonlyMap<string, PendingRow>
  readonly pending: ReadonlyMap<string, Partial<PendingRow>>
}

/** Computes every pending item from its events. Reads them as superuser, who may also read lease tokens. */
export async function foldTrails(db: TestDatabase): Promise<TrailAndQueue> {
  const superuser = { schema: db.schema, query: db.queryNoRole.bind(db) }
  const trails = await readTrails(superuser, await itemIds(db), [])
  const folded = new Map<string, PendingRow>()
  const pending = new Map<string, Partial<PendingRow>>()
  for (const trail of trails) {
    const { row } = foldTrail(trail.identity, trail.events)
    if (row !== null) folded.set(trail.identity.outbox_id, row)
    if (trail.pending !== null) pending.set(trail.identity.outbox_id, trail.pending)
  }
  return { folded, pending }
}

export async function itemIds(db: TestDatabase): Promise<readonly string[]> {
  const { rows } = await db.queryNoRole<{ id: string }>('SELECT outbox_id AS id FROM payment_outbox_identities')
  return rows.map(({ id }) => id)
}
