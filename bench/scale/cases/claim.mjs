// Claims 100 items from a growing backlog, in a table that was never analysed and in one that was analysed while empty.
import { fillQueue } from '../../fill.mjs'
import { linePlot } from '../../plot.mjs'
import { claimCost } from '../claimCost.mjs'

const BATCH = 100
const ANALYSED = ['never analysed', 'analysed while empty']

export async function claim({ fixture, sizes, calls, print }) {
  const backlogs = sizes([1_000, 100_000, 1_000_000, 5_000_000], [1_000, 2_000])
  const costs = {}
  for (const analysed of ANALYSED) {
    costs[analysed] = await fixture.withDatabase(async (database) => {
      const client = await database.connect()
      // Autovacuum would analyse the table before the first claim.
      await client.query('ALTER TABLE payment_outbox_pending SET (autovacuum_enabled = false)')
      if (analysed === 'analysed while empty') await client.query('ANALYZE payment_outbox_pending')
      return measure(database, backlogs, calls, (line) => print(`${analysed}, ${line}`))
    })
  }
  const all = ANALYSED.flatMap((analysed) => costs[analysed])
  // The bound applies to a million items; a smaller run uses its largest backlog.
  const atMillion = ANALYSED.map((analysed) => costs[analysed].findLast(({ backlog }) => backlog <= 1_000_000))
  const p99 = Math.max(...atMillion.map(({ msP99 }) => msP99))
  const growth = Math.max(...ANALYSED.map((analysed) => costs[analysed].at(-1).ms / costs[analysed][0].ms))
  const scanned = [...new Set(all.flatMap((cost) => cost.scanned))]
  const [least, most] = [backlogs[0], backlogs.at(-1)].map((backlog) => backlog.toLocaleString('en'))
  return {
    figures: [
      {
        figure: `claim of ${BATCH} from a backlog of ${atMillion[0].backlog.toLocaleString('en')}, p99`,
        bound: '≤ 25 ms',
        measured: `${p99.toFixed(1)} ms`,
        ok: p99 <= 25,
      },
      {
        figure: `claim of ${BATCH} from ${most} ÷ from ${least}, median time`,
        bound: '≤ 3',
        measured: growth.toFixed(2),
        ok: growth <= 3,
      },
      {
        figure: 'tables that a claim reads from end to end, at any size',
        bound: 'none',
        measured: scanned.length === 0 ? 'none' : scanned.join(', '),
        ok: scanned.length === 0,
      },
    ],
    plots: {
      'claim-backlog': linePlot({
        title: `Claim of ${BATCH}: time of the function by backlog`,
        x: { label: 'items waiting', log: true },
        y: { label: 'ms, p99' },
        series: ANALYSED.map((analysed) => ({
          name: analysed,
          points: costs[analysed].map(({ backlog, msP99 }) => [backlog, msP99]),
        })),
        bound: { value: 25, label: '25 ms' },
      }),
    },
  }
}

async function measure(database, backlogs, calls, print) {
  const [filler, executor] = [await database.connect(), await database.connect('symphony_executor')]
  const costs = []
  let filled = 0
  for (const backlog of backlogs) {
    await fillQueue(filler, { count: backlog - filled, prefix: `b${backlog}` })
    const standing = await claimCost(executor, { batch: BATCH, rails: ['bank'], calls })
    // Claims at most a third of a small backlog. The next fill replaces the claimed items.
    const moves = Math.max(1, Math.min(calls, Math.floor(backlog / BATCH / 3) - 3))
    const moving = await claimCost(executor, { batch: BATCH, rails: ['bank'], calls: moves, moving: true })
    filled = backlog - (moves + 3) * BATCH
    const cost = { ...standing, msP99: Math.max(standing.msP99, moving.msP99), backlog }
    cost.scanned = [...standing.scanned, ...moving.scanned]
    costs.push(cost)
    print(
      `${backlog} waiting: ${cost.buffers} buffers, median ${cost.ms.toFixed(2)} ms, p99 ${cost.msP99.toFixed(2)} ms`,
    )
  }
  return costs
}
