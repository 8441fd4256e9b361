import { openDatabase } from '../../../libs/db/index.js'
import { claimOutboxBatch, completeOutboxAttempt } from '../../../libs/outbox/index.js'
import { simulatedRail } from '../../../libs/rails/index.js'
import type { TestDatabase } from '../../support/database.js'
import { History } from '../../scorecard/history.js'
import { anomaliesOf, type FinalState } from '../../scorecard/historyAnomalies.js'
import { SharedState, letTimePass, runClient, type ClientOptions } from '../../scorecard/HistoryClient.js'
import { RelayScenario } from '../../scorecard/RelayScenario.js'
import { defineScenario } from '../../scorecard/Scenario.js'
import type { ScenarioFixture } from '../../scorecard/ScenarioFixture.js'
import { WireProxy } from '../../support/wireProxy.js'

const CLIENTS = 8
/** Number of clients whose connection is cut. */
const CUT_CLIENTS = 3

export default defineScenario({
  id: 'R5',
  title: `${CLIENTS} concurrent clients record their calls, ${CUT_CLIENTS} of them over connections that are cut, and a model checks the histories.`,
  bar: '2,000 histories of 500 operations; 0 anomalies.',
  sizes: { full: { histories: 2_000, operations: 500 }, short: { histories: 4, operations: 500 } },
  async run(fixture, { histories, operations }) {
    const scenario = await RelayScenario.create(fixture, { rails: '[]' })
    const { db } = scenario
    const clients = await openClients(fixture, scenario)
    const rail = simulatedRail({ type: 'history', onUnknown: 'resend', bookUrl: scenario.bookUrl })
    fixture.defer(() => rail.close?.())
    const figures = { histories: 0, operations: 0, refused: 0, unknown: 0, anomalies: 0 }
    const defects: string[] = []
    for (let number = 1; number <= histories && defects.length < DEFECTS_MAX; number += 1) {
      const name = `history-${number}`
      const history = new History()
      const shared = new SharedState({ name, db, rail, history })
      await Promise.all(clients.map((client) => runClient(shared, client, Math.ceil(operations / CLIENTS))))
      const found = [...history.strange, ...anomaliesOf(history.entries, await finalState(shared))]
      await drain(shared)
      figures.histories += 1
      figures.operations += history.entries.length
      figures.refused += history.entries.filter(({ outcome }) => outcome === 'refused').length
      figures.unknown += history.entries.filter(({ outcome }) => outcome === 'unknown').length
      figures.anomalies += found.length
      defects.push(...found.map((anomaly) => `history ${number}: ${anomaly}`))
      if (number % 20 === 0) fixture.progress(`${number} of ${histories} histories, ${figures.anomalies} anomalies`)
    }
    const audited = await scenario.audit()
    return { figures, defects: [...defects, ...audited.defects] }
  },
})

async function openClients(fixture: ScenarioFixture, { db, server }: RelayScenario): Promise<readonly ClientOptions[]> {
  const { url } = await db.createLogin('client', { roles: ['symphony_ingest', 'symphony_executor'] })
  return Promise.all(
    Array.from({ length: CLIENTS }, async (_, number) => {
      const proxy = number < CUT_CLIENTS ? await WireProxy.before(server.url) : undefined
      const way = new URL(url)
      if (proxy !== undefined) {
        fixture.defer(() => proxy.close())
        way.port = String(proxy.port)
      }
      const database = openDatabase({ url: way.href, schema: db.schema, connectionsMax: 1 })
      fixture.defer(() => database.close())
      return { number, database, proxy, random: fixture.randomFor(`client ${number}`) }
    }),
  )
}

async function finalState({ db, name }: SharedState): Promise<FinalState> {
  const { rows: items } = await db.queryNoRole<FinalState['items'][number]>(
    `SELECT outbox_id AS "outboxId", instruction_id AS key, participant_id AS participant, sequence_id AS "sequenceId"
     FROM payment_outbox_identities WHERE rail_type = $1`,
    [name],
  )
  const { rows: attempts } = await db.queryNoRole<FinalState['attempts'][number]>(
    `SELECT outbox_id AS "outboxId", attempt_no AS "attemptNo", state::text, lease_token AS "leaseToken"
     FROM payment_outbox_attempts WHERE rail_type = $1`,
    [name],
  )
  return { items, attempts }
}

/** Completes all remaining items with one worker, after all other clients have stopped. */
async function drain(shared: SharedState): Promise<void> {
  const { db, name } = shared
  const executor = db.as('symphony_executor')
  for (;;) {
    await letTimePass(db, await pendingIds(db, name))
    const items = await claimOutboxBatch(executor, 1_000, 'last', 600, { rails: [name] })
    if (items.length === 0) return
    for (const { outboxId, leaseToken, instructionId } of items) {
      const state = shared.terminalOutcomeOf(instructionId)
      const outcome =
        state === 'DISPATCHED'
          ? { state, railReference: await shared.pay(outboxId) }
          : { state, errorCode: 'REFUSED', outcomeUnknown: false }
      await completeOutboxAttempt(executor, 'last', { outboxId, leaseToken, ...outcome })
    }
  }
}

async function pendingIds(db: TestDatabase, railType: string): Promise<readonly string[]> {
  const { rows } = await db.queryNoRole<{ id: string }>(
    'SELECT outbox_id AS id FROM payment_outbox_pending WHERE rail_type = $1',
    [railType],
  )
  return rows.map(({ id }) => id)
}

const DEFECTS_MAX = 20
