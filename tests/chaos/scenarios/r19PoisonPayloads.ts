import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { buildPaymentOn } from '../../scorecard/payments.js'
import { RelayScenario } from '../../scorecard/RelayScenario.js'
import { defineScenario } from '../../scorecard/Scenario.js'
import type { ScenarioFixture } from '../../scorecard/ScenarioFixture.js'
import { waitUntil } from '../../scorecard/waitUntil.js'
import type { WorkerFleet } from '../../scorecard/WorkerFleet.js'

const WORKERS = 4
const LEASE_SECONDS = 3
const TRIES_MAX = 3
const BATCH = 1_000

/** Adapter code that ends or blocks the worker. */
const CRASHING: Readonly<Record<string, string>> = {
  exits: 'process.exit(1)',
  'kills its process': `process.kill(process.pid, 'SIGKILL')`,
  aborts: 'process.abort()',
  'exhausts memory': 'for (const all = [];;) all.push(new Array(100000).fill(Math.random()))',
  'throws an uncaught error': `setTimeout(() => { throw new Error('poison') }); await new Promise(() => {})`,
  'causes an unhandled rejection': `void Promise.reject(new Error('poison')); await new Promise(() => {})`,
  'blocks the event loop': 'for (;;) {}',
}

/** Adapter code that fails only its own call. */
const FAILING: Readonly<Record<string, string>> = {
  'throws null': 'throw null',
  'throws a 10 MB error': `throw new Error('x'.repeat(10_000_000))`,
  'returns invalid text': `return '<html>502</html>'`,
  'returns an object whose getters throw': `return new Proxy({}, { get() { throw new Error('poison') } })`,
  'never answers': 'await new Promise(() => {})',
}

/**
 * Payloads that end or block the worker share rails and workers with normal payments. The other poison payloads have
 * the hold rail to themselves.
 */
const RAILS = `['resend', 'inquire', 'hold'].map((onUnknown) => {
  const rail = simulatedRail({ type: onUnknown, onUnknown, bookUrl, latencyMs: { min: 1, max: 5 }, timeoutMs: 1500, settleMs: 1500 })
  const poisons = {
    ${Object.entries({ ...CRASHING, ...FAILING })
      .map(([name, code]) => `${JSON.stringify(name)}: async () => { ${code} },`)
      .join('\n    ')}
  }
  return {
    ...rail,
    dispatch: (request, context) => {
      const poison = poisons[request.payload.poison]
      if (poison === undefined) return rail.dispatch(request, context)
      // Records the call before the poison runs, because the process may be gone afterwards.
      appendFileSync(process.env.TRIES_FILE, request.payload.poison + '\\t' + request.reference + '\\n')
      return poison()
    },
  }
})`

export default defineScenario({
  id: 'R19',
  title: `Poison payloads of ${Object.keys({ ...CRASHING, ...FAILING }).length} kinds are mixed with normal payments; ${Object.keys(CRASHING).length} kinds end or block their worker.`,
  bar: `100,000 payments; each poison payload is held within ${TRIES_MAX} attempts; 0 other payments affected.`,
  sizes: { full: { payments: 100_000, ofEachKind: 4 }, short: { payments: 500, ofEachKind: 1 } },
  async run(fixture, { payments, ofEachKind }) {
    const scenario = await RelayScenario.create(fixture, { rails: RAILS })
    const triesFile = join(fixture.folder, 'tries')
    await writeFile(triesFile, '')
    const poisons = [...kindsOn('resend', CRASHING), ...kindsOn('hold', FAILING)].flatMap((one) =>
      Array(ofEachKind).fill(one),
    )
    await enqueueMixed(fixture, scenario, payments, poisons)
    const fleet = scenario.fleet({
      words: ['--lease-seconds', String(LEASE_SECONDS), '--batch-size', '25', '--concurrency', '10'],
      // A small heap, so that the payload that exhausts memory does so soon.
      env: { LEASE_REPAIR_INTERVAL_MS: '1000', NODE_OPTIONS: '--max-old-space-size=192', TRIES_FILE: triesFile },
    })
    // Does not wait for the start, because a payload may end the first worker before the last one has started.
    fleet.topUp(WORKERS)
    await superviseUntilDrained(fixture, scenario, fleet)
    await fleet.stop()

    const { defects } = await scenario.audit()
    const { rows } = await scenario.db.queryNoRole<Row>(SUMMARY)
    const tries = triesOf(await readFile(triesFile, 'utf8'))
    const uncalled = await readUncalled(scenario, tries)
    // The dispatch mark of a hold rail is committed before the call, and the worker may die between the two.
    const unexplained = uncalled.filter(({ railType, reason }) => railType !== 'hold' || reason !== 'OUTCOME_UNKNOWN')
    const [poisoned, innocent] = [
      rows.filter(({ poison }) => poison !== null),
      rows.filter(({ poison }) => poison === null),
    ]
    const affected = innocent.filter(({ state }) => state !== 'DISPATCHED')
    const notHeld = poisoned.filter(({ state }) => state !== 'HELD')
    const tooOften = [...tries].filter(([, count]) => count > TRIES_MAX)
    const count = (some: readonly Row[]) => some.reduce((sum, { items }) => sum + items, 0)
    const describe = ({ poison, state, reason, items }: Row) =>
      `${items} × ${poison ?? 'innocent'}: ${state} ${reason ?? ''}`
    return {
      figures: {
        payments: count(rows),
        kinds: new Set(poisoned.map(({ poison }) => poison)).size,
        poisoned: count(poisoned),
        held: count(poisoned) - count(notHeld),
        triesMost: Math.max(...tries.values()),
        heldBeforeTheirCall: uncalled.length - unexplained.length,
        workersLost: fleet.lost,
        othersAffected: count(affected),
      },
      defects: [
        ...defects,
        ...notHeld.map(describe),
        ...affected.map(describe),
        ...tooOften.map(([call, times]) => `${call} was tried ${times} times`),
        ...unexplained.map(
          ({ poison, railType, reason, attempts }) => `never tried on ${railType}: ${poison}, ${reason}, ${attempts}`,
        ),
      ],
    }
  },
})

interface Uncalled {
  readonly poison: string
  readonly railType: string
  readonly reason: string | null
  readonly attempts: string
}

/** Returns poison payments whose adapter was never called, with their attempts. */
async function readUncalled({ db }: RelayScenario, tries: ReadonlyMap<string, number>): Promise<readonly Uncalled[]> {
  const tried = [...tries.keys()].map((call) => call.split('\t')[1])
  const { rows } = await db.queryNoRole<Uncalled>(
    `SELECT p.payload->>'poison' AS poison, p.rail_type AS "railType", p.hold_reason AS reason,
       (SELECT string_agg(concat_ws(' ', a.state, a.action, a.worker_id), ', ' ORDER BY a.attempt_no)
        FROM payment_outbox_attempts a WHERE a.outbox_id = p.outbox_id) AS attempts
     FROM payment_outbox_pending p WHERE p.payload ? 'poison' AND p.outbox_id <> ALL ($1::uuid[])`,
    [tried],
  )
  return rows
}

function triesOf(text: string): ReadonlyMap<string, number> {
  const tries = new Map<string, number>()
  for (const call of text.split('\n').filter(Boolean)) tries.set(call, (tries.get(call) ?? 0) + 1)
  return tries
}

function kindsOn(railType: string, kinds: Readonly<Record<string, string>>) {
  return Object.keys(kinds).map((poison) => ({ railType, poison }))
}

/** Enqueues the poison payloads at random positions among normal payments. */
async function enqueueMixed(
  fixture: ScenarioFixture,
  scenario: RelayScenario,
  payments: number,
  poisons: readonly { readonly railType: string; readonly poison: string }[],
): Promise<void> {
  const places = new Map<number, (typeof poisons)[number]>()
  for (const poison of poisons) {
    let place = Math.floor(fixture.random() * payments)
    while (places.has(place)) place = (place + 1) % payments
    places.set(place, poison)
  }
  for (let first = 0; first < payments; first += BATCH) {
    const count = Math.min(BATCH, payments - first)
    await scenario.enqueue(
      Array.from({ length: count }, (_, index) => {
        const poison = places.get(first + index)
        if (poison !== undefined) return buildPaymentOn(poison.railType, { poison: poison.poison })
        return buildPaymentOn((first + index) % 2 === 0 ? 'resend' : 'inquire')
      }),
    )
  }
}

/** Acts like an orchestrator: kills workers whose leases expired, and replaces dead workers. */
async function superviseUntilDrained(
  fixture: ScenarioFixture,
  scenario: RelayScenario,
  fleet: WorkerFleet,
): Promise<void> {
  await waitUntil(
    'everything but the poison is dispatched',
    async () => {
      for (const workerId of await expiredWorkers(scenario)) {
        const stuck = fleet.find(workerId)
        if (stuck !== undefined) await fleet.kill(stuck)
      }
      fleet.topUp(WORKERS)
      const { pendingCount, heldCount } = await scenario.status()
      fixture.progress(`${pendingCount} left, ${heldCount} held, ${fleet.lost} workers lost`)
      return pendingCount === heldCount
    },
    { timeoutMs: 1_800_000, everyMs: 500 },
  )
}

async function expiredWorkers({ db }: RelayScenario): Promise<readonly string[]> {
  const { rows } = await db.queryNoRole<{ worker: string }>(
    `SELECT DISTINCT worker_id AS worker FROM payment_outbox_attempts WHERE state = 'ZOMBIE_REQUEUE'`,
  )
  return rows.map(({ worker }) => worker)
}

interface Row {
  readonly poison: string | null
  readonly state: string
  readonly reason: string | null
  readonly items: number
}

const SUMMARY = `
  WITH tried AS (
    SELECT outbox_id, max(state::text) FILTER (WHERE state IN ('DISPATCHED', 'FAILED')) AS ending,
      min(payload->>'poison') AS poison
    FROM payment_outbox_attempts GROUP BY outbox_id
  )
  SELECT COALESCE(t.poison, p.payload->>'poison') AS poison,
    COALESCE(t.ending, CASE WHEN p.hold_reason IS NULL THEN 'PENDING' ELSE 'HELD' END) AS state,
    p.hold_reason AS reason, count(*)::int AS items
  FROM payment_outbox_identities i LEFT JOIN tried t USING (outbox_id) LEFT JOIN payment_outbox_pending p USING (outbox_id)
  GROUP BY 1, 2, 3`
