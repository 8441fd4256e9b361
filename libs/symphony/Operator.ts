import { requiredObject, requireKnownOptions } from '../core/index.js'
import type { Database, RoleHandle } from '../db/index.js'
import {
  approveOutboxLimit,
  approveOutboxProposal,
  cancelOutboxItem,
  freezeDispatch,
  liftDispatchFreeze,
  pauseOutbox,
  noteOutboxItem,
  placeOutboxHold,
  proposeOutboxLimit,
  readContradictionPage,
  readFailedItems,
  readHeldItems,
  readLimits,
  readPauses,
  readProposalPage,
  recordOutboxReturn,
  redriveOutboxItem,
  requireKnownName,
  resolveOutboxHold,
  resumeOutbox,
  reviewOutboxContradiction,
  setParticipantOutboxPolicy,
  withdrawOutboxLimit,
  withdrawOutboxProposal,
  type ApprovedProposal,
  type CancelledItem,
  type ContradictionView,
  type DecisionResult,
  type FailedItemView,
  type HeldItemView,
  type HoldDecision,
  type HeldItemSearch,
  type ItemView,
  type LimitRule,
  type LimitsView,
  type OrderedFailurePolicy,
  type PauseKind,
  type PauseView,
  type PaymentReturn,
  type ProposalView,
  type RecordedReturn,
} from '../outbox/index.js'
import {
  closeReconciliationFinding,
  readFindings,
  readReconciliationRuns,
  reconcile,
  RECONCILE_TIMEOUT_MS,
  type Finding,
  type FindingSearch,
  type ReconcileOptions,
  type ReconcileTools,
  type Reconciliation,
  type ReconciliationRun,
} from '../reconciliation/index.js'
import { FILTERS_OF_A_STATE, type PaymentSearch } from './Payments.js'

type Search = Omit<PaymentSearch, 'state' | 'returned'>

/** Target of a pause: one rail, participant or ordered stream, or everything. */
export type PauseTarget = { readonly kind: Exclude<PauseKind, 'all'>; readonly name: string } | { readonly kind: 'all' }

type HeldPayment = ItemView & Omit<HeldItemView, 'item'>
type FailedPayment = ItemView & Omit<FailedItemView, 'item'>

interface WithReason {
  /** Reason, recorded in the ledger for ever. */
  readonly reason: string
}

/**
 * Decisions of operators. The actor is the login, which needs `symphony_control`. Where money may have moved, one
 * operator proposes and another approves.
 */
export class Operator {
  readonly #control: RoleHandle
  readonly #database: Database
  readonly #toolsOf: (railType: string) => ReconcileTools

  constructor(database: Database, toolsOf: (railType: string) => ReconcileTools) {
    this.#database = database
    this.#control = database.as('symphony_control')
    this.#toolsOf = toolsOf
  }

  /** Returns held payments, newest first, each with its open proposal. To read fewer, leave the loop. */
  holds(search: Search & Pick<HeldItemSearch, 'assignee'> = {}): AsyncIterable<HeldPayment> {
    requireKnownOptions(search, [...FILTERS_OF_A_STATE, 'assignee'])
    return pages(async (page) => flattened(await readHeldItems(this.#control, { ...search, ...page })))
  }

  /**
   * Returns failed payments, latest failure first, each with its error and its redrives; without cancelled ones. To read
   * fewer, leave the loop.
   */
  failed(search: Search = {}): AsyncIterable<FailedPayment> {
    requireKnownOptions(search, FILTERS_OF_A_STATE)
    return pages(async (page) => flattened(await readFailedItems(this.#control, { ...search, ...page })))
  }

  /** Blocks one payment until people decide it. */
  async hold({ outboxId, reason }: { readonly outboxId: string } & WithReason): Promise<void> {
    await placeOutboxHold(this.#control, outboxId, reason)
  }

  /**
   * Adds a note to a payment in any state. `assignee` names the person in charge. An empty `assignee` removes that
   * person; without `assignee`, the present person stays.
   */
  async note({
    outboxId,
    note,
    assignee,
  }: {
    readonly outboxId: string
    readonly note: string
    readonly assignee?: string
  }): Promise<void> {
    await noteOutboxItem(this.#control, outboxId, note, assignee)
  }

  /**
   * Cancels a payment, which ends FAILED. Throws `NotCancellableError` if a call may have paid it or may still pay it,
   * or if it has ended.
   */
  cancel({ outboxId, reason }: { readonly outboxId: string } & WithReason): Promise<CancelledItem> {
    return cancelOutboxItem(this.#control, outboxId, reason)
  }

  /** Applies a decision about a held payment, or proposes it where another person must approve. */
  resolveHold({
    outboxId,
    decision,
    reason,
    railReference,
  }: {
    readonly outboxId: string
    readonly decision: HoldDecision
    /** Rail's own id of the payment. Required for DISPATCHED. */
    readonly railReference?: string
  } & WithReason): Promise<DecisionResult> {
    return resolveOutboxHold(this.#control, outboxId, decision, reason, railReference)
  }

  /** Proposes to send a FAILED payment again as a new item. Another person must approve it. */
  redrive({ outboxId, reason }: { readonly outboxId: string } & WithReason): Promise<DecisionResult> {
    return redriveOutboxItem(this.#control, outboxId, reason)
  }

  /** Returns open proposals, newest first. */
  proposals(): AsyncIterable<ProposalView> {
    return pages(async ({ before, limit }) => {
      const search = { status: 'OPEN' as const, limit, ...(before === undefined ? {} : { before }) }
      const items = await readProposalPage(this.#control, search)
      return { items, next: items.length === limit ? (items.at(-1)?.proposalId ?? null) : null }
    })
  }

  /**
   * Approves and applies the proposal of another operator. A decision that a reconciliation proposed needs two
   * approvals, and so does a payment that a person entered above a limit that asks for two.
   */
  approve({ proposalId }: { readonly proposalId: string }): Promise<ApprovedProposal> {
    return approveOutboxProposal(this.#control, proposalId)
  }

  withdraw({ proposalId, reason }: { readonly proposalId: string } & WithReason): Promise<void> {
    return withdrawOutboxProposal(this.#control, proposalId, reason)
  }

  /**
   * Pauses a target. Returns false if it was paused already. Running calls continue. Refuses a name unknown to the
   * database.
   */
  async pause({ reason, ...target }: PauseTarget & WithReason): Promise<boolean> {
    const [kind, name] = pauseOf(target)
    await requireKnownName(this.#control, kind, name)
    return pauseOutbox(this.#control, kind, name, reason)
  }

  /** Resumes a target. Returns false if it was not paused. */
  resume({ reason, ...target }: PauseTarget & WithReason): Promise<boolean> {
    const [kind, name] = pauseOf(target)
    return resumeOutbox(this.#control, kind, name, reason)
  }

  pauses(): Promise<readonly PauseView[]> {
    return readPauses(this.#control)
  }

  /** Stops all dispatch, as after a restore. Returns false if dispatch was frozen already. */
  freeze({ reason }: WithReason): Promise<boolean> {
    return freezeDispatch(this.#control, reason)
  }

  /** Allows dispatch again. Returns false if dispatch was not frozen. */
  liftFreeze({ reason }: WithReason): Promise<boolean> {
    return liftDispatchFreeze(this.#control, reason)
  }

  /** Rules that hold unusual payments at enqueue. */
  get limits(): OperatorLimits {
    return new OperatorLimits(this.#control)
  }

  /** Returns late outcomes that contradict the recorded one and that no operator has reviewed. */
  contradictions(): AsyncIterable<ContradictionView> {
    return pages(async ({ before, limit }) => {
      const search = { reviewed: false, limit, ...(before === undefined ? {} : { before }) }
      const items = await readContradictionPage(this.#control, search)
      return { items, next: items.length === limit ? (items.at(-1)?.eventId ?? null) : null }
    })
  }

  async reviewContradiction({ eventId, reason }: { readonly eventId: string } & WithReason): Promise<void> {
    await reviewOutboxContradiction(this.#control, eventId, reason)
  }

  /**
   * Records that the rail returned money of a DISPATCHED payment, which stays DISPATCHED. A repeat with the same
   * reference returns the first record. To pay again, enqueue a new instruction that `replaces` the payment.
   */
  async recordReturn(given: PaymentReturn): Promise<RecordedReturn> {
    requireKnownOptions(given, RETURN_FIELDS)
    return recordOutboxReturn(this.#control, given)
  }

  /**
   * Compares a bank statement, or the list of the rail's `listPayments`, with the ledger of a rail, and records run,
   * findings and returns. The same file again returns the earlier run.
   */
  async reconcile(options: ReconcileOptions): Promise<Reconciliation> {
    const { rail } = requiredObject('options', options)
    // Uses its own connection with a longer timeout, because the comparison may take longer than other statements.
    const database = this.#database.reopen({ statementTimeoutMs: RECONCILE_TIMEOUT_MS })
    try {
      return await reconcile(database.as('symphony_control'), options, this.#toolsOf(rail))
    } finally {
      await database.close()
    }
  }

  /** Returns reconciliations, newest first. */
  runs(search: { readonly railType?: string } = {}): AsyncIterable<ReconciliationRun> {
    requireKnownOptions(search, ['railType'])
    return pages((page) => readReconciliationRuns(this.#control, { ...search, ...page }))
  }

  /** Returns findings of reconciliations, newest first. `state` selects open or closed ones. */
  findings(search: Omit<FindingSearch, 'before' | 'limit'> = {}): AsyncIterable<Finding> {
    requireKnownOptions(search, FINDING_FILTERS)
    return pages((page) => readFindings(this.#control, { ...search, ...page }))
  }

  /** Closes a finding whose cause is known. The payment does not change. */
  async closeFinding({ findingId, reason }: { readonly findingId: string } & WithReason): Promise<void> {
    await closeReconciliationFinding(this.#control, findingId, reason)
  }

  /** Sets whether the ordered stream of a participant halts or continues when an item fails. */
  setOrderedFailurePolicy({
    participantId,
    policy,
  }: {
    readonly participantId: string
    readonly policy: OrderedFailurePolicy
  }): Promise<void> {
    return setParticipantOutboxPolicy(this.#control, participantId, policy)
  }
}

const RETURN_FIELDS: readonly string[] = Object.keys({
  outboxId: true,
  amount: true,
  currency: true,
  code: true,
  reference: true,
  occurredAt: true,
} satisfies Record<keyof PaymentReturn, true>)

const FINDING_FILTERS: readonly string[] = Object.keys({
  state: true,
  kind: true,
  severity: true,
  runId: true,
  outboxId: true,
  railType: true,
} satisfies Record<Exclude<keyof FindingSearch, 'before' | 'limit'>, true>)

/** Limits on payments. One person proposes a change, another approves it. */
class OperatorLimits {
  readonly #control: RoleHandle

  constructor(control: RoleHandle) {
    this.#control = control
  }

  /** Returns the limits in force, with the usage of their windows, and the open proposals. */
  list(): Promise<LimitsView> {
    return readLimits(this.#control)
  }

  /** Proposes to set a limit, or with the rule null to remove it. Another person must approve it. */
  async propose({
    name,
    rule,
    reason,
  }: {
    readonly name: string
    readonly rule: LimitRule | null
  } & WithReason): Promise<{ readonly proposalId: string }> {
    return { proposalId: await proposeOutboxLimit(this.#control, name, rule, reason) }
  }

  /** Applies the proposal of another person. The limit covers payments enqueued from then on. */
  async approve({ proposalId }: { readonly proposalId: string }): Promise<{ readonly name: string }> {
    return { name: await approveOutboxLimit(this.#control, proposalId) }
  }

  withdraw({ proposalId, reason }: { readonly proposalId: string } & WithReason): Promise<void> {
    return withdrawOutboxLimit(this.#control, proposalId, reason)
  }
}

function pauseOf(target: PauseTarget): [kind: PauseKind, name: string] {
  return target.kind === 'all' ? ['all', 'all'] : [target.kind, target.name]
}

function flattened<View extends { readonly item: ItemView }>({ items, next }: Page<View>) {
  return { items: items.map(({ item, ...details }) => ({ ...item, ...details })), next }
}

interface Page<Item> {
  readonly items: readonly Item[]
  readonly next: string | null
}

interface PageRequest {
  readonly before?: string
  readonly limit: number
}

async function* pages<Item>(read: (page: PageRequest) => Promise<Page<Item>>): AsyncIterable<Item> {
  let before: string | null = null
  do {
    const page: Page<Item> = await read({
      limit: PAGE_LENGTH,
      ...(before === null ? {} : { before }),
    })
    yield* page.items
    before = page.next
  } while (before !== null)
}

const PAGE_LENGTH = 100
