import type { TestDatabase } from './database.js'

/** Row of the newest epoch. */
export interface EpochRow {
  readonly epoch_no: number
  readonly epoch_id: string
  readonly system_identifier: bigint | null
  readonly timeline: number | null
  readonly beat_no: bigint
  readonly beat_at: Date
  readonly synchronous: boolean
  readonly frozen: boolean
  readonly frozen_at: Date | null
  readonly freeze_cause: string | null
  readonly freeze_reason: string | null
  readonly frozen_by: string | null
  readonly marked_at: Date | null
  readonly items_marked: bigint | null
  readonly lifted_at: Date | null
  readonly lifted_by: string | null
}

export async function epochRow(db: TestDatabase): Promise<EpochRow | undefined> {
  const { rows } = await db.queryNoRole<EpochRow>('SELECT * FROM dispatch_epochs ORDER BY epoch_no DESC LIMIT 1')
  return rows[0]
}

/**
 * Moves the server start that the newest epoch recorded back by one hour, as if the server had restarted since.
 * `change` sets further columns of that epoch, for example to imitate a restore of older data.
 */
export async function rewindEpoch(db: TestDatabase, change = 'epoch_no = epoch_no'): Promise<void> {
  await db.queryNoRole(
    `UPDATE dispatch_epochs SET server_started_at = server_started_at - interval '1 hour', ${change}
     WHERE epoch_no = (SELECT max(epoch_no) FROM dispatch_epochs)`,
  )
}

/** Deletes all epochs, which restores the state before the first claim. */
export async function forgetEpochs(db: TestDatabase): Promise<void> {
  await db.queryNoRole('DELETE FROM dispatch_epochs')
}
