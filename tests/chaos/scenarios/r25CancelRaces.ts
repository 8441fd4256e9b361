import { setTimeout as delay } from 'node:timers/promises'
import { readRailEffects } from '../../../libs/cli/commands/ledger/withLedger.js'
import { between, type Random } from '../../../libs/cli/commands/demo/seededRandom.js'
import { NotCancellableError, openDatabase, type RoleHandle } from '../../../libs/db/index.js'
import {
  cancelOutboxItem,
  claimOutboxBatch,
  completeOutboxAttempt,
  repairExpiredLeases,
  type ClaimedItem,
} from '../../../libs/outbox/index.js'
import { simulatedRail } from '../../../libs/rails/index.js'
import { railRequest } from '../../support/railRequest.js'
import { buildPaymentOn } from '../../scorecard/payments.js'
import { RelayScenario } from '../../scorecard/RelayScenario.js'
import { defineScenario } from '../../scorecard/Scenario.js'
import type { ScenarioFixture } from '../../scorecard/ScenarioFixture.js'

const RAIL = 'resend'
const WORKERS = 4
const APPLICATIONS = 4
/** Number of payments per round. Workers and applications start on them at the same time. */
const ROUND = 40
const LEASE_SECONDS = 600

interface Tally {
  readonly cancelled: Set<string>
  rolledBack: number
  abandoned: number
  readonly refusals: Map<string, number>
  readonly wrong: string[]
}

export default defineScenario({
  id: 'R25',
  title:
    'Applications cancel payments, some in transactions that they roll back, while workers claim them, and some workers abandon their lease.',
  bar: '10,000 races; one winner each: no cancelled payment is in the rail book, and every other payment is paid.',
  sizes: { full: { races: 10_000 }, short: { races: 400 } },
  async run(fixture, { races }) {
    const scenario = await RelayScenario.create(fixture, { rails: '[]' })
    const { db } = scenario
    const rail = simulatedRail({ type: RAIL, onUnknown: 'resend', bookUrl: scenario.bookUrl })
    fixture.defer(() => rail.close?.())
    const pay = async (item: ClaimedItem): Promise<string> => {
      const answer = await rail.dispatch(railRequest({ ...item, reference: item.outboxId }), {
        signal: new AbortController().signal,
      })
      if (answer.outcome !== 'success') throw new Error(`the rail returned ${answer.outcome}, expected success`)
      return answer.reference
    }
    const workers = await openRoles(fixture, scenario, 'symphony_executor', WORKERS)
    const applications = await openRoles(fixture, scenario, 'symphony_ingest', APPLICATIONS)
    const tally: Tally = { cancelled: new Set(), rolledBack: 0, abandoned: 0, refusals: new Map(), wrong: [] }
    const payments: string[] = []

    while (payments.length < races) {
      const items = await scenario.enqueue(Array.from({ length: ROUND }, () => buildPaymentOn(RAIL)))
      const ids = items.map(({ outboxId }) => outboxId)
      payments.push(...ids)
      const round = String(payments.length)
      await Promise.all([
        ...workers.map((role, index) => work(role, index, pay, tally, fixture.randomFor(`worker ${round} ${index}`))),
        ...applications.map((role, index) => {
          const own = ids.filter((_, place) => place % APPLICATIONS === index)
          return cancelAll(role, own, tally, fixture.randomFor(`application ${round} ${index}`))
        }),
      ])
      fixture.progress(`${payments.length} of ${races} races, ${tally.cancelled.size} cancelled`)
    }
    await drain(scenario, pay)

    const paid = new Set((await readRailEffects(scenario.bookFile)).map(({ reference }) => reference))
    const { rows } = await db.queryNoRole<{ id: string; state: string; action: string }>(
      `SELECT outbox_id AS id, state::text, action FROM payment_outbox_attempts WHERE state IN ('DISPATCHED', 'FAILED')`,
    )
    const ended = new Map(rows.map(({ id, state, action }) => [id, `${state} ${action}`]))
    const defects = payments.flatMap((id) => defectsOf(id, tally.cancelled.has(id), paid.has(id), ended.get(id)))
    const { defects: audited } = await scenario.audit()
    const claimedFirst = [...tally.refusals.values()].reduce((sum, count) => sum + count, 0)
    return {
      figures: {
        races: payments.length,
        cancelled: tally.cancelled.size,
        claimedFirst,
        rolledBack: tally.rolledBack,
        leasesAbandoned: tally.abandoned,
        paid: paid.size,
        cancelledButPaid: payments.filter((id) => tally.cancelled.has(id) && paid.has(id)).length,
      },
      defects: [
        ...tally.wrong.slice(0, 20),
        ...defects.slice(0, 20),
        ...audited,
        // Counts a run as a defect if cancels or claims win almost always, because then hardly any call raced.
        ...(Math.min(tally.cancelled.size, claimedFirst) < payments.length / 50
          ? ['one side won almost every race']
          : []),
      ],
    }
  },
})

/** Opens one connection per client, so that calls do not wait for each other in a pool. */
async function openRoles(
  fixture: ScenarioFixture,
  { db }: RelayScenario,
  role: string,
  count: number,
): Promise<readonly RoleHandle[]> {
  const { url } = await db.createLogin(role.replace('symphony', 'racing'), { roles: [role] })
  return Array.from({ length: count }, () => {
    const database = openDatabase({ url, schema: db.schema, connectionsMax: 1 })
    fixture.defer(() => database.close())
    return database.as(role)
  })
}

/** Claims until nothing is due. Pays most items, and abandons the lease of some, like a process that was killed. */
async function work(
  executor: RoleHandle,
  index: number,
  pay: (item: ClaimedItem) => Promise<string>,
  tally: Tally,
  random: Random,
): Promise<void> {
  const workerId = `worker-${index}`
  for (;;) {
    await delay(between(random, 0, 4))
    const items = await claimOutboxBatch(executor, between(random, 1, 4), workerId, LEASE_SECONDS, { rails: [RAIL] })
    if (items.length === 0) return
    for (const item of items) {
      const { outboxId, leaseToken } = item
      if (random() < 0.05) {
        tally.abandoned += 1
        continue
      }
      const railReference = await pay(item)
      await completeOutboxAttempt(executor, workerId, { outboxId, leaseToken, state: 'DISPATCHED', railReference })
    }
  }
}

/** Cancels each payment once, in a transaction that is sometimes rolled back. */
async function cancelAll(ingest: RoleHandle, ids: readonly string[], tally: Tally, random: Random): Promise<void> {
  const left = [...ids]
  while (left.length > 0) {
    const [outboxId = ''] = left.splice(between(random, 0, left.length - 1), 1)
    const rollsBack = random() < 0.1
    try {
      await ingest.transaction(async (tx) => {
        await cancelOutboxItem(tx, outboxId, 'the order was cancelled')
        await delay(between(random, 0, 2))
        if (rollsBack) throw new RolledBack()
      })
      tally.cancelled.add(outboxId)
    } catch (error) {
      if (error instanceof RolledBack) tally.rolledBack += 1
      else if (!(error instanceof NotCancellableError)) throw error
      else {
        const reason = error.reason ?? 'none'
        tally.refusals.set(reason, (tally.refusals.get(reason) ?? 0) + 1)
        if (reason !== 'LEASED' && reason !== 'DISPATCHED') tally.wrong.push(`${outboxId} was refused as ${reason}`)
      }
    }
  }
}

class RolledBack extends Error {}

/** Ends everything that is left: items whose cancel was rolled back, and abandoned leases. */
async function drain({ db }: RelayScenario, pay: (item: ClaimedItem) => Promise<string>): Promise<void> {
  const executor = db.as('symphony_executor')
  await db.queryNoRole(
    `UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() - interval '1 second'
     WHERE lease_token IS NOT NULL`,
  )
  while ((await repairExpiredLeases(executor, 1_000, 'repairer')).length > 0);
  await db.queryNoRole('UPDATE payment_outbox_pending SET next_attempt_at = clock_timestamp()')
  for (;;) {
    const items = await claimOutboxBatch(executor, 1_000, 'last', LEASE_SECONDS, { rails: [RAIL] })
    if (items.length === 0) return
    for (const item of items) {
      const { outboxId, leaseToken } = item
      const railReference = await pay(item)
      await completeOutboxAttempt(executor, 'last', { outboxId, leaseToken, state: 'DISPATCHED', railReference })
    }
  }
}

function defectsOf(id: string, cancelled: boolean, paid: boolean, ended: string | undefined): string[] {
  if (cancelled) {
    return [
      ...(paid ? [`${id} is cancelled, and the rail paid it`] : []),
      ...(ended === 'FAILED cancelled' ? [] : [`${id} is cancelled, and the ledger says ${ended}`]),
    ]
  }
  return paid && ended?.startsWith('DISPATCHED ') === true
    ? []
    : [`${id} is not cancelled: ledger ${ended}, paid ${paid}`]
}
