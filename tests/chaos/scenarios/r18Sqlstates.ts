import { DatabaseError } from '../../../libs/db/index.js'
import { enqueuePaymentOutboxBatch } from '../../../libs/outbox/index.js'
import { buildPayment, USUAL_RAILS } from '../../scorecard/payments.js'
import { RelayScenario } from '../../scorecard/RelayScenario.js'
import { runSpec } from '../../scorecard/runSpec.js'
import { defineScenario, type Outcome } from '../../scorecard/Scenario.js'
import { mountSmallDisk } from '../../scorecard/smallDisk.js'
import type { ScenarioFixture } from '../../scorecard/ScenarioFixture.js'

const STATES_MIN = 40
/** Number of bytes left free on the disk of the queue. The enqueues then use them up. */
const LEFT_BYTES = 1_048_576

/** Runs dbSqlstates.spec.ts, as `npm test` does, and fills a disk, which no other test does. */
export default defineScenario({
  id: 'R18',
  title:
    'SQLSTATEs are caused for real: timeouts, deadlock, serialization failure, too many connections, shutdown and others. A real disk is filled under the queue of running workers.',
  bar: `At least ${STATES_MIN} SQLSTATEs, each classified retry, unknown or fatal; a full disk loses nothing, and work continues when it has space.`,
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
      defects: ['the disk was not filled, because mounting needs root; run the scenario as root'],
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
  // Continues until 10 enqueues fail. Enqueues after the first failure may use space that the workers free.
  while (refused < 10 && accepted < 100_000) {
    const batch = Array.from({ length: 50 }, (_, index) => buildPayment(accepted + index + 1, random))
    try {
      await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), batch)
      accepted += batch.length
    } catch (error) {
      refused += 1
      const isKnown = error instanceof DatabaseError && error.sqlstate === '53100' && error.disposition === 'retry'
      if (!isKnown) wrong.push(`a full disk gave ${String(error)}, expected 53100 with disposition retry`)
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
      workerExits: fleet.unexpectedExits.length,
      doubleRailEffects: report.doublePaid,
    },
    defects: [...defects, ...wrong, ...fleet.unexpectedExits, ...(refused === 0 ? ['the disk was never full'] : [])],
  }
}
