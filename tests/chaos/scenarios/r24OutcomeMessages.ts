import { setTimeout as delay } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { between } from '../../../libs/cli/commands/demo/seededRandom.js'
import type { EnqueuedItem } from '../../../libs/outbox/index.js'
import { readBook } from '../../../libs/rails/index.js'
import { OrderPeople } from '../../scorecard/OrderPeople.js'
import { buildOrder, ORDER_RAILS, type Order } from '../../scorecard/orders.js'
import { OrderShop } from '../../scorecard/OrderShop.js'
import { checkOutcomes, OUTCOME_RULES } from '../../scorecard/outcomeRules.js'
import { RelayScenario } from '../../scorecard/RelayScenario.js'
import { defineScenario, type Outcome } from '../../scorecard/Scenario.js'
import type { ScenarioFixture } from '../../scorecard/ScenarioFixture.js'
import { retryUntilSuccess, waitUntil } from '../../scorecard/waitUntil.js'
import type { WorkerFleet } from '../../scorecard/WorkerFleet.js'
import { builtPath } from '../../support/builtPath.js'

/** Maximum number of workers that are still starting at a kill. */
const STARTING_MAX = 2
const LEASE_SECONDS = 4
const BATCH = 100
/** Maximum number of pending items, messages included. */
const BACKLOG_MAX = 1_000
const PAYMENTS_PER = { 'worker killed': 200, 'worker frozen': 1_000, 'server killed': 2_000, 'server restarted': 2_000 }
/** Number of orders per handler that kills its process after its writes. */
const PAYMENTS_PER_KILLED_HANDLER = 400
const KILLED_HANDLERS_MIN = 3

type Fault = keyof typeof PAYMENTS_PER

const FAULTS: readonly Fault[] = ['worker killed', 'worker frozen', 'server killed', 'server restarted']

export interface OrderOptions {
  /**
   * Connection on which the handler writes: `tx`, or one outside the transaction. With `outside`, the scenario must
   * report outcomes written twice. @default 'tx'
   */
  readonly handler?: 'tx' | 'outside'
  /** Faults besides handlers that kill their process. @default all */
  readonly faults?: readonly Fault[]
}

export default defineScenario({
  id: 'R24',
  title:
    'Payments report their outcomes to a topic whose handler writes the application’s tables through `tx`. Workers, handlers and PostgreSQL are killed; rails answer late or never; people decide, redrive and cancel; the application cancels.',
  bar: `20,000 payments; each has exactly one final row, equal to the ledger and the rail book; 0 outcomes written twice, 0 gaps in outcome numbers, 0 cancelled payments paid; each of ${OUTCOME_RULES.length} planted violations is found.`,
  sizes: { full: { payments: 20_000, workers: 4 }, short: { payments: 400, workers: 4 } },
  run: (fixture, size) => runOrders(fixture, size),
})

/** Runs the scenario. With the handler `outside` it must report a defect. */
export async function runOrders(
  fixture: ScenarioFixture,
  { payments, workers }: { readonly payments: number; readonly workers: number },
  { handler = 'tx', faults = FAULTS }: OrderOptions = {},
): Promise<Outcome> {
  const scenario = await RelayScenario.create(fixture, { rails: ORDER_RAILS })
  const shop = await OrderShop.create(scenario)
  const people = await OrderPeople.create(scenario, fixture.randomFor('people'))
  const killEvery = Math.ceil(Math.min(PAYMENTS_PER_KILLED_HANDLER, payments / KILLED_HANDLERS_MIN))
  const fleet = scenario.fleet({
    words: ['--lease-seconds', String(LEASE_SECONDS), '--batch-size', '50', '--concurrency', '20'],
    env: {
      LEASE_REPAIR_INTERVAL_MS: '2000',
      OUTBOX_MODULE: pathToFileURL(builtPath('libs/outbox/index.js')).href,
      DB_MODULE: pathToFileURL(builtPath('libs/db/index.js')).href,
      HANDLER: handler,
      KILL_EVERY: String(killEvery),
    },
  })
  // Cancels one order before a worker runs, so that even a short run has a cancelled payment.
  const cancelled = buildOrder(payments + 1, fixture.randomFor('cancelled order'))
  await shop.enqueue([cancelled])
  await shop.cancel(cancelled.payment.instructionId, { commits: true })
  await fleet.start(workers)
  people.start()
  const run = { fixture, scenario, shop, people, fleet, payments, workers, faults }
  const restarts = await causeFaults(run)
  await untilAllEnded(run)
  const exitCodes = await fleet.stop()
  return report(run, restarts, exitCodes)
}

interface OrderRun {
  readonly fixture: ScenarioFixture
  readonly scenario: RelayScenario
  readonly shop: OrderShop
  readonly people: OrderPeople
  readonly fleet: WorkerFleet
  readonly payments: number
  readonly workers: number
  readonly faults: readonly Fault[]
}

/** Enqueues all orders and causes each fault after a number of them. Returns the number of clean restarts. */
async function causeFaults(run: OrderRun): Promise<number> {
  const { fixture, fleet, payments, workers } = run
  const random = fixture.randomFor('orders')
  const interventions = new Set<Promise<void>>()
  let accepted = 0
  let restarts = 0
  const enqueueUpTo = async (target: number) => {
    while (accepted < target) {
      const first = accepted + 1
      const orders = Array.from({ length: Math.min(BATCH, target - accepted) }, (_, index) =>
        buildOrder(first + index, random),
      )
      const items = await run.shop.enqueue(orders)
      for (const [index, order] of orders.entries()) interventions.add(intervene(run, order, items[index]!))
      accepted += orders.length
      await waitUntil('the queue is short enough', async () => (await countPending(run)) < BACKLOG_MAX, {
        timeoutMs: 600_000,
        everyMs: 100,
      })
    }
  }
  for (const [index, { at, fault }] of planFaults(run).entries()) {
    await enqueueUpTo(at)
    await waitUntil('most workers are at work', () => {
      fleet.topUp(workers)
      return fleet.atWork.length >= workers - STARTING_MAX
    })
    if (fault === 'server restarted') restarts += 1
    await strike(run, fault)
    fixture.progress(`${accepted} of ${payments} orders, ${index + 1} faults`)
  }
  await enqueueUpTo(payments)
  await Promise.all(interventions)
  return restarts
}

function planFaults(run: OrderRun): { readonly at: number; readonly fault: Fault }[] {
  const { fixture, payments, faults } = run
  const plan = (fault: Fault) =>
    Array.from({ length: Math.ceil(payments / PAYMENTS_PER[fault]) }, () => ({
      at: between(fixture.random, 1, payments),
      fault,
    }))
  return faults.flatMap(plan).toSorted((left, right) => left.at - right.at)
}

async function strike({ fixture: { random }, scenario, fleet, workers }: OrderRun, fault: Fault): Promise<void> {
  switch (fault) {
    case 'worker killed': {
      const killed = fleet.kill(fleet.pick(random))
      fleet.topUp(workers)
      return killed
    }
    case 'worker frozen':
      // The freeze lasts longer than the leases, so other workers hold the items when the worker continues.
      return fleet.freeze(fleet.pick(random), LEASE_SECONDS * 1_000 + between(random, 200, 3_000))
    case 'server killed':
    case 'server restarted':
      return scenario.cycleServer({ kill: fault === 'server killed', downMs: between(random, 0, 500) })
  }
}

async function intervene({ shop, people }: OrderRun, order: Order, { outboxId }: EnqueuedItem): Promise<void> {
  const { intervention, afterMs, payment } = order
  if (intervention === undefined) return
  await delay(afterMs)
  switch (intervention) {
    case 'cancel':
    case 'cancel, rolled back':
      return shop.cancel(payment.instructionId, { commits: intervention === 'cancel' })
    case 'operator cancels':
      return people.cancel(outboxId)
    case 'operator holds':
      return people.hold(outboxId)
  }
}

/** Waits until nothing is pending and the people have nothing left to decide. */
async function untilAllEnded(run: OrderRun): Promise<void> {
  const { fixture, people, fleet, workers } = run
  await people.stop()
  await waitUntil(
    'every order has ended and every message is handled',
    async () => {
      fleet.topUp(workers)
      const pending = await countPending(run)
      fixture.progress(`${pending} items left`)
      const actions = await people.pass()
      return actions === 0 && pending === 0
    },
    { timeoutMs: 600_000, everyMs: 250 },
  )
}

async function countPending({ scenario: { db } }: OrderRun): Promise<number> {
  const { rows } = await retryUntilSuccess('a read of the queue', () =>
    db
      .as('symphony_owner')
      .query<{ items: number }>(`SELECT count(*)::int AS items FROM ${db.qualify('payment_outbox_pending')}`),
  )
  return rows[0]!.items
}

async function report(
  { scenario, shop, people, fleet, payments }: OrderRun,
  restarts: number,
  exitCodes: readonly (number | string)[],
): Promise<Outcome> {
  const client = await scenario.db.connect()
  const counts = (await client.query<Record<string, number>>(COUNTS)).rows[0]!
  const { violations, missed } = await checkOutcomes(client, {
    shop: shop.name,
    book: await readBook(scenario.bookFile),
  })
  const { report: audit, defects } = await scenario.audit()
  const found = (rule: string) => violations.find((violation) => violation.rule === rule)?.count ?? 0
  // A handler that kills its process looks like a worker that exits by itself.
  const killedHandlers = fleet.unexpectedExits.filter((text) => text.endsWith('(SIGKILL)'))
  return {
    figures: {
      payments,
      ...counts,
      workerKills: fleet.kills,
      workerFreezes: fleet.freezes,
      handlersKilled: killedHandlers.length,
      serverKills: scenario.serverKills,
      serverRestarts: restarts,
      decisions: people.decisions,
      redrives: people.redrives,
      operatorHolds: people.holds,
      cancelledByApplication: shop.cancelled,
      cancelledByOperators: people.cancelled,
      cancelRefused: shop.refused,
      cancelRolledBack: shop.rolledBack,
      notOneFinalRow: found('one final row'),
      differentFromLedger: found('final row equals ledger') + found('order equals ledger'),
      writtenTwice: found('handled once'),
      gaps: found('outcome numbers'),
      cancelledAndPaid: found('cancelled is unpaid'),
      paidTwice: found('paid once') + audit.doublePaid,
      plantedFound: OUTCOME_RULES.length - missed.length,
    },
    defects: [
      ...violations.map(({ defect }) => defect),
      ...missed.map((rule) => `the violation planted for the rule “${rule}” was not found`),
      ...defects,
      ...fleet.unexpectedExits.filter((text) => !killedHandlers.includes(text)),
      ...(killedHandlers.length > 0 ? [] : ['no handler killed its process after its writes']),
      ...exitCodes
        .filter((exitCode) => exitCode !== 0)
        .map((exitCode) => `a worker exited with ${exitCode} after a clean stop, expected 0`),
    ],
  }
}

const COUNTS = `
  SELECT
    (SELECT count(*)::int FROM shop.orders WHERE state = 'BOOKED') AS booked,
    (SELECT count(*)::int FROM shop.orders WHERE state = 'RELEASED') AS released,
    (SELECT count(*)::int FROM payment_outbox_identities WHERE is_message) AS messages,
    (SELECT count(DISTINCT a.outbox_id)::int FROM payment_outbox_attempts a JOIN payment_outbox_identities i USING (outbox_id)
      WHERE i.is_message AND a.attempt_no > 1) AS "messagesHandledAgain",
    (SELECT count(*)::int FROM payment_outbox_events WHERE event_type = 'LATE_OUTCOME') AS "lateOutcomes",
    (SELECT count(*)::int FROM payment_outbox_events WHERE event_type = 'HOLD_PLACED') AS holds`
