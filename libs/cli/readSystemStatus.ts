import type { Database } from '../db/index.js'
import { readInboxFigures } from '../inbox/index.js'
import { readLeaseFigures } from '../lease/index.js'
import type { SystemStatus } from '../observability/index.js'
import { readOutboxStatus } from '../outbox/index.js'
import { readSchedulerFigures } from '../scheduler/index.js'

/** How everything stands, by one connection: a look must not take the pool from those who work. */
export async function readSystemStatus(database: Pick<Database, 'as' | 'poolUse'>): Promise<SystemStatus> {
  const readonly = database.as('symphony_readonly')
  const outbox = await readOutboxStatus(readonly)
  const inbox = await readInboxFigures(readonly)
  const scheduler = await readSchedulerFigures(readonly)
  const leases = await readLeaseFigures(readonly)
  return { outbox, inbox, scheduler, leases, pools: database.poolUse }
}
