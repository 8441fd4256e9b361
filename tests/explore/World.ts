import { Refusal } from '../fuzz/answers.js'
import { copyState, OutboxModel, type OutboxState } from '../fuzz/outboxModel.js'
import { isCancelled, type Decision, type Item, type Outcome, type Proposal } from '../fuzz/outboxRules.js'
import { brokenRule, type Rule, type Violation } from './rules.js'
import { ITEMS_MAX, type RailEvent, type Step } from './steps.js'
import {
  FUTURE,
  PARTICIPANT,
  PAST,
  referenceFor,
  WORKERS,
  type Answer,
  type Job,
  type RailPolicy,
  type WorldState,
} from './worldState.js'

/** Retry ceiling of this world, low so that a few steps reach it. */
export const WORLD_CEILING = 2
const LEASE_SECONDS = 60
/** Rails whose workers write a dispatch mark before each call. */
const MARKED_RAILS: readonly RailPolicy[] = ['hold']
/** Expired leases in a row after which a worker holds an item (dispatchItem.ts). */
const EXPIRIES_MAX = 3

/**
 * The model of the outbox and its surroundings: two workers that follow dispatchItem.ts, rails with rail books, two
 * people, and faults. `run` changes the state by one step. The world assumes that users follow the documentation: The
 * approving person compares with the rail book and waits until no request is on its way. `settleMs` of an `inquire`
 * rail lasts as long as a request can be on its way. A `resend` rail pays a reference once. The proposing person may be
 * wrong.
 */
export class World {
  state: WorldState
  readonly #model: OutboxModel
  readonly #initial: OutboxState
  #violation: Violation | null = null

  constructor(rails: readonly RailPolicy[], halts: boolean, model = new OutboxModel(WORLD_CEILING)) {
    this.#model = model
    if (halts) model.setPolicy(PARTICIPANT, 'halt')
    const content = {
      participant: PARTICIPANT,
      payload: 0,
      ordered: true,
      isMessage: false,
      replaces: null,
      notBefore: undefined,
    }
    model.enqueue(rails.map((rail, key) => ({ ...content, key, rail })))
    this.#readTimes()
    this.#initial = copyState(model.state)
    const book = rails.map(() => ({ paid: 0, refused: false, uncertain: false }))
    this.state = { outbox: model.state, jobs: [null, null], book }
  }

  /** Uses the given state without a copy. Only `mayRun` may follow, because it changes nothing. */
  look(state: WorldState): void {
    this.state = state
    this.#model.state = state.outbox
  }

  /** Replaces the state by a copy of the given one. */
  load({ outbox, jobs, book }: WorldState): void {
    this.state = { outbox: copyState(outbox), jobs: [...jobs], book: book.map((entry) => ({ ...entry })) }
    this.#model.state = this.state.outbox
    this.#violation = null
  }

  /**
   * Whether a step can change the state. The check is cheap, so that the state is copied only for steps that can run.
   */
  mayRun(step: Step): boolean {
    const { outbox, jobs } = this.state
    switch (step.do) {
      case 'claim':
        return jobs[step.worker] === null && (step.worker === 0 || jobs[0] !== null)
      case 'renew':
      case 'release':
        return jobs[step.worker]?.phase === 'claimed'
      case 'start':
        return jobs[step.worker]?.phase === 'claimed' && jobs[step.worker]!.trusted
      case 'inquireInVain': {
        const job = jobs[step.worker]
        return job?.phase === 'claimed' && job.trusted && this.#inquires(job)
      }
      case 'send':
      case 'timeout':
        return jobs[step.worker]?.phase === 'sending'
      case 'record':
        return jobs[step.worker]?.phase === 'answered'
      case 'crash':
        return jobs[step.worker] !== null
      case 'expire': {
        const lease = outbox.items[step.item]?.lease ?? null
        return lease !== null && lease.expires !== PAST
      }
      case 'hold': {
        const item = outbox.items[step.item]
        return item?.hold === null && item.terminal === null
      }
      case 'decide': {
        const item = outbox.items[step.item]
        if (item === undefined || this.#hasOpenProposal(item)) return false
        return item.lease === null ? item.hold !== null : item.lease.expires === PAST
      }
      case 'cancel': {
        const item = outbox.items[step.item]
        return item !== undefined && this.#model.whyNotCancellable(item) === undefined
      }
      case 'redrive': {
        const item = outbox.items[step.item]
        return item?.terminal === 'FAILED' && outbox.items.length < ITEMS_MAX && !this.#hasOpenProposal(item)
      }
      case 'withdraw': {
        const item = outbox.items[step.item]
        return item !== undefined && this.#hasOpenProposal(item)
      }
      case 'approve': {
        const item = outbox.items[step.item]
        if (item === undefined || !this.#hasOpenProposal(item)) return false
        // Person 0 is the proposer, whom the model must refuse. Person 1 approves only what the rail book confirms.
        return step.person === 0 || this.#isTrue(step.item, this.#proposalOf(step.item).decision)
      }
      case 'repair':
        return outbox.items.some(({ lease }) => lease?.expires === PAST)
      case 'freeze':
        return outbox.freeze === null
      case 'heartbeat':
        return outbox.freeze !== null && !outbox.freeze.marked
      case 'lift':
        return outbox.freeze !== null
      case 'restore':
        return this.#mayRestore()
      case 'resume':
        return outbox.pauses.size > 0
    }
  }

  /**
   * Runs a step. Returns false if the step is refused; the state is then invalid. Returns the rule that the step broke,
   * or true.
   */
  run(step: Step): Violation | boolean {
    try {
      this.#run(step)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      this.state.outbox = this.#model.state
      return false
    }
    this.#readTimes()
    return this.#violation ?? brokenRule(this.state) ?? true
  }

  #run(step: Step): void {
    const model = this.#model
    switch (step.do) {
      case 'claim':
        return this.#claim(step.worker)
      case 'renew':
        return this.#renew(step.worker)
      case 'release':
        return this.#release(step.worker)
      case 'start':
        return this.#start(step.worker)
      case 'inquireInVain':
        return this.#setJob(step.worker, { phase: 'answered', answer: 'busy' })
      case 'send':
        return this.#send(step.worker, step.rail)
      case 'timeout':
        return this.#complete(step.worker, 'unknown')
      case 'record':
        return this.#record(step.worker)
      case 'crash':
        this.state.jobs[step.worker] = null
        return
      case 'expire':
        return this.#expire(step.item)
      case 'hold':
        return void model.placeHold(this.#item(step.item).name, 'a person asked for it')
      case 'withdraw':
        return void model.withdraw(this.#proposalOf(step.item).name)
      case 'redrive':
        return void model.redrive('person0', this.#item(step.item).name)
      case 'cancel':
        return void model.cancel(this.#item(step.item).name)
      case 'decide':
        return this.#decide(step.item, step.decision)
      case 'approve':
        return this.#approve(step.item, step.person)
      case 'repair':
        return void model.repair(ITEMS_MAX)
      case 'freeze':
        return void model.freeze()
      case 'heartbeat':
        return void model.heartbeat()
      case 'lift':
        return void model.lift()
      case 'restore':
        // Tokens are random, so the restored database issues none a second time.
        this.state.outbox = { ...copyState(this.#initial), tokens: this.state.outbox.tokens }
        model.state = this.state.outbox
        return void model.freeze()
      case 'resume':
        return void model.resume('stream', PARTICIPANT)
    }
  }

  // Workers ---------------------------------------------------------------------------------------------------------

  #claim(worker: 0 | 1): void {
    const { outbox } = this.state
    const wasHeld = outbox.items.map(({ hold }) => hold !== null)
    const answers = this.#model.claim(WORKERS[worker], 1, LEASE_SECONDS, null, MARKED_RAILS, null)
    if (answers.length === 0) return
    const token = `token${outbox.tokens}`
    const item = outbox.items.findIndex(({ lease }) => lease?.token === token)
    const { name, unknown, late, streak, position } = outbox.items[item]!
    if (outbox.freeze !== null) this.#break('frozen', `${name} was leased during a freeze`)
    if (wasHeld[item]) this.#break('held', `${name} was leased although it was held`)
    const earlier = outbox.items.find((other) => other.terminal === null && other.position < position)
    if (earlier !== undefined) this.#break('in order', `${name} was leased before ${earlier.name} had ended`)
    this.state.jobs[worker] = {
      item,
      token,
      phase: 'claimed',
      trusted: true,
      unknown,
      paidLate: late?.state === 'DISPATCHED',
      repeatedExpiry: streak >= EXPIRIES_MAX,
      settled: false,
      answer: null,
    }
  }

  /** Renews a lease. A worker whose renewal is refused drops the item. */
  #renew(worker: 0 | 1): void {
    const { item, token } = this.#job(worker)
    try {
      this.#model.renew(WORKERS[worker], this.#item(item).name, token, LEASE_SECONDS)
      this.#setJob(worker, { trusted: true })
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      this.state.jobs[worker] = null
    }
  }

  #release(worker: 0 | 1): void {
    const { item, token } = this.#job(worker)
    this.state.jobs[worker] = null
    try {
      this.#model.release(WORKERS[worker], this.#item(item).name, token)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
    }
  }

  /** Follows dispatchItem.ts up to the request: uses a late success, holds, inquires or writes the dispatch mark. */
  #start(worker: 0 | 1): void {
    const job = this.#job(worker)
    const { name, rail } = this.#item(job.item)
    if (job.paidLate) return this.#setJob(worker, { phase: 'answered', answer: 'paid' })
    if (job.repeatedExpiry || (job.unknown && this.holdsUnknown(rail))) {
      this.#model.holdLeased(WORKERS[worker], name, job.token, 'OUTCOME_UNKNOWN')
      this.state.jobs[worker] = null
      return
    }
    if (this.#inquires(job)) {
      const { paid, refused } = this.state.book[job.item]!
      if (paid > 0) return this.#setJob(worker, { phase: 'answered', answer: 'paid' })
      if (refused) return this.#setJob(worker, { phase: 'answered', answer: 'refusedForAll' })
      // The rail does not know the payment, but a request may still be on its way. The worker asks again later.
      if (this.#isOnItsWay(job.item, worker)) return this.#setJob(worker, { phase: 'answered', answer: 'busy' })
    }
    if (this.needsMark(rail) && !this.#begin(worker)) return
    this.#setJob(worker, { phase: 'sending', settled: this.#inquires(job) })
  }

  /** Whether a worker writes a dispatch mark before it calls this rail. */
  protected needsMark(rail: string): boolean {
    return rail === 'hold'
  }

  /** Whether a worker holds an item of this rail instead of calling again. */
  protected holdsUnknown(rail: string): boolean {
    return rail === 'hold'
  }

  #inquires({ unknown, paidLate, repeatedExpiry, item }: Job): boolean {
    return unknown && !paidLate && !repeatedExpiry && this.#item(item).rail === 'inquire'
  }

  /** Writes the dispatch mark. A worker that may not write it sends nothing. */
  #begin(worker: 0 | 1): boolean {
    const { item, token } = this.#job(worker)
    const { name } = this.#item(item)
    try {
      this.#model.begin(WORKERS[worker], name, token)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      this.#release(worker)
      return false
    }
    if (this.state.outbox.freeze !== null) this.#break('frozen', `the call for ${name} began during a freeze`)
    return true
  }

  #send(worker: 0 | 1, event: RailEvent): void {
    const { item, settled } = this.#job(worker)
    const { name, rail } = this.#item(item)
    const entry = this.state.book[item]!
    if (rail === 'hold' && entry.uncertain)
      this.#break('no blind resend', `${name} was sent again although an earlier call may have paid it`)
    // A `resend` rail recognises a repeated reference: it neither pays twice nor pays what it refused.
    const repeats = rail === 'resend'
    const pays = event === 'pays' || event === 'pays, answer lost'
    if (repeats && entry.paid > 0 && (event === 'refuses' || event === 'is busy'))
      throw new Refusal('the rail has paid')
    if (repeats && entry.refused && pays) throw new Refusal('the rail has refused')
    if (pays && !(repeats && entry.paid > 0)) entry.paid += 1
    entry.refused ||= event === 'refuses' && rail !== 'hold'
    entry.uncertain ||= rail === 'hold'
    this.#setJob(worker, { phase: 'answered', answer: answerOf(event, settled || rail === 'resend', settled) })
  }

  /** Records the answer. If the lease is lost, reports the answer as a late outcome, unless it is unknown. */
  #record(worker: 0 | 1): void {
    const { item, token, answer } = this.#job(worker)
    const { name } = this.#item(item)
    let isRecorded = true
    try {
      this.#complete(worker, answer!)
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      isRecorded = false
    }
    this.state.jobs[worker] = null
    if (isRecorded) {
      if (answer !== 'unknown') this.state.book[item]!.uncertain = false
      return
    }
    if (answer === 'unknown') return
    const { state } = OUTCOMES[answer!]
    try {
      this.#model.reportLate(WORKERS[worker], name, { state, reference: referenceFor(state), token })
    } catch (error) {
      // A restored database does not know the lease.
      if (!(error instanceof Refusal)) throw error
    }
  }

  #complete(worker: 0 | 1, answer: Answer): void {
    const { item, token } = this.#job(worker)
    const { name, rail } = this.#item(item)
    const { state, unknown } = OUTCOMES[answer]
    this.#model.complete(WORKERS[worker], {
      item: name,
      token,
      state,
      reference: referenceFor(state),
      unknown,
      hold: answer === 'unknown' && rail === 'hold' ? 'OUTCOME_UNKNOWN' : null,
      delaySeconds: 0,
    })
  }

  /** Whether a worker, other than `except`, may still send a request for this item or has one on its way. */
  #isOnItsWay(item: number, except?: 0 | 1): boolean {
    return this.state.jobs.some(
      (job, worker) =>
        job?.item === item &&
        worker !== except &&
        (job.phase === 'sending' || (job.phase === 'claimed' && job.trusted)),
    )
  }

  /** Lets a lease expire. Its worker stops trusting it before that. */
  #expire(index: number): void {
    const lease = this.#item(index).lease!
    lease.expires = PAST
    for (const worker of [0, 1] as const) {
      if (this.state.jobs[worker]?.token === lease.token) this.#setJob(worker, { trusted: false })
    }
  }

  // People ----------------------------------------------------------------------------------------------------------

  #decide(index: number, decision: Decision): void {
    const item = this.#item(index)
    const answer = this.#model.resolve(
      'person0',
      item.name,
      decision,
      referenceFor(decision === 'RETRY' ? 'RETRYABLE' : decision),
    )
    // During a freeze one person may decide RETRY: nothing is sent before the lift, and by then the items that were
    // pending at the freeze are marked as unknown.
    const { outbox, book } = this.state
    if (answer === 'APPLIED' && book[index]!.uncertain && outbox.freeze === null)
      this.#break('two people', `one person decided about ${item.name}, although a call may have paid it`)
  }

  #approve(index: number, person: 0 | 1): void {
    const proposal = this.#proposalOf(index)
    this.#model.approve(`person${person}`, proposal.name)
    if (proposal.by === `person${person}`)
      this.#break('two people', `one person proposed and approved for ${proposal.item}`)
    this.state.book[index]!.uncertain = false
    if (proposal.decision === 'REDRIVE') this.state.book.push({ paid: 0, refused: false, uncertain: false })
  }

  /** Whether the rail book confirms a decision, and no request is on its way that could change that. */
  #isTrue(index: number, decision: Decision | 'REDRIVE'): boolean {
    const { items } = this.state.outbox
    const isUnpaid = (other: number): boolean => this.state.book[other]!.paid === 0 && !this.#isOnItsWay(other)
    if (decision === 'DISPATCHED') return this.state.book[index]!.paid > 0
    if (decision === 'FAILED') return isUnpaid(index)
    // A RETRY or REDRIVE is right only if no item of the payment is paid.
    return items.every(({ key }, other) => key !== items[index]!.key || isUnpaid(other))
  }

  /**
   * Allows a restore only while it loses nothing but leases and outcomes. This world does not model the loss of a
   * redrive or cancellation, which people must find before they lift the freeze.
   */
  #mayRestore(): boolean {
    const { items, freeze } = this.state.outbox
    return freeze === null && items.length < ITEMS_MAX && !items.some(isCancelled)
  }

  #break(rule: Rule, detail: string): void {
    this.#violation ??= { rule, detail }
  }

  // -----------------------------------------------------------------------------------------------------------------

  /** Replaces times that the last step computed: every item becomes due at once, and every new lease is live. */
  #readTimes(): void {
    for (const item of this.#model.state.items) {
      item.due = PAST
      if (item.lease !== null && typeof item.lease.expires !== 'number') item.lease.expires = FUTURE
    }
  }

  #setJob(worker: 0 | 1, change: Partial<Job>): void {
    this.state.jobs[worker] = { ...this.#job(worker), ...change }
  }

  #job(worker: 0 | 1): Job {
    return this.state.jobs[worker]!
  }

  #item(index: number): Item {
    return this.state.outbox.items[index]!
  }

  #proposalOf(index: number): Proposal {
    const { name } = this.#item(index)
    return this.state.outbox.proposals.find(({ item, status }) => item === name && status === 'OPEN')!
  }

  #hasOpenProposal({ name }: Item): boolean {
    return this.state.outbox.proposals.some(({ item, status }) => item === name && status === 'OPEN')
  }
}

/** Outcomes that a worker records: see `outcomeOf` and `inquire` of dispatchItem.ts. */
const OUTCOMES: Readonly<Record<Answer, Pick<Outcome, 'state' | 'unknown'>>> = {
  paid: { state: 'DISPATCHED', unknown: null },
  unknown: { state: 'RETRYABLE', unknown: true },
  refused: { state: 'FAILED', unknown: null },
  refusedForAll: { state: 'FAILED', unknown: false },
  busy: { state: 'RETRYABLE', unknown: null },
  busyForAll: { state: 'RETRYABLE', unknown: false },
}

/**
 * Returns the answer that the worker gets. A refusal or a busy answer may also settle earlier calls of unknown outcome.
 */
function answerOf(event: RailEvent, refusalSettles: boolean, busySettles: boolean): Answer {
  switch (event) {
    case 'pays':
      return 'paid'
    case 'refuses':
      return refusalSettles ? 'refusedForAll' : 'refused'
    case 'is busy':
      return busySettles ? 'busyForAll' : 'busy'
    case 'pays, answer lost':
    case 'never gets it':
      return 'unknown'
  }
}

/** Builds the worlds of the exploration: each policy once as the first and once as the second rail of the stream. */
export function buildWorlds(): World[] {
  const pairs = [
    ['hold', 'inquire'],
    ['inquire', 'resend'],
    ['resend', 'hold'],
  ] as const
  return [false, true].flatMap((halts) => pairs.map((rails) => new World(rails, halts)))
}
