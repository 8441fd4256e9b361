import type { Queryable } from '../../libs/db/index.js'
import { at, count, type Item, type OutboxModel, type Time } from './outboxModel.js'

/**
 * The queue as it stands in the database, compared with the model after every step, whether the step was refused or not.
 *
 * Nothing here waits for a clock. A time that the model cannot know is checked against what it must follow from, and then
 * taken over; one that would soon be in the past is moved so far into the future that no slow machine gets there. Times
 * are microseconds since the beginning of the sequence.
 */

const SECOND = 1_000_000
/** Further away than any sequence takes, and half a jump of the clock: a jump always crosses the present, and never meets it. */
const FAR = 500_000 * SECOND
export const JUMP = 2 * FAR
const SOON = 3600 * SECOND

interface QueueRow {
  readonly outbox_id: string
  readonly attempt_count: number
  readonly due: number
  readonly claimed_by: string | null
  readonly lease_token: string | null
  readonly expires: number | null
  readonly claimed: number | null
  readonly dispatch_mark: string | null
  readonly outcome_unknown: boolean
  readonly expiry_streak: number
  readonly late: string | null
  readonly hold_reason: string | null
  readonly blocked: boolean
  readonly block_unverified: boolean
  readonly attempt_no: number | null
  readonly completed: number | null
}

export class OutboxQueue {
  readonly #superuser: Queryable
  readonly #model: OutboxModel
  readonly #nameOf: (uuid: string) => string
  readonly #ids = new Map<string, string>()
  #start = 0
  #ticks = 0
  /** Items that the database still blocks until somebody looks whether it must. */
  #unverified: ReadonlySet<string> = new Set()

  constructor(superuser: Queryable, model: OutboxModel, nameOf: (uuid: string) => string) {
    this.#superuser = superuser
    this.#model = model
    this.#nameOf = nameOf
  }

  async begin(): Promise<void> {
    const { rows } = await this.#superuser.query<{ start: bigint }>('SELECT epoch_micros(clock_timestamp()) AS start')
    // Whole milliseconds: a Date can say them.
    this.#start = Math.floor(Number(rows[0]!.start) / 1_000) * 1_000
  }

  get unverified(): ReadonlySet<string> {
    return this.#unverified
  }

  /** A past moment like no other, or a future one. */
  past(): number {
    return -FAR + ++this.#ticks * SECOND
  }

  future(): number {
    return FAR + ++this.#ticks * SECOND
  }

  toDate(time: number): Date {
    return new Date((this.#start + time) / 1_000)
  }

  fromDate(date: Date): number {
    return date.getTime() * 1_000 - this.#start
  }

  /** What differs between the queue and the model; times that were not known are known afterwards. */
  async compare(): Promise<string[]> {
    const { rows } = await this.#superuser.query<{ clock: bigint; queue: QueueRow[] | null }>(READ, [this.#start])
    const queue = rows[0]!.queue ?? []
    const clock = Number(rows[0]!.clock)
    const stored = new Map(queue.map((row) => [this.#nameOf(row.outbox_id), row]))
    for (const [name, row] of stored) this.#ids.set(name, row.outbox_id)
    this.#unverified = new Set([...stored].flatMap(([name, row]) => (row.block_unverified ? [name] : [])))
    const expected = this.#model.pending
    const strays = [...stored.keys()].filter((name) => !expected.some((item) => item.name === name))
    const differences = expected.flatMap((item) => {
      const row = stored.get(item.name)
      return row === undefined ? [`${item.name}: pending, but not in the queue`] : this.#compareRow(item, row, clock)
    })
    this.#model.clock = clock
    if (differences.length > 0 || strays.length > 0)
      return [...differences, ...strays.map((name) => `${name}: in the queue, but not pending`)]
    await this.#keepFromComingDue(expected)
    return []
  }

  #compareRow(item: Item, row: QueueRow, clock: number): string[] {
    const { lease, late } = item
    const told = {
      attempt_count: [count(item), row.attempt_count],
      'last attempt': [item.attempts.length, row.attempt_no ?? 0],
      lease: [lease && `${lease.token} of ${lease.worker} ${lease.mark}`, this.#leaseOf(row)],
      outcome_unknown: [item.unknown, row.outcome_unknown],
      expiry_streak: [item.streak, row.expiry_streak],
      late_outcome: [late && `${late.state} ${late.reference}`, row.late],
      hold_reason: [item.hold, row.hold_reason],
      // Blocked on the word of somebody who may have missed a commit: whoever claims next looks again.
      blocked: [this.#model.isBlocked(item), row.block_unverified ? this.#model.isBlocked(item) : row.blocked],
      'blocked at all': [row.blocked || this.#model.isBlocked(item), row.blocked],
    }
    const differences = Object.entries(told).flatMap(([field, [expected, actual]]) =>
      expected === actual ? [] : [`${item.name}: ${field} is ${String(actual)}, expected ${String(expected)}`],
    )
    const known = { attempt: row.completed, claim: row.claimed, call: [this.#model.clock, clock] } as const
    if (!follows(item.due, row.due, known))
      differences.push(`${item.name}: due ${row.due}, expected ${tell(item.due, known)}`)
    if (lease !== null && !follows(lease.expires, row.expires!, known))
      differences.push(`${item.name}: lease until ${row.expires}, expected ${tell(lease.expires, known)}`)
    if (differences.length > 0) return differences
    if (lease !== null) lease.expires = row.expires!
    if (typeof item.due === 'number' || item.due.since !== 'attempt' || item.due.max === 0 || item.due.max >= SOON)
      item.due = row.due
    return []
  }

  #leaseOf(row: QueueRow): string | null {
    return row.lease_token && `${this.#nameOf(row.lease_token)} of ${row.claimed_by} ${row.dispatch_mark}`
  }

  /** What is due in a second, or in five, would be due while the sequence is played, or would not be, as the machine likes. */
  async #keepFromComingDue(items: readonly Item[]): Promise<void> {
    const soon = items.filter((item) => typeof item.due !== 'number')
    for (const item of soon) item.due = this.future()
    await this.write(soon)
  }

  /** Moves the times of these items in the database to where the model has them. */
  async write(items: readonly Item[]): Promise<void> {
    if (items.length === 0) return
    await this.#superuser.query(WRITE, [
      items.map((item) => this.#ids.get(item.name)),
      items.map((item) => this.#start + at(item.due)),
      items.map((item) => item.lease && this.#start + at(item.lease.expires)),
    ])
  }
}

interface Known {
  readonly attempt: number | null
  readonly claim: number | null
  /** The clock before and after the call. */
  readonly call: readonly [number, number]
}

function follows(expected: Time, actual: number, known: Known): boolean {
  const [min, max] = rangeOf(expected, known)
  return actual >= min && actual <= max
}

function rangeOf(expected: Time, known: Known): [number, number] {
  if (typeof expected === 'number') return [expected, expected]
  const { since, min, max } = expected
  if (since !== 'call') return [known[since]! + min, known[since]! + max]
  const earliest = expected.notBefore ?? -Infinity
  return [Math.max(earliest, known.call[0] + min), Math.max(earliest, known.call[1] + max)]
}

function tell(expected: Time, known: Known): string {
  return rangeOf(expected, known).join(' to ')
}

const READ = `
  SELECT epoch_micros(clock_timestamp()) - $1::bigint AS clock, (SELECT json_agg(q) FROM (
    SELECT p.outbox_id, p.attempt_count, epoch_micros(p.next_attempt_at) - $1::bigint AS due, p.claimed_by, p.lease_token,
      epoch_micros(p.lease_expires_at) - $1::bigint AS expires, epoch_micros(p.claimed_at) - $1::bigint AS claimed,
      p.dispatch_mark, p.outcome_unknown, p.expiry_streak,
      (p.late_outcome ->> 'state') || ' ' || COALESCE(p.late_outcome ->> 'rail_reference', 'null') AS late,
      p.hold_reason, p.blocked, p.block_unverified, last.attempt_no, epoch_micros(last.completed_at) - $1::bigint AS completed
    FROM payment_outbox_pending p
    LEFT JOIN LATERAL (
      SELECT a.attempt_no, a.completed_at FROM payment_outbox_attempts a
      WHERE a.outbox_id = p.outbox_id ORDER BY a.attempt_no DESC LIMIT 1
    ) last ON true) q) AS queue`

const WRITE = `
  UPDATE payment_outbox_pending p
  SET next_attempt_at = 'epoch'::timestamptz + moved.due * interval '1 microsecond',
    lease_expires_at = 'epoch'::timestamptz + moved.expires * interval '1 microsecond'
  FROM unnest($1::uuid[], $2::bigint[], $3::bigint[]) AS moved(outbox_id, due, expires)
  WHERE p.outbox_id = moved.outbox_id`
