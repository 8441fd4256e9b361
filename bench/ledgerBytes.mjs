// Measures the bytes per payment in the ledger, by table and index: `npm run bench:bytes [payments]`. Each payment has
// one attempt. Transactions of 500 payments let the indexes grow as in production; the rows are sealed.
// docs/internals/billion-rows.md uses the result.
import { LedgerSealer } from '../dist/libs/ledger/index.js'
import { fillLedger } from './fill.mjs'
import { ScaleFixture } from './scale/ScaleFixture.mjs'

const PAYMENTS = Number(process.argv[2] ?? 300_000)

/**
 * Query of the bytes per payment, and of the height of each index in pages. pg_table_size includes the entries of
 * blocks, which are stored out of line. Omits tables and indexes of up to two pages.
 */
const SIZES = `
SELECT part.name, round(part.size::numeric / $1, 1)::text AS bytes, part.height
FROM pg_class t
CROSS JOIN LATERAL (
  SELECT t.relname::text AS name, pg_table_size(t.oid) AS size, NULL::bigint AS height, 0 AS place
  UNION ALL
  SELECT '  ' || x.relname, pg_relation_size(x.oid), 1 + (bt_metap(x.oid::regclass::text)).level, 1
  FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid WHERE i.indrelid = t.oid
) part
WHERE t.relnamespace = 'symphony'::regnamespace
  AND t.relname IN ('payment_outbox_identities', 'payment_outbox_attempts', 'payment_outbox_blocks')
  AND part.size > 8192 * 2
ORDER BY t.relname, part.place, part.size DESC`

const fixture = await ScaleFixture.open()
try {
  await fixture.withDatabase(async (database) => {
    const client = await database.connect()
    const sealer = new LedgerSealer(database.open().as('symphony_executor'))
    let transactions = 0
    await fillLedger(client, {
      payments: PAYMENTS,
      perTransaction: 500,
      onTransaction: async () => {
        transactions += 1
        if (transactions % 20 === 0) await sealer.runOnce()
      },
    })
    while ((await sealer.runOnce()).blocks > 0);
    await client.query('CREATE EXTENSION pageinspect')
    const { rows } = await client.query(SIZES, [PAYMENTS])
    for (const { name, bytes, height } of rows)
      print(`${name.padEnd(52)}${bytes.padStart(7)}${height === null ? '' : `  ${height} pages high`}`)
    print(
      `together${rows
        .reduce((sum, { bytes }) => sum + Number(bytes), 0)
        .toFixed(1)
        .padStart(51)}`,
    )
  })
} finally {
  await fixture.close()
}

function print(line) {
  process.stdout.write(`${line}\n`)
}
