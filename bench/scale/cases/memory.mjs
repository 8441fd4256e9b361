// Memory of one relayer process over a million payments. This process enqueues them, with a small backlog.
import { setTimeout as sleep } from 'node:timers/promises'
import { linePlot } from '../../plot.mjs'
import { enqueueNumbers, untilDone, withWorkers } from '../workers.mjs'

const BATCH = 500
const AHEAD_MAX = 5_000

export async function memory({ fixture, sizes, print }) {
  const payments = sizes([1_000_000], [2_000]).at(-1)
  const samples = await fixture.withDatabase(async (database) => {
    const client = await database.connect()
    const ingest = database.open().as('symphony_ingest')
    return withWorkers(database.url, 1, async ([worker]) => {
      await worker.ask('beginWork')
      const seen = [{ handled: 0, rssMiB: 0 }]
      const run = { over: false }
      const working = untilDone([worker], client, payments, {
        pollMs: 100,
        onPoll: ([now]) => seen.push(now),
      }).finally(() => (run.over = true))
      const enqueuing = async () => {
        for (let done = 0; done < payments && !run.over; done += BATCH) {
          // `run.over` ends the wait if the worker has died.
          while (!run.over && done - seen.at(-1).handled > AHEAD_MAX) await sleep(5)
          await enqueueNumbers(ingest, done + 1, Math.min(BATCH, payments - done))
        }
      }
      await Promise.all([working, enqueuing()])
      return thinned(seen.slice(1))
    })
  })
  const most = Math.max(...samples.map(({ rssMiB }) => rssMiB))
  const [early, late] = [meanOf(samples, 0.2, 0.4), meanOf(samples, 0.8, 1)]
  print(`${payments} payments: at most ${most.toFixed(0)} MiB, ${early.toFixed(0)} early and ${late.toFixed(0)} late`)
  return {
    figures: [
      {
        figure: `resident memory of a worker over ${payments.toLocaleString('en')} payments, the most`,
        bound: '≤ 150 MiB',
        measured: `${most.toFixed(0)} MiB`,
        ok: most <= 150,
      },
      {
        figure: 'mean of its last fifth ÷ of its second',
        bound: '≤ 1.1',
        measured: (late / early).toFixed(2),
        ok: late / early <= 1.1,
      },
    ],
    plots: {
      'worker-memory': linePlot({
        title: `Resident memory of a worker over ${payments.toLocaleString('en')} payments`,
        x: { label: 'payments handled' },
        y: { label: 'MiB' },
        series: [{ name: 'RSS', points: samples.map(({ handled, rssMiB }) => [handled, rssMiB]) }],
        bound: { value: 150, label: '150 MiB' },
      }),
    },
  }
}

/** Reduces the samples to at most 300 for the plot, keeping the highest of each group. */
function thinned(samples) {
  const stretch = Math.ceil(samples.length / 300)
  return Array.from({ length: Math.ceil(samples.length / stretch) }, (_, n) =>
    samples.slice(n * stretch, (n + 1) * stretch).reduce((high, one) => (one.rssMiB > high.rssMiB ? one : high)),
  )
}

function meanOf(samples, from, to) {
  const part = samples.slice(Math.floor(samples.length * from), Math.max(1, Math.ceil(samples.length * to)))
  return part.reduce((sum, { rssMiB }) => sum + rssMiB, 0) / part.length
}
