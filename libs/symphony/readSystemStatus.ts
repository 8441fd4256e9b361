import type { Database } from '../db/index.js'
import { readInboxStats } from '../inbox/index.js'
import { readLeaseStats } from '../lease/index.js'
import { readSealingStatus } from '../ledger/index.js'
import { readDatabaseTime, readDispatchEpoch, readOutboxStatus } from '../outbox/index.js'
import { readReconciliationStatus } from '../reconciliation/index.js'
import { readSchedulerStats } from '../scheduler/index.js'

/**
 * Reads the status of outbox, inbox, scheduler, leases, ledger and reconciliation over one connection, so that the
 * other connections stay free for the workers.
 */
export async function readSystemStatus(database: Pick<Database, 'as' | 'poolUsage'>) {
  // Reads the usage of the pools before the transaction below takes a connection.
  const pools = database.poolUsage
  return database.as('symphony_readonly').transaction(async (tx) => {
    // Sends all queries without waiting for each answer.
    const [at, outbox, epoch, inbox, scheduler, leases, sealing, reconciliation] = await Promise.all([
      readDatabaseTime(tx),
      readOutboxStatus(tx),
      readDispatchEpoch(tx),
      readInboxStats(tx),
      readSchedulerStats(tx),
      readLeaseStats(tx),
      readSealingStatus(tx),
      readReconciliationStatus(tx),
    ])
    return { at: new Date(at), outbox, epoch, inbox, scheduler, leases, sealing, reconciliation, pools }
  })
}
