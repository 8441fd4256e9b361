import type { RoleHandle } from '../../libs/db/index.js'
import {
  approveOutboxProposal,
  placeOutboxHold,
  redriveOutboxItem,
  resolveOutboxHold,
  type ApprovedProposal,
  type HoldDecision,
} from '../../libs/outbox/index.js'
import type { TestDatabase } from './database.js'
import { claimOnly, complete, enqueue, type Enqueued } from './outboxItems.js'
import type { OutboxInstruction } from '../../libs/outbox/index.js'

/** A person with a login that may decide. */
export interface Person {
  /** Name in the ledger: the login. */
  readonly name: string
  readonly control: RoleHandle
}

export async function createPerson(db: TestDatabase, name: string): Promise<Person> {
  const login = await db.createLogin(name, { roles: ['symphony_control'] })
  return { name: login.name, control: login.database.as('symphony_control') }
}

/** Proposes a decision that needs a second person. Returns the id of the proposal. */
export async function propose(
  { control }: Person,
  outboxId: string,
  decision: HoldDecision | 'REDRIVE',
  reason = 'as agreed with the bank',
): Promise<string> {
  const reference = decision === 'DISPATCHED' ? 'rail-reference-1' : null
  const { status, proposalId } =
    decision === 'REDRIVE'
      ? await redriveOutboxItem(control, outboxId, reason)
      : await resolveOutboxHold(control, outboxId, decision, reason, reference)
  if (status !== 'PROPOSED') throw new Error(`${decision} was ${status} without a second person`)
  return proposalId
}

export function approve({ control }: Person, proposalId: string): Promise<ApprovedProposal> {
  return approveOutboxProposal(control, proposalId)
}

/** Creates a held item that was never sent. */
export async function enqueueHeld(
  db: TestDatabase,
  { control }: Person,
  overrides: Partial<OutboxInstruction> = {},
): Promise<Enqueued> {
  const item = await enqueue(db, overrides)
  await placeOutboxHold(control, item.outboxId, 'please wait')
  return item
}

/** Creates an item that is held because its outcome is unknown. */
export async function enqueueUnknown(db: TestDatabase, overrides: Partial<OutboxInstruction> = {}): Promise<Enqueued> {
  const item = await enqueue(db, overrides)
  const lease = await claimOnly(db, item.railType)
  await complete(db, lease, { state: 'RETRYABLE', outcomeUnknown: true, holdReason: 'no answer' })
  return item
}

export async function enqueueFailed(db: TestDatabase, overrides: Partial<OutboxInstruction> = {}): Promise<Enqueued> {
  const item = await enqueue(db, overrides)
  await complete(db, await claimOnly(db, item.railType), { state: 'FAILED', errorCode: 'REFUSED' })
  return item
}

/** Creates a DISPATCHED payment of 10.50 EUR. */
export async function enqueuePaid(db: TestDatabase, overrides: Partial<OutboxInstruction> = {}): Promise<Enqueued> {
  const payload = { amount: '10.50', currency: 'EUR', destination: 'account-1' }
  const item = await enqueue(db, { payload, ...overrides })
  await complete(db, await claimOnly(db, item.railType), { state: 'DISPATCHED', railReference: 'paid-1' })
  return item
}
