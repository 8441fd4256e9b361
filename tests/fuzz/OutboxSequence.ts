import type { Queryable } from '../../libs/db/index.js'
import {
  approveOutboxLimit,
  approveOutboxProposal,
  beginOutboxDispatch,
  cancelOutboxInstruction,
  cancelOutboxItem,
  checkDispatchEpoch,
  claimOutboxBatch,
  completeOutboxAttempt,
  completeOutboxAttempts,
  enqueuePaymentOutboxBatch,
  freezeDispatch,
  heartbeatOutboxWorker,
  holdLeasedOutboxItem,
  liftDispatchFreeze,
  nextOutboxEvent,
  OutboxStore,
  pauseOutbox,
  placeOutboxHold,
  proposeOutboxLimit,
  recordLateOutcome,
  recordOutboxReturn,
  redriveOutboxItem,
  releaseOutboxLease,
  renewOutboxLease,
  repairExpiredLeases,
  resolveOutboxHold,
  resumeOutbox,
  setParticipantOutboxPolicy,
  withdrawOutboxProposal,
  type AttemptOutcome,
  type ClaimedItem,
  type DecisionResult,
  type EnqueuedItem,
  type EpochRecord,
  type MessageLeaseRef,
} from '../../libs/outbox/index.js'
import { sealLedgerBlock } from '../../libs/ledger/index.js'
import { compareAnswers, NOTHING_DONE, refuseDifferences } from './answers.js'
import { AssumedClaims } from './AssumedClaims.js'
import { Names } from './Names.js'
import { brokenInvariants, lastEventNumbers, ledgerDifferences } from './outboxLedger.js'
import { OutboxModel } from './outboxModel.js'
import { PAID, type Instruction, type Item, type Outcome } from './outboxRules.js'
import { OutboxQueue } from './outboxQueue.js'
import type { EnqueueStep, ItemPick, LeasePick, OutboxStep, OutcomeStep } from './outboxSteps.js'
import { describeEvidence, describeRecorded, describeRefusal, describeVerdict } from './outboxAnswerText.js'
import { at, JUMP, Timeline, toMilliseconds } from './Timeline.js'

/** One connection per role, and one for each of two people. */
export interface OutboxConnections {
  readonly ingest: Queryable
  readonly executor: Queryable
  readonly people: readonly [Queryable, Queryable]
  readonly superuser: Queryable
}

const PARTICIPANTS = ['p0', 'p1']
const RAILS = ['r0', 'r1']
const RAIL_CHOICES = [null, ['r0'], ['r1'], RAILS] as const
const MARKED_CHOICES = [[], ['r0'], ['r1']] as const
const WORKERS = 3
/** Event scopes that all sequences share. */
const SHARED_SCOPES: readonly string[] = ['all', 'dispatch']
const LEASE_SECONDS = 1800
const REASON = 'said the fuzz'
const LIMIT_RULES = {
  count: { kind: 'count', limit: '0', windowSeconds: 86_400 },
  approval: { kind: 'approval', limit: '0', currency: 'EUR', approvals: 2 },
} as const
/** Enqueues items before the first random step. */
const PRELUDE: OutboxStep = {
  do: 'enqueue',
  items: [0, 1, 2, 3].map((key) => ({
    key,
    ordered: key === 1 || key === 3,
    future: false,
    variant: 0,
    replaces: null,
  })),
}

interface KnownLease {
  readonly item: string
  readonly token: string
}

/** One sequence. Each step runs in the model and in the database; answers and queue are compared. */
export class OutboxSequence {
  readonly #connections: OutboxConnections
  readonly #suffix: string
  readonly #model = new OutboxModel()
  readonly #names = new Names<'item' | 'token' | 'proposal'>()
  readonly #timeline = new Timeline()
  readonly #queue: OutboxQueue
  readonly #leases = new AssumedClaims<KnownLease>(WORKERS)
  /** Epoch record of each worker. */
  readonly #records = new Map<number, EpochRecord>()

  constructor(connections: OutboxConnections, number: number) {
    this.#connections = connections
    this.#suffix = `-${number}`
    this.#queue = new OutboxQueue(connections.superuser, this.#timeline, this.#model, (uuid) => this.#names.known(uuid))
  }

  async run(steps: readonly OutboxStep[]): Promise<void> {
    await this.#timeline.begin(this.#connections.superuser)
    const since = await lastEventNumbers(this.#connections.superuser, SHARED_SCOPES)
    for (const [index, step] of [PRELUDE, ...steps].entries()) {
      const differences = await this.#step(step)
      if (differences !== NOTHING_DONE)
        refuseDifferences(`step ${index}, ${step.do}`, [...differences, ...(await this.#queue.compare())])
    }
    const { superuser } = this.#connections
    const idOf = (name: string): string => this.#names.id(name)
    refuseDifferences('at the end', [
      ...(await brokenInvariants(
        superuser,
        this.#model.items.map(({ name }) => idOf(name)),
      )),
      ...(await ledgerDifferences(superuser, this.#model, this.#queue.unverified, idOf, {
        nameOf: (scope) => this.#full(scope),
        since,
      })),
    ])
  }

  /** Runs one step in the model and in the database. Returns differences of their answers. */
  async #step(step: OutboxStep): Promise<string[]> {
    const { ingest, executor, people } = this.#connections
    const model = this.#model
    switch (step.do) {
      case 'enqueue': {
        const given = step.items.map((item) => this.#instruction(item))
        // A batch holds payments or messages, never both.
        const { isMessage } = given[0]!
        const items = given.filter((item) => item.isMessage === isMessage)
        const spelled = items.map((item) => this.#spell(item))
        return this.#same(
          () => model.enqueue(items),
          async () =>
            (await enqueuePaymentOutboxBatch(ingest, spelled, { isMessage })).map((row) => this.#describeEnqueued(row)),
        )
      }
      case 'claim': {
        const worker = `w${step.worker}`
        const rails = RAIL_CHOICES[step.rails]!
        const marked = MARKED_CHOICES[step.marked]!
        return this.#same(
          () => model.claim(worker, step.batch, LEASE_SECONDS, rails, marked, step.isMessage),
          async () => {
            const items = await claimOutboxBatch(executor, step.batch, worker, LEASE_SECONDS, {
              ...(rails === null ? {} : { rails: rails.map((rail) => this.#full(rail)) }),
              ...(marked.length === 0 ? {} : { markedRails: marked.map((rail) => this.#full(rail)) }),
              ...ofKind(step.isMessage),
            })
            const answers = items.map((item) => this.#describeClaimed(item))
            for (const { outboxId, leaseToken } of items)
              this.#leases.add(step.worker, { item: this.#names.known(outboxId), token: this.#names.known(leaseToken) })
            return answers
          },
        )
      }
      case 'complete':
        return this.#withLease(step.lease, (lease, worker) => {
          const outcome = { ...lease, ...readOutcome(step.outcome) }
          return this.#same(
            () => model.complete(worker, outcome),
            async () => describeRecorded(await completeOutboxAttempt(executor, worker, this.#spellOutcome(outcome))),
          )
        })
      case 'completeBatch':
        return this.#withLeases(step.lease, step.outcomes.length, (leases, worker) => {
          const outcomes = step.outcomes.map((outcome, index) => ({ ...leases[index]!, ...readOutcome(outcome) }))
          const spelled = outcomes.map((outcome) => this.#spellOutcome(outcome))
          return this.#same(
            () => model.completeBatch(worker, outcomes, step.isMessage),
            async () =>
              (await completeOutboxAttempts(executor, worker, spelled, ofKind(step.isMessage))).map(describeVerdict),
          )
        })
      case 'claimMessages': {
        const rails = RAIL_CHOICES[step.rails]!
        return this.#same(
          () => model.claimMessages(`w${step.worker}`, step.batch, LEASE_SECONDS, rails),
          async () => {
            const messages = await this.#store(`w${step.worker}`).claim({
              batchSize: step.batch,
              ...(rails === null ? {} : { topics: rails.map((rail) => this.#full(rail)) }),
            })
            return messages.map(({ id, leaseToken, attempts, expiries }) => {
              const lease = { item: this.#names.known(id), token: this.#names.of('token', leaseToken) }
              this.#leases.add(step.worker, lease)
              return `${lease.item} ${lease.token} after ${attempts} streak ${expiries}`
            })
          },
        )
      }
      case 'ack':
      case 'abandon':
      case 'fail':
        return this.#withLeases(step.lease, step.count, (leases, worker) => {
          const store = this.#store(worker)
          const receipts = leases.map((lease) => this.#messageRefOf(lease))
          const outcomes = leases.map((lease, index) => ({
            ...lease,
            ...verbOutcome(step.do, receipts[index]!.messageId),
          }))
          return this.#same(
            () => model.endMessages(worker, outcomes),
            async () => {
              const changed = await (step.do === 'fail' ? store.fail(receipts, REASON) : store[step.do](receipts))
              return changed.map((id) => this.#names.known(id))
            },
          )
        })
      case 'freeze':
        return this.#same(
          () => String(model.freeze()),
          async () => String(await freezeDispatch(people[0], REASON)),
        )
      case 'lift':
        return this.#same(
          () => String(model.lift()),
          async () => String(await liftDispatchFreeze(people[1], REASON)),
        )
      case 'heartbeat': {
        const worker = `w${step.worker}`
        return this.#same(
          () => model.heartbeat(),
          async () => {
            await heartbeatOutboxWorker(executor, worker)
            const check = await checkDispatchEpoch(executor, worker, this.#records.get(step.worker))
            this.#records.set(step.worker, check.record)
            return check.freeze === undefined ? 'open' : `frozen, ${check.marked ? 'marked' : 'not marked'}`
          },
        )
      }
      case 'seal':
        // An open transaction of another database may delay rows to a later block, so only the maximum size is checked.
        return this.#same(
          () => 'sealed',
          async () => {
            const block = await sealLedgerBlock(executor, step.rows)
            return block === undefined || block.rowCount <= step.rows ? 'sealed' : `${block.rowCount} rows in a block`
          },
        )
      case 'renew':
        return this.#withLease(step.lease, ({ item, token }, worker) =>
          this.#same(
            () => model.renew(worker, item, token, step.seconds),
            async () => {
              await renewOutboxLease(executor, this.#claimOf(item, token), worker, step.seconds)
              return 'renewed'
            },
          ),
        )
      case 'release':
        return this.#withLease(step.lease, ({ item, token }, worker) =>
          this.#same(
            () => model.release(worker, item, token),
            async () => {
              await releaseOutboxLease(executor, this.#claimOf(item, token), worker)
              return 'released'
            },
          ),
        )
      case 'begin':
        return this.#withLease(step.lease, ({ item, token }, worker) =>
          this.#same(
            () => model.begin(worker, item, token),
            async () => {
              await beginOutboxDispatch(executor, this.#claimOf(item, token), worker)
              return 'begun'
            },
          ),
        )
      case 'holdLeased':
        return this.#withLease(step.lease, ({ item, token }, worker) =>
          this.#same(
            () => model.holdLeased(worker, item, token, REASON),
            async () => {
              await holdLeasedOutboxItem(executor, this.#claimOf(item, token), worker, REASON)
              return 'held'
            },
          ),
        )
      case 'reportLate':
        return this.#withLease(step.lease, ({ item, token }, worker) => {
          const report = { state: step.state, reference: referenceOf(step.reference), token }
          const spelled = { ...this.#claimOf(item, token), state: report.state, railReference: report.reference }
          return this.#same(
            () => model.reportLate(worker, item, report),
            async () => (await recordLateOutcome(executor, worker, spelled)).eventType,
          )
        })
      case 'expire':
        return this.#move(
          model.pending.filter(({ lease }) => lease !== null),
          step.pick,
          (item) => (item.lease!.expires = this.#timeline.past()),
        )
      case 'makeDue':
        return this.#move(
          model.pending.filter((item) => item.lease === null && at(item.due) > model.clock),
          step.pick,
          (item) => (item.due = this.#timeline.past()),
        )
      case 'jump': {
        const distance = step.forward ? -JUMP : JUMP
        for (const item of model.pending) {
          item.due = at(item.due) + distance
          // Leases of one claim expire together. A small offset makes the order of their takeover unique.
          if (item.lease !== null) item.lease.expires = at(item.lease.expires) + distance + item.created
        }
        await this.#queue.write(model.pending)
        return []
      }
      case 'repair':
        return this.#same(
          () => model.repair(step.batch).toSorted(),
          async () => {
            const repaired = await repairExpiredLeases(executor, step.batch, 'repairer')
            return repaired.map((row) => `${this.#names.known(row.outboxId)} attempt ${row.attemptNo}`).toSorted()
          },
        )
      case 'placeHold':
        return this.#withItem(
          step.item,
          ({ terminal, hold }) => terminal === null && hold === null,
          ({ name }) =>
            this.#same(
              () => model.placeHold(name, REASON),
              async () => {
                await placeOutboxHold(people[step.person]!, this.#names.id(name), REASON)
                return 'held'
              },
            ),
        )
      case 'resolve':
        return this.#withItem(
          step.item,
          ({ terminal, hold }) => terminal === null && hold !== null,
          ({ name }) => {
            const reference = step.decision === 'DISPATCHED' ? 'from the statement' : null
            return this.#same(
              () => model.resolve(`person${step.person}`, name, step.decision, reference),
              async () =>
                this.#describeDecision(
                  await resolveOutboxHold(people[step.person]!, this.#names.id(name), step.decision, REASON, reference),
                ),
            )
          },
        )
      case 'redrive':
        return this.#withItem(
          step.item,
          ({ terminal }) => terminal === 'FAILED',
          ({ name }) =>
            this.#same(
              () => model.redrive(`person${step.person}`, name),
              async () =>
                this.#describeDecision(await redriveOutboxItem(people[step.person]!, this.#names.id(name), REASON)),
            ),
        )
      case 'cancel':
        return this.#withItem(
          step.item,
          ({ terminal, lease, unknown }) => terminal === null && lease === null && !unknown,
          ({ name, key }) =>
            this.#same(
              () => (step.byKey ? model.cancelNewest(key) : model.cancel(name)),
              async () => {
                const { outboxId } = step.byKey
                  ? await cancelOutboxInstruction(ingest, this.#full(`i${key}`), this.#full(`k${key}`), REASON)
                  : await cancelOutboxItem(ingest, this.#names.id(name), REASON)
                return `cancelled ${this.#names.known(outboxId)}`
              },
            ),
        )
      case 'approve':
        return this.#withProposal(step.item, (name) =>
          this.#same(
            () => model.approve(`person${step.person}`, name),
            async () => {
              const answer = await approveOutboxProposal(people[step.person]!, this.#names.id(name))
              const redriven = answer.redrivenAs === null ? '' : ` as ${this.#names.of('item', answer.redrivenAs)}`
              return `${this.#names.known(answer.outboxId)} ${answer.decision}${redriven}`
            },
          ),
        )
      case 'withdraw':
        return this.#withProposal(step.item, (name) =>
          this.#same(
            () => model.withdraw(name),
            async () => {
              await withdrawOutboxProposal(people[step.person]!, this.#names.id(name), REASON)
              return 'withdrawn'
            },
          ),
        )
      case 'return':
        return this.#withItem(
          step.item,
          ({ terminal, isMessage }) => terminal === 'DISPATCHED' && !isMessage,
          ({ name }) => {
            const given = { amount: step.amount, currency: step.currency, reference: `return${step.reference}` }
            return this.#same(
              () => model.recordReturn(name, given),
              async () => {
                const { created, returnedTotal } = await recordOutboxReturn(executor, {
                  ...given,
                  outboxId: this.#names.id(name),
                  amount: String(given.amount),
                  code: 'AC04',
                })
                return `${created ? 'recorded' : 'known'}, ${returnedTotal} in all`
              },
            )
          },
        )
      case 'pause': {
        const name = step.kind === 'all' ? 'all' : (step.kind === 'rail' ? RAILS : PARTICIPANTS)[step.which]!
        return this.#same(
          () => String(model.pause(step.kind, name)),
          async () => String(await pauseOutbox(people[0], step.kind, this.#full(name), REASON)),
        )
      }
      case 'resume': {
        // Resumes an existing pause, or sometimes the pause of p0, which may not exist.
        const pauses = [...model.pauses, { kind: 'participant', name: 'p0' } as const]
        const { kind, name } = pauses[step.pick % pauses.length]!
        return this.#same(
          () => String(model.resume(kind, name)),
          async () => String(await resumeOutbox(people[1], kind, this.#full(name), REASON)),
        )
      }
      case 'setPolicy': {
        const participant = PARTICIPANTS[step.which]!
        return this.#same(
          () => model.setPolicy(participant, step.policy),
          async () => {
            await setParticipantOutboxPolicy(people[0], this.#full(participant), step.policy)
            return 'set'
          },
        )
      }
      case 'setLimit': {
        const participant = PARTICIPANTS[step.which]!
        // Only a limit in force can be removed.
        if (step.limit === null && !model.limits.has(participant)) return NOTHING_DONE
        const name = this.#full(participant)
        const rule = step.limit === null ? null : { ...LIMIT_RULES[step.limit], participantId: name }
        return this.#same(
          () => model.setLimit(participant, step.limit),
          async () => {
            await approveOutboxLimit(people[1], await proposeOutboxLimit(people[0], name, rule, REASON))
            return 'set'
          },
        )
      }
      case 'crash':
        this.#leases.clear(step.worker)
        return NOTHING_DONE
      case 'nextEvent': {
        // next_outbox_event omits items that are blocked and not yet verified, although a claim may lease them. So
        // nothing can be compared.
        if (this.#queue.unverified.size > 0) return NOTHING_DONE
        const rails = RAIL_CHOICES[step.rails]!
        return this.#same(
          () => toMilliseconds(model.nextEvent(rails, step.isMessage)),
          async () => {
            const next = await nextOutboxEvent(
              executor,
              rails?.map((rail) => this.#full(rail)),
              ofKind(step.isMessage),
            )
            return toMilliseconds(next && this.#timeline.fromDate(next))
          },
        )
      }
    }
  }

  #same(expect: () => string | string[], ask: () => Promise<string | string[]>): Promise<string[]> {
    return compareAnswers(expect, ask, describeRefusal)
  }

  // Picking ---------------------------------------------------------------------------------------------------------

  #withLease(pick: LeasePick, body: (lease: KnownLease, worker: string) => Promise<string[]>): Promise<string[]> {
    return this.#withLeases(pick, 1, ([lease], worker) => body(lease!, worker))
  }

  #withLeases(
    { worker, pick, foreign }: LeasePick,
    count: number,
    body: (leases: readonly KnownLease[], worker: string) => Promise<string[]>,
  ): Promise<string[]> {
    const picks = Array.from({ length: count }, (_, index) => pick + index)
    const isLive = (_: number, { token }: KnownLease): boolean =>
      this.#model.items.some((item) => item.lease?.token === token)
    const acting = this.#leases.pick({ worker, picks, foreign }, isLive)
    return acting === undefined ? Promise.resolve(NOTHING_DONE) : body(acting.chosen, `w${acting.worker}`)
  }

  #withItem(
    { pick, unfiltered }: ItemPick,
    suits: (item: Item) => boolean,
    body: (item: Item) => Promise<string[]>,
  ): Promise<string[]> {
    const suitable = this.#model.items.filter(suits)
    const among = unfiltered || suitable.length === 0 ? this.#model.items : suitable
    return among.length === 0 ? Promise.resolve(NOTHING_DONE) : body(among[pick % among.length]!)
  }

  #withProposal({ pick, unfiltered }: ItemPick, body: (name: string) => Promise<string[]>): Promise<string[]> {
    const open = this.#model.proposals.filter(({ status }) => status === 'OPEN')
    const among = unfiltered || open.length === 0 ? this.#model.proposals : open
    return among.length === 0 ? Promise.resolve(NOTHING_DONE) : body(among[pick % among.length]!.name)
  }

  async #move(among: readonly Item[], pick: number, change: (item: Item) => void): Promise<string[]> {
    const item = among[pick % Math.max(1, among.length)]
    if (item === undefined) return NOTHING_DONE
    change(item)
    await this.#queue.write([item])
    return []
  }

  // Arguments and names in the database -----------------------------------------------------------------------------

  #instruction({ key, ordered, future, variant, replaces }: EnqueueStep): Instruction {
    const participant = PARTICIPANTS[(key + Number(variant === 1)) % 2]!
    const isMessage = (key % 3 === 2) !== (variant === 4)
    return {
      key,
      participant,
      rail: RAILS[(Math.floor(key / 2) + Number(variant === 2)) % 2]!,
      payload: Number(variant === 3),
      ordered,
      isMessage,
      replaces: replaces === null || isMessage ? null : this.#replaced(participant, replaces),
      notBefore: future ? this.#timeline.future() : undefined,
    }
  }

  /** Picks an item to replace: mostly an ended item of the same participant. */
  #replaced(participant: string, { pick, unfiltered }: ItemPick): string | null {
    const { items } = this.#model
    const ended = items.filter((item) => item.participant === participant && item.terminal !== null)
    const among = unfiltered || ended.length === 0 ? items : ended
    return among[pick % Math.max(1, among.length)]?.name ?? null
  }

  #spell({ key, participant, rail, payload, ordered, notBefore, replaces }: Instruction) {
    return {
      instructionId: this.#full(`i${key}`),
      idempotencyKey: this.#full(`k${key}`),
      participantId: this.#full(participant),
      railType: this.#full(rail),
      payload: { n: payload, amount: String(PAID.amount), currency: PAID.currency },
      ordered,
      ...(replaces === null ? {} : { replaces: this.#names.id(replaces) }),
      ...(notBefore === undefined ? {} : { notBefore: this.#timeline.toDate(notBefore) }),
    }
  }

  #spellOutcome({ item, token, state, reference, unknown, hold, delaySeconds }: Outcome): AttemptOutcome {
    return {
      ...this.#claimOf(item, token),
      state,
      railReference: reference,
      outcomeUnknown: unknown,
      holdReason: hold,
      retryDelaySeconds: delaySeconds,
    }
  }

  #store(owner: string): OutboxStore {
    const { ingest, executor } = this.#connections
    const as = (role: string) => (role === 'symphony_ingest' ? ingest : executor)
    return new OutboxStore({ as }, { owner, leaseSeconds: LEASE_SECONDS })
  }

  #messageRefOf({ item, token }: KnownLease): MessageLeaseRef {
    const { key } = this.#model.items.find(({ name }) => name === item)!
    return { id: this.#names.id(item), leaseToken: this.#names.id(token), messageId: this.#full(`i${key}`) }
  }

  #claimOf(item: string, token: string): { outboxId: string; leaseToken: string } {
    return { outboxId: this.#names.id(item), leaseToken: this.#names.id(token) }
  }

  /** Returns the name in the database: `p0` is `p0-17` in the 17th sequence. */
  #full(name: string): string {
    return SHARED_SCOPES.includes(name) ? name : `${name}${this.#suffix}`
  }

  #short(name: string): string {
    return name.slice(0, -this.#suffix.length)
  }

  #describeEnqueued({ outboxId, sequenceId, state, created }: EnqueuedItem): string {
    const name = this.#names.of('item', outboxId)
    const { participant } = this.#model.items.find((item) => item.name === name) ?? {
      participant: 'unknown to the model',
    }
    return `${name} ${participant}#${sequenceId} ${state} ${created ? 'created' : 'known'}`
  }

  #describeClaimed(claimed: ClaimedItem): string {
    const item = `${this.#names.known(claimed.outboxId)} ${this.#short(claimed.participantId)}#${claimed.sequenceId}`
    const token = this.#names.of('token', claimed.leaseToken)
    const takeover = claimed.takenOver ? ' taken over' : ''
    return `${item} ${token} after ${claimed.attemptCount} streak ${claimed.expiryStreak}${takeover}${describeEvidence(claimed)}`
  }

  #describeDecision({ status, proposalId }: DecisionResult): string {
    return proposalId === null ? status : `${status} ${this.#names.of('proposal', proposalId)}`
  }
}

/** Returns the outcome that each method of a message store records. */
function verbOutcome(verb: 'ack' | 'abandon' | 'fail', messageId: string): Omit<Outcome, 'item' | 'token'> {
  const defaults = { reference: null, unknown: null, hold: null, delaySeconds: null }
  if (verb === 'ack') return { ...defaults, state: 'DISPATCHED', reference: messageId }
  if (verb === 'abandon') return { ...defaults, state: 'RETRYABLE' }
  return { ...defaults, state: 'FAILED', unknown: false }
}

function ofKind(isMessage: boolean | null): { readonly isMessage?: boolean } {
  return isMessage === null ? {} : { isMessage }
}

function readOutcome({ state, reference, unknown, hold, delaySeconds }: OutcomeStep): Omit<Outcome, 'item' | 'token'> {
  return {
    state,
    reference: referenceOf(reference),
    unknown,
    hold: hold && state !== 'DISPATCHED' ? REASON : null,
    delaySeconds,
  }
}

function referenceOf(number: number): string | null {
  return number === 0 ? null : `reference${number}`
}
