import { Refusal } from './answers.js'
import {
  byDueTime,
  CEILING,
  describe,
  evidence,
  holdReason,
  isCancelled,
  LIMIT_HOLDS,
  recordedBy,
  reportedPaid,
  isSameReport,
  type Completion,
  type Decision,
  type Instruction,
  type Item,
  type LateReport,
  type Lease,
  type Limit,
  type Outcome,
  type Pause,
  type PauseKind,
  type Policy,
  type Proposal,
  PAID,
  type Return,
} from './outboxRules.js'
import { at, backoff, exactly, NOW, SECOND, type Time } from './Timeline.js'

/** State of the model. `copyState` copies it. */
export interface OutboxState {
  items: Item[]
  proposals: Proposal[]
  /** Pauses by scope, such as `rail:r0`. */
  pauses: ReadonlyMap<string, Pause>
  policies: ReadonlyMap<string, Policy>
  /** Limits by participant. */
  limits: ReadonlyMap<string, Limit>
  /** Events of rails, participants and streams. */
  scopes: ReadonlyMap<string, readonly string[]>
  tokens: number
  /** Number of items when the freeze began, and whether they are marked unknown. */
  freeze: { readonly items: number; marked: boolean } | null
}

/**
 * Model of the payment outbox in memory: the answer to each call and the state of each item. It is written from the
 * specification, not from the SQL, so that a comparison finds errors of the SQL.
 *
 * Items, tokens and proposals are named in order of appearance: item1, token1, proposal1. Times are those of a
 * Timeline.
 */
export class OutboxModel {
  #state: OutboxState = {
    items: [],
    proposals: [],
    pauses: new Map(),
    policies: new Map(),
    limits: new Map(),
    scopes: new Map(),
    tokens: 0,
    freeze: null,
  }
  /** PostgreSQL's clock after the last step. */
  clock = 0
  readonly #ceiling: number

  constructor(ceiling = CEILING) {
    this.#ceiling = ceiling
  }

  get state(): OutboxState {
    return this.#state
  }

  set state(state: OutboxState) {
    this.#state = state
  }

  get items(): readonly Item[] {
    return this.#state.items
  }

  get pending(): readonly Item[] {
    return this.#state.items.filter((item) => item.terminal === null)
  }

  get proposals(): readonly Proposal[] {
    return this.#state.proposals
  }

  get pauses(): Iterable<Pause> {
    return this.#state.pauses.values()
  }

  get scopes(): ReadonlyMap<string, readonly string[]> {
    return this.#state.scopes
  }

  // Item state ---------------------------------------------------------------------------------------------------

  /** Returns the state of an item; each item has exactly one. */
  stateOf(item: Item): string {
    if (item.terminal !== null) return item.terminal
    if (item.lease !== null) return this.#isPast(item.lease.expires) ? 'EXPIRED' : 'LEASED'
    if (item.hold !== null) return 'HELD'
    if (this.isBlocked(item)) return 'BLOCKED'
    return this.#isPast(item.due) ? 'DUE' : 'SCHEDULED'
  }

  /** Whether an earlier ordered item, or a pause of the participant or stream, blocks an item. */
  isBlocked(item: Item): boolean {
    const { participant, ordered, position } = item
    if (this.#isPaused('participant', participant)) return true
    if (!ordered) return false
    if (this.#isPaused('stream', participant)) return true
    return this.pending.some((other) => other.ordered && other.participant === participant && other.position < position)
  }

  /** Returns items of these rails that a claim may lease, now or when they are due. */
  #openTo(rails: readonly string[] | null, isMessage: boolean | null): Item[] {
    return this.pending.filter(
      (item) =>
        this.isOpen(item) &&
        (rails === null || rails.includes(item.rail)) &&
        (isMessage === null || item.isMessage === isMessage),
    )
  }

  /** Whether an item is neither held nor blocked, and its rail is not paused. */
  protected isOpen(item: Item): boolean {
    return item.hold === null && !this.isBlocked(item) && !this.#isPaused('rail', item.rail)
  }

  /** Whether dispatch is frozen: no claims and no marked calls. */
  protected get isFrozen(): boolean {
    return this.#state.freeze !== null
  }

  #isPaused(kind: PauseKind, name: string): boolean {
    return this.#state.pauses.has(scopeOf(kind, name))
  }

  #isPast(time: Time): boolean {
    return typeof time === 'number' && time <= this.clock
  }

  // Enqueue -------------------------------------------------------------------------------------------------------

  enqueue(instructions: readonly Instruction[]): string[] {
    return this.#orNothing(() => {
      const created: Item[] = []
      const answers = instructions.map((given) => {
        const known = this.items.find((item) => item.key === given.key && item.redrive === 0)
        if (known === undefined) {
          created.push(this.#create(given, 0, null))
          return `${describe(created.at(-1)!)} PENDING created`
        }
        const same = (['participant', 'rail', 'payload', 'isMessage', 'replaces'] as const).every(
          (field) => known[field] === given[field],
        )
        return same ? `${describe(known)} ${known.terminal ?? 'PENDING'} known` : undefined
      })
      if (created.some((item) => !this.#mayReplace(item))) throw new Refusal('P7017')
      return answers.map((answer) => {
        if (answer === undefined) throw new Refusal('P7004')
        return answer
      })
    })
  }

  /**
   * Whether an item replaces nothing, or replaces a payment that failed or was returned and has no other replacement.
   */
  #mayReplace(item: Item): boolean {
    if (item.replaces === null) return true
    const old = this.#item(item.replaces)
    const payment = this.#payment(old)
    if (old.isMessage || old.participant !== item.participant) return false
    if (this.items.some((other) => other !== item && payment.some(({ name }) => name === other.replaces))) return false
    if (payment.some(({ terminal }) => terminal === null) || this.#debt(old).some(reportedPaid)) return false
    const paid = payment.filter(({ terminal }) => terminal === 'DISPATCHED')
    return paid.every((one) => one === old && one.returns.length > 0)
  }

  /** Returns the items of a payment, and of the payments that it replaces. */
  #debt(item: Item): Item[] {
    const payment = this.#payment(item)
    const replaced = payment.find(({ replaces }) => replaces !== null)?.replaces ?? null
    return replaced === null ? payment : [...payment, ...this.#debt(this.#item(replaced))]
  }

  /** Returns the item that replaces a payment. */
  #replacementOf(item: Item): Item | undefined {
    const payment = this.#payment(item)
    return this.items.find(({ replaces }) => payment.some(({ name }) => name === replaces))
  }

  #create({ notBefore, ...content }: Instruction, redrive: number, position: number | null): Item {
    const sequence = this.items.filter(({ participant }) => participant === content.participant).length + 1
    const item: Item = {
      ...content,
      name: `item${this.items.length + 1}`,
      redrive,
      sequence,
      position: position ?? sequence,
      created: this.items.length,
      attempts: [],
      events: [],
      returns: [],
      terminal: null,
      due: notBefore ?? NOW,
      lease: null,
      unknown: false,
      streak: 0,
      late: null,
      hold: null,
    }
    this.#state.items.push(item)
    const limit = item.isMessage ? undefined : this.#state.limits.get(item.participant)
    if (limit !== undefined) this.#hold(item, LIMIT_HOLDS[limit], true)
    return item
  }

  // Leases --------------------------------------------------------------------------------------------------------

  /**
   * Takes over expired leases, oldest first, and requeues those beyond the batch size. Then leases due items, oldest
   * first. The answer is in order of due times.
   */
  claim(
    worker: string,
    batchSize: number,
    leaseSeconds: number,
    rails: readonly string[] | null,
    marked: readonly string[],
    isMessage: boolean | null,
  ): string[] {
    return this.#lease(worker, batchSize, leaseSeconds, rails, marked, isMessage).map(
      ({ item, token, takenOver }) =>
        `${describe(item)} ${token} after ${this.countOf(item)} streak ${item.streak}${takenOver ? ' taken over' : ''}${evidence(item)}`,
    )
  }

  /** Claims for a message store, which sees only messages and fewer fields. */
  claimMessages(worker: string, batchSize: number, leaseSeconds: number, topics: readonly string[] | null): string[] {
    return this.#lease(worker, batchSize, leaseSeconds, topics, [], true).map(
      ({ item, token }) => `${item.name} ${token} after ${this.countOf(item)} streak ${item.streak}`,
    )
  }

  #lease(
    worker: string,
    batchSize: number,
    leaseSeconds: number,
    rails: readonly string[] | null,
    marked: readonly string[],
    isMessage: boolean | null,
  ): { item: Item; token: string; takenOver: boolean }[] {
    if (this.isFrozen || this.#isPaused('all', 'all')) return []
    const open = this.#openTo(rails, isMessage)
    const expired = open
      .filter((item) => this.stateOf(item) === 'EXPIRED')
      .toSorted((a, b) => at(a.lease!.expires) - at(b.lease!.expires))
    for (const item of expired) this.#expire(item)
    const takenOver = expired.filter((item) => item.hold === null).slice(0, batchSize)
    const due = open
      .filter((item) => !expired.includes(item) && this.stateOf(item) === 'DUE')
      .toSorted(byDueTime)
      .slice(0, batchSize - takenOver.length)
    return [...takenOver, ...due].toSorted(byDueTime).map((item) => {
      const mark = marked.includes(item.rail) ? 'awaited' : null
      const token = `token${++this.#state.tokens}`
      item.lease = { token, worker, expires: exactly('claim', leaseSeconds * SECOND), mark }
      return { item, token, takenOver: takenOver.includes(item) }
    })
  }

  /**
   * Returns the attempt_count of the queue row. It stops at the retry ceiling, although the ledger may have more
   * attempts.
   */
  countOf({ attempts }: Item): number {
    return Math.min(attempts.length, this.#ceiling)
  }

  /** Records an expired lease. The outcome becomes unknown if the worker may have called the rail. */
  #expire(item: Item): void {
    const { token, worker, mark } = item.lease!
    item.unknown ||= this.mayHaveCalled(item.lease!)
    const { unknown } = item
    item.attempts.push({ state: 'ZOMBIE_REQUEUE', token, worker, reference: null, action: 'expired', unknown })
    item.lease = null
    item.streak++
    // A late success prevents the hold for an unknown outcome, and allows one attempt beyond the ceiling.
    const paidLate = item.late?.state === 'DISPATCHED'
    if (item.attempts.length >= this.#ceiling + Number(paidLate)) this.#hold(item, 'RETRY_CEILING')
    else if (mark === 'begun' && !paidLate) this.#hold(item, 'OUTCOME_UNKNOWN')
  }

  /**
   * Whether the worker of an expired lease may have called the rail. A dispatch mark that is still awaited excludes a
   * call.
   */
  protected mayHaveCalled({ mark }: Lease): boolean {
    return mark !== 'awaited'
  }

  repair(batchSize: number): string[] {
    const expired = this.pending
      .filter((item) => this.stateOf(item) === 'EXPIRED')
      .toSorted((a, b) => at(a.lease!.expires) - at(b.lease!.expires))
      .slice(0, batchSize)
    return expired.map((item) => {
      this.#expireAndReschedule(item)
      return `${item.name} attempt ${item.attempts.length}`
    })
  }

  #expireAndReschedule(item: Item): void {
    this.#expire(item)
    item.due = exactly('attempt', SECOND)
  }

  renew(worker: string, item: string, token: string, leaseSeconds: number): string {
    const lease = this.#liveLease(worker, item, token)
    // A renewal never shortens a lease.
    lease.expires = { ...exactly('call', leaseSeconds * SECOND), notBefore: at(lease.expires) }
    return 'renewed'
  }

  release(worker: string, item: string, token: string): string {
    if (this.#liveLease(worker, item, token).mark === 'begun') throw new Refusal('P7006')
    this.#item(item).lease = null
    return 'released'
  }

  begin(worker: string, item: string, token: string): string {
    if (this.isFrozen) throw new Refusal('P7009')
    this.#liveLease(worker, item, token).mark = 'begun'
    return 'begun'
  }

  holdLeased(worker: string, name: string, token: string, reason: string): string {
    const { mark } = this.#liveLease(worker, name, token)
    const item = this.#item(name)
    item.lease = null
    item.unknown ||= mark === 'begun'
    item.hold ??= reason
    item.events.push({ type: 'HOLD_PLACED' })
    return 'held'
  }

  #liveLease(worker: string, name: string, token: string): Lease {
    const item = this.#item(name)
    const { lease } = item
    if (lease !== null && this.isLiveLease(lease, worker, token)) return lease
    throw new Refusal(`P7002 ${recordedBy(item, token) ?? 'nothing'} recorded`)
  }

  /** Whether this worker holds this lease under this token, and it has not expired. */
  protected isLiveLease(lease: Lease, worker: string, token: string): boolean {
    return lease.token === token && lease.worker === worker && !this.#isPast(lease.expires)
  }

  // Outcomes ------------------------------------------------------------------------------------------------------

  /** Records one outcome, or throws a refusal. `completeBatch` returns a verdict instead of throwing. */
  complete(worker: string, outcome: Outcome): string {
    this.#liveLease(worker, outcome.item, outcome.token)
    return this.#record(worker, outcome)
  }

  completeBatch(worker: string, outcomes: readonly Outcome[], isMessage: boolean | null): string[] {
    return outcomes.map((outcome) => {
      if (isMessage !== null && this.#item(outcome.item).isMessage !== isMessage) return 'lease lost'
      try {
        return this.complete(worker, outcome)
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        return recordedBy(this.#item(outcome.item), outcome.token) ?? 'lease lost'
      }
    })
  }

  /** Acks, abandons or fails messages. Returns those that changed. */
  endMessages(worker: string, outcomes: readonly Outcome[]): string[] {
    const verdicts = this.completeBatch(worker, outcomes, true)
    return outcomes.flatMap(({ item }, index) => (/^(?:lease lost|already)/.test(verdicts[index]!) ? [] : [item]))
  }

  #record(worker: string, { item: name, token, ...outcome }: Outcome): string {
    const item = this.#item(name)
    const paidLate = item.late?.state === 'DISPATCHED'
    const unknown = (outcome.unknown ?? item.unknown) || paidLate
    const attemptNo = item.attempts.length + 1
    const { mark } = item.lease!
    const state = this.recordedState(outcome, unknown, attemptNo)
    const { reference } = outcome
    const leftUnknown = unknown && state === 'RETRYABLE'
    item.attempts.push({ state, token, worker, reference, action: 'sent', unknown: leftUnknown })
    item.lease = null
    if (state !== 'RETRYABLE') {
      if (state === 'DISPATCHED') this.#alarmIfPaidOtherwise(item, outcome.reference)
      this.#end(item, state)
      return `${attemptNo} ${state}`
    }
    item.unknown = unknown
    item.streak = 0
    const delay = outcome.delaySeconds
    item.due = delay === null ? backoff('attempt', attemptNo) : exactly('attempt', delay * SECOND)
    const reason = holdReason(outcome, unknown, attemptNo, mark, this.#ceiling)
    if (reason !== null) this.#hold(item, reason)
    return `${attemptNo} ${state}${item.hold === null ? '' : ' held'}`
  }

  /**
   * Returns the state that the database records. FAILED becomes RETRYABLE if the outcome is unknown. RETRYABLE becomes
   * FAILED at the retry ceiling if the outcome is known and the completion asks for no hold.
   */
  protected recordedState(
    { state, hold }: Omit<Outcome, 'item' | 'token'>,
    unknown: boolean,
    attemptNo: number,
  ): Completion {
    if (state === 'DISPATCHED') return state
    if (unknown) return 'RETRYABLE'
    if (state === 'FAILED') return state
    return attemptNo === this.#ceiling && hold === null ? 'FAILED' : 'RETRYABLE'
  }

  /** Records TERMINAL_BLOCKED if a late success has another reference, because the rail may have paid twice. */
  #alarmIfPaidOtherwise({ late, events }: Item, reference: string | null): void {
    if (late?.state === 'DISPATCHED' && late.reference !== reference)
      events.push({ type: 'TERMINAL_BLOCKED', report: late })
  }

  #end(item: Item, terminal: 'DISPATCHED' | 'FAILED'): void {
    item.terminal = terminal
    item.hold = null
    const halts = terminal === 'FAILED' && item.ordered && this.#state.policies.get(item.participant) === 'halt'
    if (halts) this.pause('stream', item.participant)
  }

  #hold(item: Item, reason: string, isUnsent = false): void {
    if (item.hold !== null) return
    item.hold = reason
    item.events.push({ type: 'HOLD_PLACED', isUnsent })
  }

  /**
   * Records a late outcome. A late success makes a pending item unknown; on an ended item it holds the pending redrives
   * and replacements.
   */
  reportLate(worker: string, name: string, report: LateReport): string {
    const item = this.#item(name)
    const holds = item.lease?.token === report.token && item.lease.worker === worker
    const issued = holds || item.attempts.some((attempt) => attempt.token === report.token && attempt.worker === worker)
    if (!issued) throw new Refusal(`P7002 ${recordedBy(item, report.token) ?? 'nothing'} recorded`)
    const terminal = item.terminal === null ? undefined : item.attempts.at(-1)!
    const contradicts =
      terminal !== undefined &&
      report.state !== 'RETRYABLE' &&
      (terminal.state !== report.state || terminal.reference !== report.reference)
    const type = contradicts ? 'TERMINAL_BLOCKED' : 'LATE_OUTCOME'
    if (item.events.some((event) => event.type === type && isSameReport(event.report, report))) return type
    item.events.push({ type, report })
    if (terminal === undefined) {
      if (item.late?.state !== 'DISPATCHED') item.late = report
      item.unknown ||= report.state === 'DISPATCHED'
    } else if (contradicts && report.state === 'DISPATCHED') {
      for (let paid: Item | undefined = item; paid !== undefined; paid = this.#replacementOf(paid))
        for (const other of this.#payment(paid)) if (other.terminal === null) this.#hold(other, 'EARLIER_ITEM_PAID')
    }
    return type
  }

  /** Records a return once per reference. The returns of a payment never exceed its amount. */
  recordReturn(name: string, given: Return): string {
    const item = this.#item(name)
    if (item.isMessage) throw new Refusal('22023')
    if (item.terminal !== 'DISPATCHED') throw new Refusal(item.terminal === null ? 'P7006' : 'P7001')
    const total = item.returns.reduce((sum, { amount }) => sum + amount, 0)
    const known = item.returns.find(({ reference }) => reference === given.reference)
    if (known !== undefined) {
      if (known.amount !== given.amount || known.currency !== given.currency) throw new Refusal('P7004')
      return `known, ${total} in all`
    }
    if (given.currency !== PAID.currency) throw new Refusal('22023')
    if (total + given.amount > PAID.amount) throw new Refusal('P7015')
    item.returns = [...item.returns, given]
    item.events.push({ type: 'RETURN_RECORDED' })
    return `recorded, ${total + given.amount} in all`
  }

  // People --------------------------------------------------------------------------------------------------------

  placeHold(name: string, reason: string): string {
    const item = this.#item(name)
    this.requirePending(item)
    if (item.hold !== null) throw new Refusal('P7006')
    this.#hold(item, reason, true)
    return 'held'
  }

  resolve(person: string, name: string, decision: Decision, reference: string | null): string {
    return this.#orNothing(() => {
      const item = this.#decidable(name, decision)
      this.#refuseBesideOpenProposal(name)
      if (this.needsTwoPeople(item, decision)) return this.#propose(person, item, decision, reference)
      this.#decide(item, decision, null)
      return 'APPLIED'
    })
  }

  redrive(person: string, name: string): string {
    const item = this.#item(name)
    this.requireRedrivable(item)
    this.#redrivePosition(item)
    this.#refuseBesideOpenProposal(name)
    return this.#propose(person, item, 'REDRIVE', null)
  }

  approve(person: string, name: string): string {
    return this.#orNothing(() => {
      const proposal = this.#openProposal(name)
      this.requireSecondPerson(proposal, person)
      const { decision } = proposal
      let answer = `${proposal.item} ${decision}`
      if (decision === 'REDRIVE') {
        const item = this.#item(proposal.item)
        this.requireRedrivable(item)
        const position = this.#redrivePosition(item)
        const again = { ...item, replaces: null, notBefore: undefined }
        answer += ` as ${this.#create(again, this.#payment(item).length, position).name}`
        item.events.push({ type: 'REDRIVE_CREATED' })
      } else {
        this.#decide(this.#decidable(proposal.item, decision), decision, proposal.reference)
      }
      proposal.status = 'APPROVED'
      return answer
    })
  }

  withdraw(name: string): string {
    const proposal = this.#openProposal(name)
    proposal.status = 'WITHDRAWN'
    this.#item(proposal.item).events.push({ type: 'DECISION_WITHDRAWN' })
    return 'withdrawn'
  }

  /** Cancels an item that no call can still pay. A cancelled item halts no stream. */
  cancel(name: string): string {
    const item = this.#item(name)
    const reason = this.whyNotCancellable(item)
    if (reason !== undefined) throw new Refusal(`P7013 ${reason}`)
    for (const proposal of this.#state.proposals) {
      if (proposal.item !== name || proposal.status !== 'OPEN') continue
      proposal.status = 'WITHDRAWN'
      item.events.push({ type: 'DECISION_WITHDRAWN' })
    }
    const action = 'cancelled'
    item.attempts.push({ state: 'FAILED', token: null, worker: null, reference: null, action, unknown: false })
    item.terminal = 'FAILED'
    item.hold = null
    return `cancelled ${name}`
  }

  /** Cancels the newest item of the payment with this key. */
  cancelNewest(key: number): string {
    return this.cancel(this.items.findLast((item) => item.key === key)!.name)
  }

  whyNotCancellable(item: Item): string | undefined {
    const { freeze } = this.#state
    if (item.terminal !== null) return isCancelled(item) ? 'CANCELLED' : item.terminal
    // Includes an expired lease: its worker may still be calling the rail.
    if (item.lease !== null) return 'LEASED'
    if (item.late !== null || this.#debt(item).some(reportedPaid)) return 'LATE_OUTCOME'
    if (item.unknown) return 'OUTCOME_UNKNOWN'
    return freeze !== null && item.created < freeze.items ? 'DISPATCH_FROZEN' : undefined
  }

  /** Returns a held item without a live lease. An expired lease is recorded first. */
  #decidable(name: string, decision: Decision): Item {
    const item = this.#item(name)
    this.requirePending(item)
    if (this.stateOf(item) === 'EXPIRED') this.#expireAndReschedule(item)
    const paidLate = item.late?.state === 'DISPATCHED'
    if (item.lease !== null || item.hold === null || (decision !== 'DISPATCHED' && paidLate)) throw new Refusal('P7006')
    const others = this.#debt(item).filter((other) => other !== item)
    if (decision === 'RETRY' && others.some((other) => reportedPaid(other))) throw new Refusal('P7006')
    return item
  }

  protected requirePending({ terminal }: Item): void {
    if (terminal !== null) throw new Refusal('P7001')
  }

  protected needsTwoPeople({ unknown, hold }: Item, decision: Decision): boolean {
    return decision !== 'RETRY' || unknown || hold === LIMIT_HOLDS.approval
  }

  protected requireSecondPerson({ by }: Proposal, person: string): void {
    if (by === person) throw new Refusal('P7007')
  }

  #refuseBesideOpenProposal(name: string): void {
    if (this.proposals.some(({ item, status }) => item === name && status === 'OPEN')) throw new Refusal('P7006')
  }

  #propose(by: string, item: Item, decision: Proposal['decision'], reference: string | null): string {
    const name = `proposal${this.proposals.length + 1}`
    this.#state.proposals.push({ name, item: item.name, decision, reference, by, status: 'OPEN' })
    item.events.push({ type: decision === 'REDRIVE' ? 'REDRIVE_PROPOSED' : 'DECISION_PROPOSED' })
    return `PROPOSED ${name}`
  }

  #openProposal(name: string): Proposal {
    const proposal = this.proposals.find((candidate) => candidate.name === name)!
    if (proposal.status !== 'OPEN') throw new Refusal('P7006')
    return proposal
  }

  #decide(item: Item, decision: Decision, reference: string | null): void {
    item.events.push({ type: 'HOLD_RESOLVED' })
    if (decision === 'RETRY') {
      item.hold = null
      item.unknown = false
      item.streak = 0
      // A RETRY ends a backoff. An item without an attempt keeps its due time.
      if (item.attempts.length > 0 && !this.#isPast(item.due)) item.due = NOW
      return
    }
    item.attempts.push({ state: decision, token: null, worker: null, reference, action: 'decided', unknown: false })
    if (decision === 'DISPATCHED') this.#alarmIfPaidOtherwise(item, reference)
    this.#end(item, decision)
  }

  /**
   * Requires that no item of the payment is pending, paid, cancelled or reported paid, and that no other payment
   * replaces it.
   */
  protected requireRedrivable(item: Item): void {
    const reasons = new Set(
      this.#payment(item).flatMap((one) => {
        if (one.terminal === 'DISPATCHED' || isCancelled(one)) return ['P7001']
        return one.terminal === null || reportedPaid(one) ? ['P7006'] : []
      }),
    )
    if (this.#replacementOf(item) !== undefined || this.#debt(item).some(reportedPaid)) reasons.add('P7006')
    if (reasons.size > 0) throw new Refusal(...reasons)
  }

  /**
   * Returns the stream position of a redrive: that of the failed item if its stream is halted, else null for a new
   * position. Refuses the redrive if a later item was sent, or if the stream of a `halt` participant was resumed.
   */
  #redrivePosition({ ordered, participant, position }: Item): number | null {
    if (!ordered) return null
    if (!this.#isPaused('stream', participant)) {
      if (this.#state.policies.get(participant) === 'halt') throw new Refusal('P7006')
      return null
    }
    const behind = this.items.filter(
      (item) => item.ordered && item.participant === participant && item.position > position,
    )
    if (behind.some(wasSent)) throw new Refusal('P7006')
    return position
  }

  /** Returns an item and its redrives. */
  #payment({ key }: Item): Item[] {
    return this.#state.items.filter((item) => item.key === key)
  }

  pause(kind: PauseKind, name: string): boolean {
    if (this.#isPaused(kind, name)) return false
    this.#state.pauses = new Map(this.#state.pauses).set(scopeOf(kind, name), { kind, name })
    this.#note(scopeOf(kind, name), 'PAUSED')
    return true
  }

  resume(kind: PauseKind, name: string): boolean {
    const scope = scopeOf(kind, name)
    if (!this.#isPaused(kind, name)) return false
    this.#state.pauses = new Map([...this.#state.pauses].filter(([other]) => other !== scope))
    this.#note(scope, 'RESUMED')
    return true
  }

  /** Freezes dispatch: no claims and no marked calls. Everything else continues. */
  freeze(): boolean {
    if (this.#state.freeze !== null) return false
    this.#state.freeze = { items: this.items.length, marked: false }
    this.#note('dispatch', 'PAUSED')
    return true
  }

  lift(): boolean {
    if (this.#state.freeze === null) return false
    this.markFrozen()
    this.#state.freeze = null
    this.#note('dispatch', 'RESUMED')
    return true
  }

  /** Marks as unknown the items that were pending when a freeze began. Without a freeze, changes nothing. */
  heartbeat(): string {
    if (this.#state.freeze === null) return 'open'
    this.markFrozen()
    return 'frozen, marked'
  }

  protected markFrozen(): void {
    const { freeze } = this.#state
    if (freeze === null || freeze.marked) return
    freeze.marked = true
    for (const item of this.pending) item.unknown ||= item.created < freeze.items
    this.#note('dispatch', 'PAUSED')
  }

  setPolicy(participant: string, policy: Policy): string {
    this.#state.policies = new Map(this.#state.policies).set(participant, policy)
    this.#note(`policy:${participant}`, 'POLICY_SET')
    return 'set'
  }

  get limits(): ReadonlyMap<string, Limit> {
    return this.#state.limits
  }

  setLimit(participant: string, limit: Limit | null): string {
    const others = [...this.#state.limits].filter(([other]) => other !== participant)
    this.#state.limits = new Map(limit === null ? others : [...others, [participant, limit]])
    this.#note(`limit:${participant}`, 'LIMIT_PROPOSED')
    this.#note(`limit:${participant}`, 'LIMIT_SET')
    return 'set'
  }

  #note(scope: string, type: string): void {
    const { scopes } = this.#state
    this.#state.scopes = new Map(scopes).set(scope, [...(scopes.get(scope) ?? []), type])
  }

  // -----------------------------------------------------------------------------------------------------------------

  /** Returns the nearest due time or lease expiry. An expired lease counts only if a claim may take it over. */
  nextEvent(rails: readonly string[] | null, isMessage: boolean | null): number | null {
    if (this.isFrozen || this.#isPaused('all', 'all')) return null
    const open = this.#openTo(rails, isMessage)
    const due = open.filter((item) => ['DUE', 'SCHEDULED'].includes(this.stateOf(item)))
    const leased = this.pending.filter(
      (item) => this.stateOf(item) === 'LEASED' || (this.stateOf(item) === 'EXPIRED' && open.includes(item)),
    )
    const times = [...due.map((item) => at(item.due)), ...leased.map(({ lease }) => at(lease!.expires))]
    return times.length === 0 ? null : Math.min(...times)
  }

  #item(name: string): Item {
    return this.#state.items.find((item) => item.name === name)!
  }

  /** Runs the body, and restores the state if it throws, because a refused call changes nothing. */
  #orNothing<T>(body: () => T): T {
    const before = copyState(this.#state)
    try {
      return body()
    } catch (error) {
      this.#state = before
      throw error
    }
  }
}

/** Returns the scope of the events about a pause. */
function scopeOf(kind: PauseKind, name: string): string {
  return kind === 'all' ? 'all' : `${kind}:${name}`
}

/**
 * Whether an item is leased, or has an attempt other than its cancellation. An item that people failed before any
 * attempt, and that no worker held, was not sent.
 */
export function wasSent(item: Item): boolean {
  const [first] = item.attempts
  if (item.lease !== null || first === undefined) return item.lease !== null
  if (first.action === 'decided') return first.state !== 'FAILED' || wasHeldByWorker(item)
  return first.action !== 'cancelled'
}

export function wasHeldByWorker({ events }: Item): boolean {
  return events.some(({ type, isUnsent = false }) => type === 'HOLD_PLACED' && !isUnsent)
}

/** Copies a state. Attempts, events, reports and maps never change, so both states share them. */
export function copyState(state: OutboxState): OutboxState {
  return {
    ...state,
    items: state.items.map((item) => ({
      ...item,
      attempts: [...item.attempts],
      events: [...item.events],
      lease: item.lease && { ...item.lease },
    })),
    proposals: state.proposals.map((proposal) => ({ ...proposal })),
    freeze: state.freeze && { ...state.freeze },
  }
}
