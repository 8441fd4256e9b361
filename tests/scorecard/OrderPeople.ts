import { setTimeout as delay } from 'node:timers/promises'
import type { Random } from '../../libs/cli/commands/demo/seededRandom.js'
import {
  approveOutboxProposal,
  cancelOutboxItem,
  placeOutboxHold,
  redriveOutboxItem,
  resolveOutboxHold,
} from '../../libs/outbox/index.js'
import { RemoteRailBook } from '../../libs/rails/simulated/RemoteRailBook.js'
import { createPerson, type Person } from '../support/outboxPeople.js'
import { isInterrupted, isRefused } from './interrupted.js'
import type { RelayScenario } from './RelayScenario.js'

/**
 * Minimum age of a hold and of the last attempt before people decide. A request that arrives after this time is past
 * its not-after time, so the rail refuses it and the rail book is final.
 */
const SETTLED_SECONDS = 6
const PASS_EVERY_MS = 200
/** Maximum number of decisions of one kind per pass. */
const PASS_MAX = 100
const FIND_TIMEOUT_MS = 60_000

interface HeldItem {
  readonly outbox_id: string
  readonly is_message: boolean
  readonly outcome_unknown: boolean
}

/** Two operators: one proposes what the rail book says, the other approves. They also hold and cancel payments. */
export class OrderPeople {
  readonly #scenario: RelayScenario
  readonly #proposer: Person
  readonly #approver: Person
  readonly #random: Random
  readonly #book: RemoteRailBook
  #running: Promise<void> = Promise.resolve()
  #isStopped = true
  decisions = 0
  redrives = 0
  holds = 0
  cancelled = 0
  refused = 0

  private constructor(scenario: RelayScenario, people: readonly [Person, Person], random: Random) {
    this.#scenario = scenario
    ;[this.#proposer, this.#approver] = people
    this.#random = random
    this.#book = new RemoteRailBook(scenario.bookUrl)
  }

  static async create(scenario: RelayScenario, random: Random): Promise<OrderPeople> {
    const people = [await createPerson(scenario.db, 'proposer'), await createPerson(scenario.db, 'approver')] as const
    return new OrderPeople(scenario, people, random)
  }

  start(): void {
    this.#isStopped = false
    this.#running = this.#run()
    // `stop` reports the error.
    this.#running.catch(() => {})
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    await this.#running
    await this.#book.close()
  }

  async hold(outboxId: string): Promise<void> {
    if (await this.#act(() => placeOutboxHold(this.#proposer.control, outboxId, 'the bank asks'))) this.holds += 1
  }

  async cancel(outboxId: string): Promise<void> {
    if (await this.#act(() => cancelOutboxItem(this.#proposer.control, outboxId, 'the bank asks'))) this.cancelled += 1
  }

  /** Decides everything that can be decided now. Returns the number of actions that took effect. */
  async pass(): Promise<number> {
    let actions = 0
    const count = async (action: Promise<boolean>) => {
      if (await action) actions += 1
    }
    for (const { proposal_id: id } of await this.#read<{ proposal_id: string }>(OPEN_PROPOSALS))
      await count(this.#approve(id))
    for (const item of await this.#read<HeldItem>(HELD_ITEMS)) await count(this.#decide(item))
    for (const { outbox_id: id } of await this.#read<{ outbox_id: string }>(REDRIVABLE_ITEMS)) {
      await count(this.#act(() => redriveOutboxItem(this.#proposer.control, id, 'the account is open again')))
    }
    return actions
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      await this.pass()
      await delay(PASS_EVERY_MS)
    }
  }

  async #approve(proposalId: string): Promise<boolean> {
    return this.#act(async () => {
      const { decision } = await approveOutboxProposal(this.#approver.control, proposalId)
      if (decision === 'REDRIVE') this.redrives += 1
      else this.decisions += 1
    })
  }

  /**
   * Proposes what the rail book says. An unpaid payment is retried, failed or, unless its outcome is unknown,
   * cancelled. A message is retried.
   */
  async #decide({
    outbox_id: outboxId,
    is_message: isMessage,
    outcome_unknown: isUnknown,
  }: HeldItem): Promise<boolean> {
    const { control } = this.#proposer
    const railReference = isMessage ? undefined : await this.#book.find(outboxId, AbortSignal.timeout(FIND_TIMEOUT_MS))
    const place = this.#random()
    return this.#act(async () => {
      if (railReference !== undefined) {
        await resolveOutboxHold(control, outboxId, 'DISPATCHED', 'the book has it', railReference)
      } else if (!isMessage && !isUnknown && place < 0.3) {
        await cancelOutboxItem(control, outboxId, 'nothing was sent')
        this.cancelled += 1
      } else {
        const decision = isMessage || place < 0.6 ? 'RETRY' : 'FAILED'
        const { status } = await resolveOutboxHold(control, outboxId, decision, 'the book does not have it')
        if (status === 'APPLIED') this.decisions += 1
      }
    })
  }

  /**
   * Returns true if the action took effect, false if it was refused or interrupted. The next pass reads the state
   * again.
   */
  async #act(action: () => Promise<unknown>): Promise<boolean> {
    try {
      await action()
      return true
    } catch (error) {
      if (isRefused(error)) this.refused += 1
      else if (!isInterrupted(error)) throw error
      return false
    }
  }

  /** Reads rows, or none while the server is down. */
  async #read<Row>(sql: string): Promise<readonly Row[]> {
    const { db } = this.#scenario
    try {
      const text = sql.replaceAll(/\bpayment_outbox_\w+/g, (table) => db.qualify(table))
      return (await db.as('symphony_owner').query<Row>(text)).rows
    } catch (error) {
      if (!isInterrupted(error)) throw error
      return []
    }
  }
}

const OPEN_PROPOSALS = `SELECT proposal_id FROM payment_outbox_proposals WHERE status = 'OPEN' LIMIT ${PASS_MAX}`

const HELD_ITEMS = `
  SELECT p.outbox_id, p.is_message, p.outcome_unknown FROM payment_outbox_pending p
  WHERE p.hold_reason IS NOT NULL AND p.lease_token IS NULL
    AND p.held_at < clock_timestamp() - interval '${SETTLED_SECONDS} seconds'
    AND NOT EXISTS (SELECT FROM payment_outbox_attempts a WHERE a.outbox_id = p.outbox_id
      AND a.created_at > clock_timestamp() - interval '${SETTLED_SECONDS} seconds')
    AND NOT EXISTS (SELECT FROM payment_outbox_proposals q WHERE q.outbox_id = p.outbox_id AND q.status = 'OPEN')
  LIMIT ${PASS_MAX}`

/**
 * Failed payments with `payload.redriven` that are no redrives, were not cancelled, and have neither a redrive nor an
 * open proposal.
 */
const REDRIVABLE_ITEMS = `
  SELECT a.outbox_id FROM payment_outbox_attempts a JOIN payment_outbox_identities i USING (outbox_id)
  WHERE a.state = 'FAILED' AND a.action <> 'cancelled' AND a.payload ? 'redriven' AND i.redrive_of IS NULL
    AND NOT EXISTS (SELECT FROM payment_outbox_identities r WHERE r.redrive_of = a.outbox_id)
    AND NOT EXISTS (SELECT FROM payment_outbox_proposals q WHERE q.outbox_id = a.outbox_id AND q.status = 'OPEN')
  LIMIT ${PASS_MAX}`
