import { setTimeout as delay } from 'node:timers/promises'
import { projectLedgerBlock, readSealingStatus, sealLedgerBlock } from '../../libs/ledger/index.js'
import type { TestDatabase } from './database.js'
import { POLL_OPTIONS } from './pollOptions.js'

/** Seals all rows of the ledger. A block waits for older transactions of the server, which other test files share. */
export async function sealLedger(db: TestDatabase): Promise<void> {
  const deadline = Date.now() + POLL_OPTIONS.timeout
  for (;;) {
    const sealed = await sealLedgerBlock(db.as('symphony_executor'), 10_000)
    const { unsealedAgeSeconds, blocker } = await readSealingStatus(db.as('symphony_auditor'))
    if (unsealedAgeSeconds === 0) return
    if (Date.now() > deadline) throw new Error(`rows are still not sealed: ${JSON.stringify(blocker)}`)
    if (sealed === undefined) await delay(POLL_OPTIONS.interval)
  }
}

/** Seals all rows, and adds the blocks to the search table and the counts over time, as a worker does. */
export async function projectLedger(db: TestDatabase): Promise<void> {
  await sealLedger(db)
  for (let isDone = false; !isDone;) isDone = (await projectLedgerBlock(db.as('symphony_executor'))) === undefined
}
