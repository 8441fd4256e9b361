// Reads supervisor_outbox_status with ten million payments in the ledger and a thousand in the queue, and with a
// million in the queue.
import { fillQueue } from '../../fill.mjs'
import { quantile } from '../../statistics.mjs'

export async function status({ fixture, filledLedger, sizes, calls, print }) {
  const rows = sizes([10_000_000], [2_000]).at(-1)
  const { filler, readonly } = await filledLedger(rows)
  await fillQueue(filler, { count: 1_000, prefix: 'waiting' })
  const ledger = await measure(readonly, calls)
  print(`${rows} rows: median ${ledger.p50.toFixed(1)} ms, p99 ${ledger.p99.toFixed(1)} ms`)
  const pending = sizes([1_000_000], [2_000]).at(-1)
  const queue = await fixture.withDatabase(async (database) => {
    await fillQueue(await database.connect(), { count: pending, prefix: 'waiting' })
    // A heartbeat stores the counts of a large queue. Workers send one every ten seconds.
    await (await database.connect('symphony_executor')).query(`SELECT heartbeat_outbox_worker('worker')`)
    return measure(await database.connect('symphony_readonly'), calls)
  })
  print(`${pending} pending: median ${queue.p50.toFixed(1)} ms, p99 ${queue.p99.toFixed(1)} ms`)
  return {
    figures: [
      figure(`supervisor_outbox_status with ${rows.toLocaleString('en')} rows of the ledger, p99`, ledger.p99, 50),
      figure(`supervisor_outbox_status with ${pending.toLocaleString('en')} pending items, p99`, queue.p99, 100),
    ],
  }
}

async function measure(readonly, calls) {
  const times = []
  for (let call = 0; call <= calls; call++) {
    const startedMs = performance.now()
    await readonly.query('SELECT * FROM supervisor_outbox_status')
    // The first call is a warm-up.
    if (call > 0) times.push(performance.now() - startedMs)
  }
  return { p50: quantile(times, 0.5), p99: quantile(times, 0.99) }
}

function figure(name, p99, bound) {
  return { figure: name, bound: `≤ ${bound} ms`, measured: `${p99.toFixed(1)} ms`, ok: p99 <= bound }
}
