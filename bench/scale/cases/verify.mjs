// Chain verification as an auditor does it: every row hashed again, every block, every link.
import { databaseSource, sealLedgerBlock, verifyLedger } from 'symphony-pg/ledger'
import { fillLedger } from '../../fill.mjs'

const ROWS_PER_BLOCK = 10_000
/** As many payments as a worker ends in one transaction. */
const PER_TRANSACTION = 500

export async function verify({ stage, sizes, print }) {
  const rows = sizes([1_000_000], [2_000]).at(-1)
  return stage.withDatabase(async (database) => {
    const filler = await database.connect()
    // A payment is two rows: its identity and its attempt.
    await fillLedger(filler, { payments: rows / 2, perTransaction: PER_TRANSACTION })
    await filler.query('VACUUM ANALYZE')
    const opened = database.open()
    const executor = opened.as('symphony_executor')
    while ((await sealLedgerBlock(executor, ROWS_PER_BLOCK)) !== undefined);
    const startedMs = performance.now()
    const report = await verifyLedger(databaseSource(opened.as('symphony_auditor')))
    const seconds = (performance.now() - startedMs) / 1_000
    if (report.breakCount > 0) throw new Error(`the filled ledger does not verify: ${JSON.stringify(report.breaks[0])}`)
    const verified = report.identities + report.attempts
    if (verified !== rows) throw new Error(`${verified} of ${rows} rows were verified`)
    const perSecond = verified / seconds
    print(`${verified} rows in ${report.blocks} blocks: ${Math.round(perSecond)} a second`)
    return {
      figures: [
        {
          figure: `chain verification of ${rows.toLocaleString('en')} rows, rows per second`,
          bound: '≥ 150,000',
          measured: Math.round(perSecond).toLocaleString('en'),
          ok: perSecond >= 150_000,
        },
      ],
    }
  })
}
