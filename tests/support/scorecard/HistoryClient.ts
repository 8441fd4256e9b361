import { between, type Random } from '../../../libs/cli/commands/demo/seededRandom.js'
import type { Database } from '../../../libs/db/index.js'
import { acquireLease } from '../../../libs/lease/index.js'
import {
  claimOutboxBatch,
  completeOutboxAttempt,
  enqueuePaymentOutbox,
  releaseOutboxLease,
  renewOutboxLease,
  repairExpiredLeases,
  type CompletionState,
} from '../../../libs/outbox/index.js'
import type { Rail } from '../../../libs/rails/index.js'
import type { TestDatabase } from '../database.js'
import type { WireProxy } from '../wireProxy.js'
import type { Grant, History } from './history.js'
import { buildPaymentOn } from './payments.js'

/** A lease as its holder was told of it; others may lay hands on it later. */
interface Held extends Grant {
  readonly workerId: string
  readonly key: string
}

/** What the clients of one history share, so that they get in each other's way. */
export class Ground {
  /** Names everything in it: no two histories share a row. It is also the name of the rail. */
  readonly name: string
  readonly db: TestDatabase
  readonly rail: Rail
  readonly history: History
  /** Every lease that anybody was ever told of: stale hands use them too. */
  readonly leases: Held[] = []
  readonly outboxIds: string[] = []
  keys = 0

  constructor(given: Pick<Ground, 'name' | 'db' | 'rail' | 'history'>) {
    this.name = given.name
    this.db = given.db
    this.rail = given.rail
    this.history = given.history
  }

  /** What will become of a payment is decided by its key, or a stale hand and the rightful one would contradict each other. */
  endingOf(key: string): CompletionState {
    return Number(key.slice(key.lastIndexOf('-') + 1)) % 3 === 0 ? 'FAILED' : 'DISPATCHED'
  }

  async pay(outboxId: string): Promise<string> {
    const request = {
      ...buildPaymentOn(this.name),
      reference: outboxId,
      attempt: 1,
      sequenceId: 1n,
      notAfter: new Date(Date.now() + 60_000),
    }
    const answer = await this.rail.dispatch(request, { signal: new AbortController().signal })
    if (answer.outcome !== 'success') throw new Error(`the rail says ${answer.outcome}`)
    return answer.reference
  }
}

export interface ClientOptions {
  readonly number: number
  readonly database: Database
  readonly random: Random
  /** The way that is cut now and then; undefined for a client whose connection is sound. */
  readonly proxy: WireProxy | undefined
}

/** One of several clients that do whatever chance tells them, and write down what they were told. */
export async function playClient(ground: Ground, options: ClientOptions, operations: number): Promise<void> {
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
    await step(ground, options)
    proxy?.disableGuards()
  }
}

type Step = (ground: Ground, options: ClientOptions) => Promise<unknown>

/** Of a hundred steps so many are of this kind. */
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

function enqueueStep(ground: Ground, { number, database, random }: ClientOptions): Promise<unknown> {
  // A key of before, or the next one.
  const keyNumber = between(random, Math.max(1, ground.keys - 4), ground.keys + 1)
  ground.keys = Math.max(ground.keys, keyNumber)
  const [key, participant] = [`${ground.name}-${keyNumber}`, `${ground.name}-participant-${keyNumber % 2}`]
  return ground.history.record(number, { kind: 'enqueue' as const, key, participant }, async (call) => {
    const instruction = {
      ...buildPaymentOn(ground.name),
      instructionId: key,
      idempotencyKey: key,
      participantId: participant,
    }
    const { outboxId, sequenceId, created } = await enqueuePaymentOutbox(database.as('symphony_ingest'), instruction)
    ground.outboxIds.push(outboxId)
    Object.assign(call, { answer: { outboxId, sequenceId, created } })
  })
}

function claimStep(ground: Ground, { number, database, random }: ClientOptions): Promise<unknown> {
  const worker = `${ground.name}-client-${number}`
  return ground.history.record(number, { kind: 'claim' as const, worker }, async (call) => {
    const rails = [ground.name]
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
      ground.leases.push({ outboxId, leaseToken, workerId: worker, key: instructionId })
    }
  })
}

async function completeStep(ground: Ground, { number, database, random }: ClientOptions): Promise<void> {
  const lease = someLease(ground, random)
  if (lease === undefined) return
  const { outboxId, leaseToken, workerId, key } = lease
  const state = random() < 0.4 ? 'RETRYABLE' : ground.endingOf(key)
  const railReference = state === 'DISPATCHED' ? await ground.pay(outboxId) : null
  await ground.history.record(number, { kind: 'complete' as const, outboxId, leaseToken, state }, async (call) => {
    const outcome = { outboxId, leaseToken, state, railReference, errorCode: state === 'DISPATCHED' ? null : 'REFUSED' }
    // Whoever says that it failed has asked the rail about every attempt.
    const settled = state === 'FAILED' ? { outcomeUnknown: false } : {}
    const recorded = await completeOutboxAttempt(database.as('symphony_executor'), workerId, { ...outcome, ...settled })
    Object.assign(call, { answer: { attemptNo: recorded.attemptNo, state: recorded.state } })
  })
}

async function renewStep(ground: Ground, { number, database, random }: ClientOptions): Promise<void> {
  const lease = someLease(ground, random)
  if (lease === undefined) return
  const { outboxId, leaseToken, workerId } = lease
  await ground.history.record(number, { kind: 'renew' as const, outboxId, leaseToken }, async () => {
    await renewOutboxLease(database.as('symphony_executor'), lease, workerId, LEASE_SECONDS)
  })
}

async function releaseStep(ground: Ground, { number, database, random }: ClientOptions): Promise<void> {
  const lease = someLease(ground, random)
  if (lease === undefined) return
  const { outboxId, leaseToken, workerId } = lease
  await ground.history.record(number, { kind: 'release' as const, outboxId, leaseToken }, async () => {
    await releaseOutboxLease(database.as('symphony_executor'), lease, workerId)
  })
}

/** Time passes for one item: its lease ends, or its next attempt is due. */
async function expireStep(ground: Ground, { number, random }: ClientOptions): Promise<void> {
  const outboxId = ground.outboxIds[Math.floor(random() * ground.outboxIds.length)]
  if (outboxId === undefined) return
  await ground.history.record(number, { kind: 'expire' as const, outboxId }, () => letTimePass(ground.db, [outboxId]))
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

function repairStep(ground: Ground, { number, database }: ClientOptions): Promise<unknown> {
  return ground.history.record(number, { kind: 'repair' as const }, async () => {
    await repairExpiredLeases(database.as('symphony_executor'), 100, `${ground.name}-repair-${number}`)
  })
}

function acquireStep(ground: Ground, { number, database, random }: ClientOptions): Promise<unknown> {
  const resource = `${ground.name}-resource-${between(random, 1, 2)}`
  return ground.history.record(number, { kind: 'acquire' as const, resource }, async (call) => {
    // One owner for all, so that each takes from the others: every acquisition is a new token.
    const grant = await acquireLease(database.as('symphony_executor'), {
      resource,
      owner: ground.name,
      durationMs: 60_000,
    })
    if (grant !== null) Object.assign(call, { answer: grant.fencingToken })
  })
}

/** Mostly one of the latest, which may be good; sometimes any, which hardly is. */
function someLease({ leases }: Ground, random: Random): Held | undefined {
  const from = random() < 0.7 ? Math.max(0, leases.length - 8) : 0
  return leases[from + Math.floor(random() * (leases.length - from))]
}

const LEASE_SECONDS = 600
const CUT_CHANCE = 0.1
const CUT_BYTES_MAX = 900
