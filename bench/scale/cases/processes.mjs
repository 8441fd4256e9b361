// Drains one database by one, two and four relayer processes, on a machine that one process saturates.
import { barPlot } from '../../plot.mjs'
import { median } from '../../statistics.mjs'
import { enqueueNumbers, untilDone, withWorkers } from '../workers.mjs'

const COUNTS = [1, 2, 4]
/** Relative difference that two runs of the same setting may have. A smaller loss does not count. */
const NOISE = 0.05

export async function processes({ fixture, sizes, rounds, print }) {
  const items = sizes([100_000], [400]).at(-1)
  const rates = Object.fromEntries(COUNTS.map((count) => [count, []]))
  for (let round = 0; round < rounds; round++) {
    for (const count of COUNTS.map((_, n) => COUNTS[(n + round) % COUNTS.length])) {
      rates[count].push(await drain(fixture, count, items))
      print(`round ${round + 1}, ${count} processes: ${Math.round(rates[count].at(-1))} a second`)
    }
  }
  const [one, two, four] = COUNTS.map((count) => median(rates[count]))
  return {
    figures: [
      {
        figure: `drain of ${items.toLocaleString('en')} by 2 and by 4 relayer processes ÷ by one`,
        bound: `≥ 1, but for ${100 * NOISE} % of noise`,
        measured: `${(two / one).toFixed(2)} and ${(four / one).toFixed(2)} (one: ${Math.round(one).toLocaleString('en')} a second)`,
        ok: Math.min(two, four) / one >= 1 - NOISE,
      },
    ],
    plots: {
      processes: barPlot({
        title: 'Items per second by relayer processes on one database',
        groups: [
          {
            title: 'drain, items per second',
            bars: COUNTS.map((count) => ({ name: `${count} of them`, value: median(rates[count]), ours: true })),
          },
        ],
      }),
    },
  }
}

async function drain(fixture, count, items) {
  return fixture.withDatabase(async (database) => {
    const client = await database.connect()
    const ingest = database.open().as('symphony_ingest')
    return withWorkers(database.url, count, async (workers) => {
      const all = (task) => Promise.all(workers.map(({ ask }) => ask(task)))
      // Warms up each worker first, because the case measures the steady rate.
      const warming = Math.ceil(items / 5) * count
      await enqueueNumbers(ingest, 1, warming)
      await all('beginWork')
      await untilDone(workers, client, warming)
      await all('endWork')
      await enqueueNumbers(ingest, warming + 1, items)
      await client.query('VACUUM ANALYZE payment_outbox_pending')
      await client.query('CHECKPOINT')
      const startedMs = performance.now()
      await all('beginWork')
      await untilDone(workers, client, warming + items)
      return items / ((performance.now() - startedMs) / 1_000)
    })
  })
}
