import { between, type Random } from '../../libs/cli/commands/demo/seededRandom.js'
import type { Database } from '../../libs/db/index.js'
import { acquireLease } from '../../libs/lease/index.js'
import {
  claimOutboxBatch,
  completeOutboxAttempt,
  enqueuePaymentOutbox,
  releaseOutboxLease,
  renewOutboxLease,
  repairExpiredLeases,
  type CompletionState,
} from '../../libs/outbox/index.js'
import type { Rail } from '../../libs/rails/index.js'
import type { TestDatabase } from '../support/database.js'
import type { WireProxy } from '../support/wireProxy.js'
import type { Grant, History } from './history.js'
import { buildPaymentOn } from './payments.js'

/** A lease as a claim returned it. Other clients may use it later. */
interface Held extends Grant {
  readonly workerId: string
  readonly key: string
}

/** State that the clients of one history share, so that they compete. */
export class SharedState {
  /** Prefix of all names, so that no two histories share a row. Also the name of the rail. */
  readonly name: string
  readonly db: TestDatabase
  readonly rail: Rail
  readonly history: History
  /** All leases that any client got. Clients use stale ones on purpose. */
  readonly leases: Held[] = []
  readonly outboxIds: string[] = []
  keys = 0

  constructor(given: Pick<SharedState, 'name' | 'db' | 'rail' | 'history'>) {
    this.name = given.name
    this.db = given.db
    this.rail = given.rail
    this.history = given.history
  }

  /** Derives the terminal outcome from the key, so that the outcomes of a stale holder and of the valid one agree. */
  terminalOutcomeOf(key: string): CompletionState {
    return Number(key.slice(key.lastIndexOf('-') + 1)) % 3 === 0 ? 'FAILED' : 'DISPATCHED'
  }

  async pay(outboxId: string): Promise<string> {
    const request = {
      ...buildPaymentOn(this.name),
      reference: outboxId,
      compactReference: outboxId.replaceAll('-', ''),
      attempt: 1,
      sequenceId: 1n,
      notAfter: new Date(Date.now() + 60_000),
    }
    const answer = await this.rail.dispatch(request, { signal: new AbortController().signal })
    if (answer.outcome !== 'success') throw new Error(`the rail returned ${answer.outcome}, expected success`)
    return answer.reference
  }
}

export interface ClientOptions {
  readonly number: number
  readonly database: Database
  readonly random: Random
  /** Proxy that cuts the connection at times. Undefined for a client with a direct connection. */
  readonly proxy: WireProxy | undefined
}

/** Runs random operations of one client and records their answers. */
export async function runClient(shared: SharedState, options: ClientOptions, operations: number): Promise<void> {
  const { proxy, random } = options
  for (let operation = 0; operation < operations; operation += 1) {
    if (proxy !== undefined && random() < CUT_CHANCE) {
      proxy.arm({
        direction: random() < 0.5 ? 'toServer' : 'toClient',
        afterBytes: between(random, 0, CUT_BYTES_MAX),
        fault: random() < 0.5 ? 'end' : 'reset',
      })
    }
    const step = chooseStep(random())
    await step(shared, options)
    proxy?.disarm()
  }
}

/** Records exactly one operation. */
type Step = (shared: SharedState, options: ClientOptions) => Promise<unknown>

/** Steps with their weights in percent. */
const STEPS: readonly (readonly [weight: number, step: Step])[] = [
  [20, enqueueStep],
  [27, claimStep],
  [25, completeStep],
  [7, renewStep],
  [4, releaseStep],
  [6, expireStep],
  [2, repairStep],
  [9, acquireStep],
]

function chooseStep(dice: number): Step {
  let place = dice * 100
  return STEPS.find(([weight]) => (place -= weight) < 0)?.[1] ?? acquireStep
}

function enqueueStep(shared: SharedState, { number, database, random }: ClientOptions): Promise<unknown> {
  // Repeats an earlier key or uses the next one.
  const keyNumber = between(random, Math.max(1, shared.keys - 4), shared.keys + 1)
  shared.keys = Math.max(shared.keys, keyNumber)
  const [key, participant] = [`${shared.name}-${keyNumber}`, `${shared.name}-participant-${keyNumber % 2}`]
  return shared.history.record(number, { kind: 'enqueue' as const, key, participant }, async (call) => {
    const instruction = {
      ...buildPaymentOn(shared.name),
      instructionId: key,
      idempotencyKey: key,
      participantId: participant,
    }
    const { outboxId, sequenceId, created } = await enqueuePaymentOutbox(database.as('symphony_ingest'), instruction)
    shared.outboxIds.push(outboxId)
    Object.assign(call, { answer: { outboxId, sequenceId, created } })
  })
}

function claimStep(shared: SharedState, { number, database, random }: ClientOptions): Promise<unknown> {
  const worker = `${shared.name}-client-${number}`
  return shared.history.record(number, { kind: 'claim' as const, worker }, async (call) => {
    const rails = [shared.name]
    const items = await claimOutboxBatch(
      database.as('symphony_executor'),
      between(random, 1, 2),
      worker,
      LEASE_SECONDS,
      { rails },
    )
    const answer = items.map(({ outboxId, leaseToken }) => ({ outboxId, leaseToken }))
    Object.assign(call, { answer })
    for (const { outboxId, leaseToken, instructionId } of items) {
      shared.leases.push({ outboxId, leaseToken, workerId: worker, key: instructionId })
    }
  })
}

async function completeStep(shared: SharedState, options: ClientOptions): Promise<unknown> {
  const { number, database, random } = options
  const lease = someLease(shared, random)
  if (lease === undefined) return claimStep(shared, options)
  const { outboxId, leaseToken, workerId, key } = lease
  const state = random() < 0.4 ? 'RETRYABLE' : shared.terminalOutcomeOf(key)
  const railReference = state === 'DISPATCHED' ? await shared.pay(outboxId) : null
  return shared.history.record(number, { kind: 'complete' as const, outboxId, leaseToken, state }, async (call) => {
    const outcome = { outboxId, leaseToken, state, railReference, errorCode: state === 'DISPATCHED' ? null : 'REFUSED' }
    // A FAILED outcome with outcomeUnknown: false says that the rail was asked about every attempt.
    const settled = state === 'FAILED' ? { outcomeUnknown: false } : {}
    const recorded = await completeOutboxAttempt(database.as('symphony_executor'), workerId, { ...outcome, ...settled })
    Object.assign(call, { answer: { attemptNo: recorded.attemptNo, state: recorded.state } })
  })
}

async function renewStep(shared: SharedState, options: ClientOptions): Promise<unknown> {
  const { number, database, random } = options
  const lease = someLease(shared, random)
  if (lease === undefined) return claimStep(shared, options)
  const { outboxId, leaseToken, workerId } = lease
  return shared.history.record(number, { kind: 'renew' as const, outboxId, leaseToken }, async () => {
    await renewOutboxLease(database.as('symphony_executor'), lease, workerId, LEASE_SECONDS)
  })
}

async function releaseStep(shared: SharedState, options: ClientOptions): Promise<unknown> {
  const { number, database, random } = options
  const lease = someLease(shared, random)
  if (lease === undefined) return claimStep(shared, options)
  const { outboxId, leaseToken, workerId } = lease
  return shared.history.record(number, { kind: 'release' as const, outboxId, leaseToken }, async () => {
    await releaseOutboxLease(database.as('symphony_executor'), lease, workerId)
  })
}

/** Expires the lease of one item and makes its next attempt due. */
async function expireStep(shared: SharedState, options: ClientOptions): Promise<unknown> {
  const { number, random } = options
  const outboxId = shared.outboxIds[Math.floor(random() * shared.outboxIds.length)]
  if (outboxId === undefined) return enqueueStep(shared, options)
  return shared.history.record(number, { kind: 'expire' as const, outboxId }, () => letTimePass(shared.db, [outboxId]))
}

export async function letTimePass(db: TestDatabase, outboxIds: readonly string[]): Promise<void> {
  await db.queryNoRole(
    `UPDATE payment_outbox_pending SET
       lease_expires_at = CASE WHEN lease_token IS NOT NULL THEN clock_timestamp() - interval '1 second' END,
       next_attempt_at = least(next_attempt_at, clock_timestamp() - interval '1 second')
     WHERE outbox_id = ANY ($1)`,
    [outboxIds],
  )
}

function repairStep(shared: SharedState, { number, database }: ClientOptions): Promise<unknown> {
  return shared.history.record(number, { kind: 'repair' as const }, async () => {
    await repairExpiredLeases(database.as('symphony_executor'), 100, `${shared.name}-repair-${number}`)
  })
}

function acquireStep(shared: SharedState, { number, database, random }: ClientOptions): Promise<unknown> {
  const resource = `${shared.name}-resource-${between(random, 1, 2)}`
  return shared.history.record(number, { kind: 'acquire' as const, resource }, async (call) => {
    // All clients use one owner, so each acquisition replaces the previous one and gets a new token.
    const grant = await acquireLease(database.as('symphony_executor'), {
      resource,
      owner: shared.name,
      durationMs: 60_000,
    })
    if (grant !== null) Object.assign(call, { answer: grant.fencingToken })
  })
}

/** Returns one of the latest leases in 70 % of cases, else any lease. */
function someLease({ leases }: SharedState, random: Random): Held | undefined {
  const from = random() < 0.7 ? Math.max(0, leases.length - 8) : 0
  return leases[from + Math.floor(random() * (leases.length - from))]
}

const LEASE_SECONDS = 600
const CUT_CHANCE = 0.1
const CUT_BYTES_MAX = 900
