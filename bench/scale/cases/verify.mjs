// Verifies the ledger: recomputes the hash of every row, block and link.
import pg from 'pg'
import { databaseSource, LedgerSealer, verifyLedger } from '../../../dist/libs/ledger/index.js'
import { fillLedger } from '../../fill.mjs'
import { watchServerCpu } from '../../serverCpu.mjs'

/** Payments that a worker completes in one transaction. */
const PER_TRANSACTION = 500
/** Transactions between two runs of the sealer, as with a worker. Each run seals about two blocks. */
const SEALED_EVERY = 20

export async function verify({ fixture, sizes, print }) {
  // A payment has two rows: identity and attempt.
  const payments = Math.ceil(sizes([1_000_000], [2_000]).at(-1) / 2)
  return fixture.withDatabase(async (database) => {
    const filler = await database.connect()
    const opened = database.open()
    const sealer = new LedgerSealer(opened.as('symphony_executor'))
    let transactions = 0
    await fillLedger(filler, {
      payments,
      perTransaction: PER_TRANSACTION,
      onTransaction: async () => {
        transactions += 1
        if (transactions % SEALED_EVERY === 0) await sealer.runOnce()
      },
    })
    while ((await sealer.runOnce()).blocks > 0);
    const cpu = await watchServerCpu(database.url, pg)
    const before = process.cpuUsage()
    const startedMs = performance.now()
    const report = await verifyLedger(databaseSource(opened.as('symphony_auditor')))
    const seconds = (performance.now() - startedMs) / 1_000
    const { user, system } = process.cpuUsage(before)
    const serverUs = await cpu.end()
    if (report.breakCount > 0) throw new Error(`the filled ledger does not verify: ${JSON.stringify(report.breaks[0])}`)
    const verified = report.identities + report.attempts
    if (verified !== 2 * payments) throw new Error(`${verified} of ${2 * payments} rows were verified`)
    const perSecond = verified / seconds
    const perRow = (us) => `${((us ?? 0) / verified).toFixed(1)} µs`
    const cost = `CPU per row: server ${perRow(serverUs)}, Node.js ${perRow(user + system)}`
    print(`${verified} rows in ${report.blocks} blocks: ${Math.round(perSecond)} a second, ${cost}`)
    return {
      figures: [
        {
          figure: `chain verification of ${verified.toLocaleString('en')} rows, rows per second`,
          bound: '≥ 150,000',
          measured: `${Math.round(perSecond).toLocaleString('en')} (${cost})`,
          ok: perSecond >= 150_000,
        },
      ],
    }
  })
}
