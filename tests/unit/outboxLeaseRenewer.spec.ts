import { expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../libs/core/index.js'
import { LeasedItem } from '../../libs/outbox/LeasedItem.js'
import { LeaseRenewer } from '../../libs/outbox/LeaseRenewer.js'
import { Emitter } from '../../libs/worker/index.js'
import type { RelayerEvent } from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import { enqueueAndClaim, WORKER } from '../support/outboxItems.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { openConnection } from '../support/race.js'

const db = await useTestDatabase()

test('a LeaseRenewer renews the other leases while an item is locked, and that one afterwards', async () => {
  const leases = [await enqueueAndClaim(db), await enqueueAndClaim(db), await enqueueAndClaim(db)]
  const holder = await openConnection(db)
  onTestFinished(() => holder.close())
  await holder.query('BEGIN')
  await holder.query('SELECT FROM payment_outbox_pending WHERE outbox_id = $1 FOR UPDATE', [leases[0]!.outboxId])
  const events = new Emitter<RelayerEvent>()
  const seen: RelayerEvent[] = []
  events.on((event) => seen.push(event))
  const role = db.as('symphony_executor')
  const renewer = new LeaseRenewer({ role, workerId: WORKER, leaseSeconds: 4, clock: systemClock, events })
  // Leases that this process does not trust are due for renewal at once.
  const items = leases.map((lease) => new LeasedItem(lease, systemClock.monotonicMs(), 0, systemClock))
  for (const item of items) renewer.add(item)
  const areRenewed = () => items.map(({ trustedForMs }) => trustedForMs > 0)
  renewer.start()
  onTestFinished(() => renewer.stop())
  await expect.poll(areRenewed, POLL_OPTIONS).toEqual([false, true, true])
  await holder.query('ROLLBACK')
  await expect.poll(areRenewed, POLL_OPTIONS).toEqual([true, true, true])
  expect(seen).toEqual([])
})
