// What sealing costs a drain: `npm run bench:sealing -- [ROUNDS] [ITEMS] [SEAL_INTERVAL_MS]`. Items are enqueued, then claimed and
// completed by four connections as fast as the database allows, with and without a sealer beside them (every second, ten times as
// often as by default). In turn, so that both meet the same machine. Prints each rate, how much slower the median with a sealer is,
// and what sealing a row costs by itself.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openDatabase } from 'symphony-pg'
import { deploy } from 'symphony-pg/deployment'
import { startEmbedded } from 'symphony-pg/embedded'
import { LedgerSealer } from 'symphony-pg/ledger'
import { claimOutboxBatch, completeOutboxAttempts, enqueuePaymentOutboxBatch } from 'symphony-pg/outbox'

const ROUNDS = Number(process.argv[2] ?? 3)
const ITEMS = Number(process.argv[3] ?? 20_000)
const SEAL_INTERVAL_MS = Number(process.argv[4] ?? 1_000)
const BATCH = 500
const CLAIMERS = 4
const folder = await mkdtemp(join(tmpdir(), 'symphony-sealing-'))
const server = await startEmbedded({ dataDir: join(folder, 'server') })
try {
  await deploy({ url: server.url })
  const database = openDatabase({ url: server.url })
  const executor = database.as('symphony_executor')
  const rates = { without: [], with: [] }
  let sealedRows = 0
  let aloneMs = 0
  let aloneRows = 0
  for (let round = 0; round <= ROUNDS; round++) {
    // The order alternates too: whoever comes second finds a larger ledger.
    for (const setting of round % 2 === 0 ? ['without', 'with'] : ['with', 'without']) {
      await fill(database, `${round}-${setting}`)
      // Enqueued rows are sealed before the clock starts: what is measured is the drain.
      const before = new LedgerSealer(executor)
      const beforeMs = performance.now()
      for (let rows = 1; rows > 0; aloneRows += rows) rows = (await before.runOnce()).rows
      aloneMs += performance.now() - beforeMs
      const sealer = new LedgerSealer(executor, { intervalMs: SEAL_INTERVAL_MS }, (event) => {
        if (event.type === 'fault') throw event.error
        sealedRows += event.rows
      })
      if (setting === 'with') await sealer.start()
      const startedMs = performance.now()
      await Promise.all(Array.from({ length: CLAIMERS }, (_, index) => drain(executor, `worker-${index}`)))
      const perSecond = ITEMS / ((performance.now() - startedMs) / 1_000)
      await sealer.stop()
      // The first round is for warming up.
      if (round > 0) {
        rates[setting].push(perSecond)
        print(`round ${round}, ${setting} a sealer: ${Math.round(perSecond)} a second`)
      }
    }
  }
  const slowerPercent = 100 * (1 - median(rates.with) / median(rates.without))
  print(
    JSON.stringify({
      items: ITEMS,
      sealIntervalMs: SEAL_INTERVAL_MS,
      sealedRows,
      without: Math.round(median(rates.without)),
      with: Math.round(median(rates.with)),
      slowerPercent: Number(slowerPercent.toFixed(2)),
      // Alone, in blocks of ten thousand: what a row costs when nothing else runs.
      microsPerRow: Number(((1_000 * aloneMs) / aloneRows).toFixed(1)),
    }),
  )
  await database.close()
} finally {
  await server.stop()
  await rm(folder, { recursive: true, force: true })
}

async function fill(database, name) {
  for (let at = 0; at < ITEMS; at += 1_000) {
    await enqueuePaymentOutboxBatch(
      database.as('symphony_ingest'),
      Array.from({ length: Math.min(1_000, ITEMS - at) }, (_, index) => ({
        instructionId: `${name}-${at + index}`,
        participantId: `participant-${(at + index) % 100}`,
        idempotencyKey: 'key',
        railType: 'bench',
        payload: { amount: '12.50', currency: 'EUR', destination: 'DE89370400440532013000' },
      })),
    )
  }
}

async function drain(executor, workerId) {
  for (;;) {
    const items = await claimOutboxBatch(executor, BATCH, workerId, 60, { rails: ['bench'] })
    if (items.length === 0) return
    await completeOutboxAttempts(
      executor,
      workerId,
      items.map(({ outboxId, leaseToken }) => ({
        outboxId,
        leaseToken,
        state: 'DISPATCHED',
        railReference: `TX-${outboxId}`,
      })),
    )
  }
}

function median(values) {
  return values.toSorted((left, right) => left - right)[Math.floor(values.length / 2)]
}

function print(line) {
  process.stdout.write(`${line}\n`)
}
