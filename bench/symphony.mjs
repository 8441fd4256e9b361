// Symphony as a contender, with ledger, sealing, lease tokens, roles, and idempotent and sequenced enqueue. The rail
// answers at once.
import { createRequire } from 'node:module'
import { openDatabase } from '../dist/libs/db/index.js'
import { enqueue, enqueueMany, OutboxRelayer } from '../dist/libs/outbox/index.js'
import { deploy } from '../dist/libs/deployment/index.js'
import { LedgerSealer } from '../dist/libs/ledger/index.js'
import { loadRails } from '../dist/libs/rails/index.js'

export const settingOf = () => 'batchSize 500, concurrency 500, 16 connections; defaults otherwise'
export const version = createRequire(import.meta.url)('../package.json').version

export async function open({ url, pg }) {
  await deploy({ url })
  const database = openDatabase({ url, connectionsMax: 16 })
  // The CPU columns omit sessions of this name; `npm run bench:sealing` measures them.
  const sealing = openDatabase({ url, connectionsMax: 1, applicationName: 'bench sealing' })
  const ingest = database.as('symphony_ingest')
  const owner = new pg.Pool({ connectionString: url, max: 1 })
  return {
    enqueue: (payload) => enqueue(instructionOf(payload), { tx: ingest }),
    enqueueMany: (payloads) => enqueueMany(payloads.map(instructionOf), { tx: ingest }),
    work: async (onHandled) => {
      const rails = loadRails([
        {
          type: 'noop',
          onUnknown: 'resend',
          dispatch: ({ reference, payload }) => {
            onHandled(payload)
            return Promise.resolve({ outcome: 'success', reference })
          },
        },
      ])
      const relayer = new OutboxRelayer(database, rails, { batchSize: 500, concurrency: 500 })
      const sealer = new LedgerSealer(sealing.as('symphony_executor'))
      await relayer.start()
      await sealer.start()
      return { stop: () => Promise.all([relayer.stop(), sealer.stop()]) }
    },
    // supervisor_outbox_status would return stored counts of a large queue, which may be many seconds old.
    unfinished: async () =>
      Number((await owner.query('SELECT count(*) FROM symphony.payment_outbox_pending')).rows[0].count),
    close: () => Promise.all([database.close(), sealing.close(), owner.end()]),
  }
}

/** Builds a new payment for one of a thousand participants. */
function instructionOf(payload) {
  return {
    instructionId: `i-${payload.n}`,
    participantId: `p-${payload.n % 1_000}`,
    idempotencyKey: `k-${payload.n}`,
    railType: 'noop',
    payload,
  }
}
