// Steady load of 1,000 payments per second, without and with a snapshot that stays open from the start. With the
// snapshot, vacuum cannot remove dead rows, and every claim must pass them.
import { setTimeout as sleep } from 'node:timers/promises'
import { linePlot } from '../../plot.mjs'
import { enqueueNumbers, withWorkers } from '../workers.mjs'

const PER_SECOND = 1_000
const BATCH = 50
const BUCKET_SECONDS = 10

export async function snapshot({ fixture, seconds, print }) {
  const clean = await steadily(fixture, seconds, async () => {})
  print(`clean: ${describe(clean)}`)
  const held = await steadily(fixture, seconds, async (database) => {
    const reader = await database.connect()
    await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await reader.query('SELECT count(*) FROM payment_outbox_pending')
  })
  print(`old snapshot: ${describe(held)}`)
  const ratio = held.perSecond / clean.perSecond
  const runs = { clean, 'old snapshot': held }
  return {
    figures: [
      {
        figure: `an old snapshot held open for ${seconds} s at a steady ${PER_SECOND.toLocaleString('en')} per second: throughput ÷ that of a clean run`,
        bound: '≥ 0.9',
        measured: `${ratio.toFixed(2)} (${Math.round(held.perSecond)} ÷ ${Math.round(clean.perSecond)} a second; the queue's table grew to ${held.tableMiB.toFixed(0)} MiB, clean ${clean.tableMiB.toFixed(0)} MiB)`,
        ok: ratio >= 0.9,
      },
    ],
    plots: {
      'old-snapshot': linePlot({
        title: `Handled per second, ${PER_SECOND.toLocaleString('en')} enqueued`,
        x: { label: 'seconds' },
        y: { label: 'handled per second' },
        series: Object.entries(runs).map(([name, { points }]) => ({ name, points })),
      }),
    },
  }
}

function describe({ perSecond, left, tableMiB }) {
  return `${Math.round(perSecond)} a second, ${left} left, the queue's table has ${tableMiB.toFixed(0)} MiB`
}

/** Enqueues at a fixed rate, independent of the worker's progress. */
async function steadily(fixture, seconds, prepare) {
  return fixture.withDatabase(async (database) => {
    const client = await database.connect()
    const ingest = database.open().as('symphony_ingest')
    return withWorkers(database.url, 1, async ([worker]) => {
      await prepare(database)
      await worker.ask('beginWork')
      const startedMs = performance.now()
      const elapsed = () => (performance.now() - startedMs) / 1_000
      const points = []
      let enqueued = 0
      let bucket = { at: 0, handled: 0 }
      while (elapsed() < seconds) {
        if (enqueued + BATCH <= elapsed() * PER_SECOND) {
          await enqueueNumbers(ingest, enqueued + 1, BATCH)
          enqueued += BATCH
        } else {
          await sleep(5)
        }
        const at = elapsed()
        if (at - bucket.at < Math.min(BUCKET_SECONDS, seconds / 4)) continue
        const { handled } = await worker.ask('progress')
        points.push([at, (handled - bucket.handled) / (at - bucket.at)])
        bucket = { at, handled }
      }
      const { handled } = await worker.ask('progress')
      const perSecond = handled / elapsed()
      const { rows } = await client.query(`SELECT pg_total_relation_size('payment_outbox_pending') / 1048576.0 AS mib`)
      return { perSecond, left: enqueued - handled, points, tableMiB: Number(rows[0].mib) }
    })
  })
}
