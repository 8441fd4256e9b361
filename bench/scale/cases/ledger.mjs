// Time of enqueue and completion with a growing ledger. The sizes alternate, so that noise of the machine affects all
// of them. Measures growing ids, and random ids, which touch a cold page of each index.
import { randomUUID } from 'node:crypto'
import { linePlot } from '../../plot.mjs'
import { median } from '../../statistics.mjs'
import { explain } from '../claimCost.mjs'

const BATCH = 100
const CALLS_SHARE = 0.3
const WARM_UP = 6
const IDS = {
  // These ids sort after all ids of the fill.
  'ids that grow': (n) => `z-${String(n).padStart(12, '0')}`,
  'random ids': () => randomUUID(),
}

export async function ledger({ filledLedger, sizes, calls, print }) {
  const ledgers = sizes([10_000, 1_000_000, 10_000_000], [1_000, 2_000])
  const times = new Map()
  const sample = (key, ms) => times.set(key, [...(times.get(key) ?? []), ms])
  for (const rows of ledgers) await filledLedger(rows)
  for (const [ids, make] of Object.entries(IDS)) {
    // Makes few calls, because they enlarge a small ledger. Alternates after each call, because the machine's speed
    // varies within seconds.
    for (let call = 0; call < WARM_UP + CALLS_SHARE * calls; call++) {
      for (const rows of ledgers) {
        const { ingest, executor } = await filledLedger(rows)
        const { enqueueMs, completeMs } = await carry(ingest, executor, make)
        if (call < WARM_UP) continue
        sample(`enqueue ${ids} ${rows}`, enqueueMs)
        sample(`completion ${ids} ${rows}`, completeMs)
      }
    }
  }
  const names = ['completion', 'enqueue'].flatMap((what) => Object.keys(IDS).map((ids) => `${what} ${ids}`))
  const medians = Object.fromEntries(
    names.map((name) => [name, ledgers.map((rows) => [rows, median(times.get(`${name} ${rows}`))])]),
  )
  for (const name of names)
    print(`${name}: ${medians[name].map(([rows, ms]) => `${ms.toFixed(2)} ms at ${rows}`).join(', ')}`)
  const [least, most] = [ledgers[0], ledgers.at(-1)].map((rows) => rows.toLocaleString('en'))
  return {
    figures: names.map((name) => {
      const ratio = medians[name].at(-1)[1] / medians[name][0][1]
      return {
        figure: `${name.replace(' ', ` of ${BATCH}, `)}: time with a ledger of ${most} ÷ of ${least}`,
        bound: '≤ 1.3',
        measured: `${ratio.toFixed(2)} (${medians[name].at(-1)[1].toFixed(1)} ÷ ${medians[name][0][1].toFixed(1)} ms)`,
        ok: ratio <= 1.3,
      }
    }),
    plots: {
      'ledger-growth': linePlot({
        title: `Enqueue and completion of ${BATCH}: time of the function by size of the ledger`,
        x: { label: 'rows of the ledger', log: true },
        y: { label: 'ms, median' },
        series: names.map((name) => ({ name, points: medians[name] })),
      }),
    },
  }
}

let last = 0

/** Enqueues, claims and completes a batch. Each call commits. */
async function carry(ingest, executor, makeId) {
  const ids = Array.from({ length: BATCH }, () => makeId((last += 1)))
  const enqueued = await explain(
    ingest,
    `SELECT * FROM enqueue_payment_outbox_batch($1::text[], $2::text[], array_fill('key'::text, ARRAY[${BATCH}]),
       array_fill('carried'::text, ARRAY[${BATCH}]), array_fill('{"amount": "12.50", "currency": "EUR"}'::jsonb, ARRAY[${BATCH}]))`,
    [ids, ids.map((_, n) => `participant-${n % 50}`)],
  )
  const { rows: claimed } = await executor.query(
    `SELECT array_agg(outbox_id) AS ids, array_agg(lease_token) AS tokens
     FROM claim_outbox_batch(${BATCH}, 'bench', 600, ARRAY['carried'])`,
  )
  const completed = await explain(
    executor,
    `SELECT * FROM complete_outbox_attempts($1::uuid[], $2::uuid[], 'bench', array_fill('DISPATCHED'::text, ARRAY[${BATCH}]), $3::text[])`,
    [claimed[0].ids, claimed[0].tokens, ids.map((id) => `TX-${id}`)],
  )
  if (completed.rows !== BATCH) throw new Error(`expected ${BATCH} verdicts, got ${completed.rows}`)
  return { enqueueMs: enqueued.ms, completeMs: completed.ms }
}
