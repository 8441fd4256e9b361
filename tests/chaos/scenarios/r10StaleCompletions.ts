import { between, type Random } from '../../../libs/cli/commands/demo/seededRandom.js'
import { isLeaseLostError, LeaseLostError, type RoleHandle } from '../../../libs/db/index.js'
import {
  claimOutboxBatch,
  completeOutboxAttempt,
  completeOutboxAttempts,
  recordLateOutcome,
  type AttemptOutcome,
  type CompletionState,
} from '../../../libs/outbox/index.js'
import { simulatedRail } from '../../../libs/rails/index.js'
import { rowHashes } from '../../support/fingerprint.js'
import { railRequest } from '../../support/railRequest.js'
import { buildPaymentOn } from '../../scorecard/payments.js'
import { RelayScenario } from '../../scorecard/RelayScenario.js'
import { defineScenario } from '../../scorecard/Scenario.js'

const CLIENTS = 8
const BATCH = 100
const LEASE_SECONDS = 3_600
const RAIL = 'resend'
/** Number of completions per stale lease. */
const TRIES_EACH = 50

type Staleness = 'expired' | 'taken over' | 'already recorded' | 'wrong token' | 'wrong worker'
const KINDS: readonly Staleness[] = ['expired', 'taken over', 'already recorded', 'wrong token', 'wrong worker']

/** A worker and a lease that the worker does not hold. */
interface StaleLease {
  readonly kind: Staleness
  readonly workerId: string
  readonly outboxId: string
  readonly leaseToken: string
  readonly railReference: string
}

export default defineScenario({
  id: 'R10',
  title:
    'Workers complete items whose lease they do not hold: expired, taken over, already recorded, another token, another worker.',
  bar: '100,000 completions, single and in batches; all get P7002, the ledger is unchanged, late outcomes are kept.',
  sizes: { full: { completions: 100_000 }, short: { completions: 2_000 } },
  async run(fixture, { completions }) {
    const scenario = await RelayScenario.create(fixture, { rails: '[]' })
    const { db } = scenario
    const executor = db.as('symphony_executor')
    const leases = await createStaleLeases(scenario, Math.ceil(completions / TRIES_EACH))
    const before = await rowHashes(db)

    const tally = { refused: 0, recordedBefore: 0, wrong: [] as string[] }
    let tried = 0
    const client = async (random: Random) => {
      while (tried < completions) {
        const inBatch = random() < 0.5
        const count = Math.min(inBatch ? between(random, 1, BATCH) : 1, completions - tried)
        tried += count
        const chosen = Array.from({ length: count }, () => pick(random, leases))
        const outcomes = chosen.map((lease) => outcomeOf(lease, random))
        await (inBatch
          ? completeMany(executor, chosen, outcomes, tally)
          : completeOne(executor, chosen[0]!, outcomes[0]!, tally))
        if (tried % 10_000 < count) fixture.progress(`${tried} of ${completions} tried`)
      }
    }
    await Promise.all(Array.from({ length: CLIENTS }, (_, number) => client(fixture.randomFor(`client ${number}`))))
    const after = await rowHashes(db)
    const changed = Object.keys(after).filter((table) => after[table] !== before[table])

    const evidence = await recordLateOutcomes(executor, leases)
    // If a stale completion was accepted, the item has no lease any more and its holder cannot complete it.
    if (tally.wrong.length === 0) await completeByHolders(scenario, leases)
    const { defects } = await scenario.audit()
    return {
      figures: {
        completions: tried,
        refusedAsP7002: tally.refused,
        ofThemRecordedBefore: tally.recordedBefore,
        accepted: tally.wrong.length,
        tablesChanged: changed.length,
        lateOutcomesKept: evidence.kept,
      },
      defects: [
        ...tally.wrong.slice(0, 20),
        ...(tally.refused === tried ? [] : [`${tried - tally.refused} were not refused`]),
        ...changed.map((table) => `${table} has changed`),
        ...evidence.defects,
        ...defects,
      ],
    }
  },
})

/**
 * Creates items of every kind of staleness. Each is paid once, so that the valid completion and the late outcome agree.
 */
async function createStaleLeases(scenario: RelayScenario, count: number): Promise<readonly StaleLease[]> {
  const { db, bookUrl } = scenario
  const executor = db.as('symphony_executor')
  const rail = simulatedRail({ type: RAIL, onUnknown: 'resend', bookUrl })
  const leases: StaleLease[] = []
  while (leases.length < count) {
    await scenario.enqueue(Array.from({ length: Math.min(1_000, count - leases.length) }, () => buildPaymentOn(RAIL)))
    const leased = await claimOutboxBatch(executor, 1_000, 'stale', LEASE_SECONDS)
    for (const [index, item] of leased.entries()) {
      const { outboxId, leaseToken } = item
      const answer = await rail.dispatch(railRequest({ ...item, reference: outboxId }), {
        signal: new AbortController().signal,
      })
      if (answer.outcome !== 'success') throw new Error(`the rail returned ${answer.outcome}, expected success`)
      const kind = KINDS[index % KINDS.length]!
      leases.push({
        kind,
        workerId: kind === 'wrong worker' ? 'another' : 'stale',
        outboxId,
        leaseToken: kind === 'wrong token' ? outboxId : leaseToken,
        railReference: answer.reference,
      })
    }
  }
  await rail.close?.()

  const ofKind = (...kinds: Staleness[]) => leases.filter(({ kind }) => kinds.includes(kind))
  const expire = (some: readonly StaleLease[]) =>
    db.queryNoRole(
      `UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() - interval '1 second' WHERE outbox_id = ANY ($1)`,
      [some.map(({ outboxId }) => outboxId)],
    )
  await expire(ofKind('taken over'))
  for (;;) if ((await claimOutboxBatch(executor, 1_000, 'rightful', LEASE_SECONDS)).length === 0) break
  // Expires these leases after the takeovers, so that they are not taken over as well.
  await expire(ofKind('expired'))
  for (const lease of ofKind('already recorded')) {
    const { outboxId, leaseToken, railReference, workerId } = lease
    await completeOutboxAttempt(executor, workerId, { outboxId, leaseToken, state: 'DISPATCHED', railReference })
  }
  return leases
}

interface Tally {
  refused: number
  recordedBefore: number
  readonly wrong: string[]
}

async function completeOne(
  executor: RoleHandle,
  lease: StaleLease,
  outcome: AttemptOutcome,
  tally: Tally,
): Promise<void> {
  try {
    const { state } = await completeOutboxAttempt(executor, lease.workerId, outcome)
    tally.wrong.push(`${lease.kind}: ${state} was recorded`)
  } catch (error) {
    if (!isLeaseLostError(error)) throw error
    tally.refused += 1
    const wasRecorded = error instanceof LeaseLostError && error.recorded?.state === 'DISPATCHED'
    if (wasRecorded) tally.recordedBefore += 1
    if (wasRecorded !== (lease.kind === 'already recorded')) tally.wrong.push(`${lease.kind}: recorded ${wasRecorded}`)
  }
}

/** Completes in one batch per worker, because a call completes for one worker only. */
async function completeMany(
  executor: RoleHandle,
  leases: readonly StaleLease[],
  outcomes: readonly AttemptOutcome[],
  tally: Tally,
): Promise<void> {
  for (const workerId of new Set(leases.map((lease) => lease.workerId))) {
    const ofWorker = leases.flatMap((lease, index) =>
      lease.workerId === workerId ? [{ lease, outcome: outcomes[index]! }] : [],
    )
    // A batch may name a lease only once.
    const named = [...new Map(ofWorker.map((one) => [one.lease.outboxId, one])).values()]
    for (const one of ofWorker.filter((each) => !named.includes(each)))
      await completeOne(executor, one.lease, one.outcome, tally)
    const verdicts = await completeOutboxAttempts(
      executor,
      workerId,
      named.map(({ outcome }) => outcome),
    )
    for (const [index, { verdict }] of verdicts.entries()) {
      const { kind } = named[index]!.lease
      const wanted = kind === 'already recorded' ? 'ALREADY_RECORDED' : 'LEASE_LOST'
      if (verdict === wanted) tally.refused += 1
      else tally.wrong.push(`${kind}: the batch says ${verdict}`)
      if (verdict === 'ALREADY_RECORDED') tally.recordedBefore += 1
    }
  }
}

/** Records late outcomes of stale workers. The ledger keeps them, and the items stay unchanged. */
async function recordLateOutcomes(executor: RoleHandle, leases: readonly StaleLease[]) {
  const defects: string[] = []
  let kept = 0
  for (const { kind, workerId, outboxId, leaseToken, railReference } of leases) {
    if (kind !== 'expired' && kind !== 'taken over') continue
    const late = { outboxId, leaseToken, state: 'DISPATCHED', railReference } as const
    const { eventType } = await recordLateOutcome(executor, workerId, late)
    if (eventType === 'LATE_OUTCOME') kept += 1
    else defects.push(`${kind}: the evidence was kept as ${eventType}`)
  }
  return { kept, defects }
}

/** Completes all items by their holders. This must succeed, because stale completions change nothing. */
async function completeByHolders(scenario: RelayScenario, leases: readonly StaleLease[]): Promise<void> {
  const { db } = scenario
  const executor = db.as('symphony_executor')
  const references = new Map(leases.map(({ outboxId, railReference }) => [outboxId, railReference]))
  await db.queryNoRole(
    `UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() - interval '1 second'
     WHERE claimed_by = 'stale'`,
  )
  for (;;) if ((await claimOutboxBatch(executor, 1_000, 'rightful', LEASE_SECONDS)).length === 0) break
  const { rows } = await db.queryNoRole<{ outbox_id: string; lease_token: string }>(
    `SELECT outbox_id, lease_token FROM payment_outbox_pending WHERE claimed_by = 'rightful'`,
  )
  for (let start = 0; start < rows.length; start += 500) {
    const outcomes = rows.slice(start, start + 500).map(({ outbox_id, lease_token }) => ({
      outboxId: outbox_id,
      leaseToken: lease_token,
      state: 'DISPATCHED' as const,
      railReference: references.get(outbox_id) ?? null,
    }))
    await completeOutboxAttempts(executor, 'rightful', outcomes)
  }
  await scenario.untilDrained(30_000)
}

const STATES: readonly CompletionState[] = ['DISPATCHED', 'FAILED', 'RETRYABLE']

function outcomeOf({ outboxId, leaseToken }: StaleLease, random: Random): AttemptOutcome {
  return { outboxId, leaseToken, state: pick(random, STATES), railReference: 'stale', errorCode: 'STALE' }
}

function pick<T>(random: Random, choices: readonly T[]): T {
  return choices[Math.floor(random() * choices.length)]!
}
