import { DatabaseError } from '../../../libs/db/index.js'
import { enqueuePaymentOutboxBatch } from '../../../libs/outbox/index.js'
import { buildPayment, USUAL_RAILS } from '../../support/scorecard/payments.js'
import { RelayScenario } from '../../support/scorecard/RelayScenario.js'
import { runSpec } from '../../support/scorecard/runSpec.js'
import { defineScenario, type Outcome } from '../../support/scorecard/Scenario.js'
import { mountSmallDisk } from '../../support/scorecard/smallDisk.js'
import type { ScenarioFixture } from '../../support/scorecard/ScenarioFixture.js'

const STATES_MIN = 40
/** What the queue may still grow by before its disk is full. */
const LEFT_BYTES = 1_048_576

/** The spec is played in full by `npm test`: it takes seconds. The full disk is played here alone. */
export default defineScenario({
  id: 'R18',
  title:
    'SQLSTATEs provoked by their real causes: timeouts, deadlock, serialization, too many connections, shutdown, …; a disk that is really full, under the queue of running workers',
  bar: `at least ${STATES_MIN}, each classified retry, unknown or fatal by one table; nothing is lost on a full disk, and work goes on when there is room`,
  sizes: { full: { states: STATES_MIN, fullDisks: 1 }, short: { states: STATES_MIN, fullDisks: 0 } },
  async run(fixture, { states, fullDisks }) {
    const { passed, defects, output } = await runSpec(fixture, 'tests/integration/dbSqlstates.spec.ts', {})
    const provoked = Number(/sqlstates: (\d+) provoked/.exec(output)?.[1] ?? 0)
    const tooFew = provoked < states ? [`${provoked} states were provoked`] : []
    const onDisk = fullDisks === 0 ? { figures: {}, defects: [] } : await fillDisk(fixture)
    return {
      figures: { sqlstatesProvoked: provoked, tests: passed, ...onDisk.figures },
      defects: [...defects, ...tooFew, ...onDisk.defects],
    }
  },
})

async function fillDisk(fixture: ScenarioFixture): Promise<Outcome> {
  const scenario = await RelayScenario.create(fixture, { rails: USUAL_RAILS })
  const { db } = scenario
  const { rows } = await db.queryNoRole<{ data_directory: string }>('SHOW data_directory')
  const disk = await mountSmallDisk(fixture, rows[0]?.data_directory ?? '')
  if (disk === undefined) {
    return {
      figures: { fullDisk: 'not provoked' },
      defects: ['the disk was not filled: mounting a small one takes root'],
    }
  }
  await db.queryNoRole(`CREATE TABLESPACE small LOCATION '${disk.path}'`)
  for (const table of ['payment_outbox_pending', 'payment_outbox_identities', 'payment_outbox_attempts']) {
    await db.queryNoRole(`ALTER TABLE ${table} SET TABLESPACE small`)
  }
  const fleet = scenario.fleet({ words: ['--lease-seconds', '5'], env: { LEASE_REPAIR_INTERVAL_MS: '1000' } })
  await fleet.start(2)
  await disk.fill(LEFT_BYTES)
  const random = fixture.randomFor('payments')
  const wrong: string[] = []
  let accepted = 0
  let refused = 0
  // Until it was refused ten times: the first may have found room that the workers made.
  while (refused < 10 && accepted < 100_000) {
    const batch = Array.from({ length: 50 }, (_, index) => buildPayment(accepted + index + 1, random))
    try {
      await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), batch)
      accepted += batch.length
    } catch (error) {
      refused += 1
      const isKnown = error instanceof DatabaseError && error.sqlstate === '53100' && error.disposition === 'retry'
      if (!isKnown) wrong.push(`a full disk was reported as ${String(error)}`)
    }
  }
  await disk.empty()
  const { heldCount } = await scenario.untilDrained()
  await fleet.stop()
  const { report, defects } = await scenario.audit()
  return {
    figures: {
      enqueuesRefusedByAFullDisk: refused,
      payments: accepted,
      held: Number(heldCount),
      workerExits: fleet.deaths.length,
      doubleRailEffects: report.doublePaid,
    },
    defects: [...defects, ...wrong, ...fleet.deaths, ...(refused === 0 ? ['the disk never was full'] : [])],
  }
}
