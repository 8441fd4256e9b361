// supervisor_outbox_status with ten million payments in the ledger and a thousand in the queue.
import { fillQueue } from '../../fill.mjs'
import { quantile } from '../../statistics.mjs'

export async function status({ filledLedger, sizes, calls, print }) {
  const rows = sizes([10_000_000], [2_000]).at(-1)
  const { filler, readonly } = await filledLedger(rows)
  await fillQueue(filler, { count: 1_000, prefix: 'waiting' })
  const times = []
  for (let call = 0; call <= calls; call++) {
    const startedMs = performance.now()
    await readonly.query('SELECT * FROM supervisor_outbox_status')
    // The first call is a warm-up.
    if (call > 0) times.push(performance.now() - startedMs)
  }
  const p99 = quantile(times, 0.99)
  print(`${rows} rows: median ${quantile(times, 0.5).toFixed(1)} ms, p99 ${p99.toFixed(1)} ms`)
  return {
    figures: [
      {
        figure: `supervisor_outbox_status with ${rows.toLocaleString('en')} rows of the ledger, p99`,
        bound: '≤ 50 ms',
        measured: `${p99.toFixed(1)} ms`,
        ok: p99 <= 50,
      },
    ],
  }
}
