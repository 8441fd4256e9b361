import type { Database } from '../db/index.js'
import { readInboxFigures } from '../inbox/index.js'
import { readLeaseFigures } from '../lease/index.js'
import type { SystemStatus } from '../observability/index.js'
import { readDispatchEpoch, readOutboxStatus } from '../outbox/index.js'
import { readSchedulerFigures } from '../scheduler/index.js'

/** How everything stands, by one connection: a look must not take the pool from those who work. */
export async function readSystemStatus(database: Pick<Database, 'as' | 'poolUse'>): Promise<SystemStatus> {
  // Before the look has a connection of its own.
  const pools = database.poolUse
  return database.as('symphony_readonly').transaction(async (tx) => {
    // Sent one behind the other, without waiting for each answer.
    const [outbox, epoch, inbox, scheduler, leases] = await Promise.all([
      readOutboxStatus(tx),
      readDispatchEpoch(tx),
      readInboxFigures(tx),
      readSchedulerFigures(tx),
      readLeaseFigures(tx),
    ])
    return { outbox, epoch, inbox, scheduler, leases, pools }
  })
}
