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
  return database.as('symphony_readonly').transaction(async (tx) => ({
    outbox: await readOutboxStatus(tx),
    epoch: await readDispatchEpoch(tx),
    inbox: await readInboxFigures(tx),
    scheduler: await readSchedulerFigures(tx),
    leases: await readLeaseFigures(tx),
    pools,
  }))
}
