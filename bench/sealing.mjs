// Measures the cost of sealing for a drain: `npm run bench:sealing -- [ROUNDS] [ITEMS] [SEAL_INTERVAL_MS]`. Four
// connections claim and complete items as fast as the database allows, alternately with and without a sealer. Prints
// each rate and the slowdown of the median. On Linux, also prints the CPU time of the sealer's backend in per cent of
// the drain's CPU time (server and this process). On a busy machine this number is more reliable than the rates.
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { openDatabase } from '../dist/libs/db/index.js'
import { deploy } from '../dist/libs/deployment/index.js'
import { startEmbedded } from '@symphony-pg/embedded'
import { LedgerSealer } from '../dist/libs/ledger/index.js'
import { claimOutboxBatch, completeOutboxAttempts, enqueuePaymentOutboxBatch } from '../dist/libs/outbox/index.js'
import { temporaryFolder } from './folder.mjs'

const ROUNDS = Number(process.argv[2] ?? 3)
const ITEMS = Number(process.argv[3] ?? 20_000)
const SEAL_INTERVAL_MS = Number(process.argv[4] ?? 1_000)
const BATCH = 500
const CLAIMERS = 4
const folder = await temporaryFolder('symphony-sealing-')
const server = await startEmbedded({ dataDir: join(folder, 'server') })
try {
  await deploy({ url: server.url })
  const database = openDatabase({ url: server.url })
  const executor = database.as('symphony_executor')
  const rates = { without: [], with: [] }
  let sealedRows = 0
  const sealerDatabase = openDatabase({ url: server.url, connectionsMax: 1 })
  const sealerRole = sealerDatabase.as('symphony_executor')
  const cpuMs = { sealing: 0, draining: 0 }
  for (let round = 0; round <= ROUNDS; round++) {
    // Alternates the order, because the second setting has a larger ledger.
    for (const setting of round % 2 === 0 ? ['without', 'with'] : ['with', 'without']) {
      await fill(database, `${round}-${setting}`)
      // Seals the enqueued rows before the drain is measured.
      const sealer = new LedgerSealer(sealerRole, { intervalMs: SEAL_INTERVAL_MS }, (event) => {
        if (event.type === 'ledger.fault') throw event.error
        sealedRows += event.rows
      })
      while ((await sealer.runOnce()).blocks > 0);
      const cpuBefore = await readCpu(sealerRole)
      if (setting === 'with') await sealer.start()
      const startedMs = performance.now()
      await Promise.all(Array.from({ length: CLAIMERS }, (_, index) => drain(executor, `worker-${index}`)))
      const perSecond = ITEMS / ((performance.now() - startedMs) / 1_000)
      await sealer.stop()
      if (setting === 'with') {
        const drained = await readCpu(sealerRole)
        // Seals the rows that the drain wrote last, so that their CPU time counts.
        while ((await sealer.runOnce()).blocks > 0);
        const sealed = await readCpu(sealerRole)
        cpuMs.sealing += sealed.sealer - cpuBefore.sealer
        cpuMs.draining += drained.others - cpuBefore.others
      }
      // Round 0 is a warm-up.
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
      sealingCpuMs: cpuMs.sealing,
      drainingCpuMs: Math.round(cpuMs.draining),
      sealingCpuPercent: Number(((100 * cpuMs.sealing) / cpuMs.draining).toFixed(2)),
    }),
  )
  await sealerDatabase.close()
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

/**
 * Returns the CPU milliseconds of the sealer's backend, and of this process with the server's other processes; 0
 * without /proc.
 */
async function readCpu(sealer) {
  const { rows } = await sealer.query('SELECT pg_backend_pid() AS pid')
  const processes = await readProcesses()
  const own = processes.get(rows[0].pid)
  if (own === undefined) return { sealer: 0, others: 0 }
  const family = [...processes].filter(([pid, one]) => one.parent === own.parent || pid === own.parent)
  const total = family.reduce((sum, [, one]) => sum + one.ownMs, processes.get(own.parent).childrenMs)
  const { user, system } = process.cpuUsage()
  return { sealer: own.ownMs, others: total - own.ownMs + (user + system) / 1_000 }
}

async function readProcesses() {
  const processes = new Map()
  for (const name of await readdir('/proc').catch(() => [])) {
    if (!/^\d+$/.test(name)) continue
    const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => undefined)
    if (stat === undefined) continue
    // The process name may contain spaces, so fields are counted after it. Fields 11 to 14 are CPU times in ticks of 10
    // ms.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const [user, system, childrenUser, childrenSystem] = fields.slice(11, 15).map((ticks) => 10 * Number(ticks))
    processes.set(Number(name), {
      parent: Number(fields[1]),
      ownMs: user + system,
      childrenMs: childrenUser + childrenSystem,
    })
  }
  return processes
}

function median(values) {
  return values.toSorted((left, right) => left - right)[Math.floor(values.length / 2)]
}

function print(line) {
  process.stdout.write(`${line}\n`)
}
