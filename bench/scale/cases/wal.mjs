// Write-ahead log per payment: enqueue in batches, claim and completion; sealing apart.
import { LedgerSealer } from '../../../dist/libs/ledger/index.js'
import { claimOutboxBatch, completeOutboxAttempts } from '../../../dist/libs/outbox/index.js'
import { enqueueNumbers } from '../workers.mjs'

const ENQUEUED_AT_ONCE = 1_000
const CLAIMED_AT_ONCE = 500
const LEASE_SECONDS = 60
const BYTES_MAX = 2_600

export async function wal({ fixture, sizes, print }) {
  const payments = sizes([100_000], [2_000]).at(-1)
  return fixture.withDatabase(async (database) => {
    const client = await database.connect()
    const opened = database.open()
    const executor = opened.as('symphony_executor')
    const position = async () =>
      Number((await client.query(`SELECT pg_current_wal_insert_lsn() - '0/0' AS bytes`)).rows[0].bytes)
    const bytesOf = async (work) => {
      const before = await position()
      await work()
      return ((await position()) - before) / payments
    }
    // Starts after a checkpoint, so that no later one adds images of full pages.
    await client.query('CHECKPOINT')
    const enqueue = await bytesOf(() => enqueueAll(opened.as('symphony_ingest'), payments))
    const drain = await bytesOf(() => drainAll(executor))
    const sealing = await bytesOf(() => sealAll(executor))
    const parts = `enqueue ${whole(enqueue)}, claim and completion ${whole(drain)}; sealing apart ${whole(sealing)}`
    print(parts)
    return {
      figures: [
        {
          figure: `write-ahead log per payment, ${payments.toLocaleString('en')} payments: enqueue in batches of ${ENQUEUED_AT_ONCE.toLocaleString('en')}, claim, completion`,
          bound: `≤ ${BYTES_MAX.toLocaleString('en')} bytes`,
          measured: `${whole(enqueue + drain)} bytes (${parts})`,
          ok: enqueue + drain <= BYTES_MAX,
        },
      ],
    }
  })
}

async function enqueueAll(ingest, payments) {
  for (let done = 0; done < payments; done += ENQUEUED_AT_ONCE) {
    await enqueueNumbers(ingest, done + 1, Math.min(ENQUEUED_AT_ONCE, payments - done))
  }
}

async function drainAll(executor) {
  for (;;) {
    const items = await claimOutboxBatch(executor, CLAIMED_AT_ONCE, 'worker', LEASE_SECONDS)
    if (items.length === 0) return
    await completeOutboxAttempts(
      executor,
      'worker',
      items.map(({ outboxId, leaseToken }) => ({
        outboxId,
        leaseToken,
        state: 'DISPATCHED',
        railReference: `TX-${outboxId}`,
      })),
    )
  }
}

async function sealAll(executor) {
  const sealer = new LedgerSealer(executor)
  while ((await sealer.runOnce()).blocks > 0);
}

function whole(bytes) {
  return Math.round(bytes).toLocaleString('en')
}
