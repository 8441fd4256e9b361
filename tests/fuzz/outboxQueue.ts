import type { Queryable } from '../../libs/db/index.js'
import { fieldDifferences } from './answers.js'
import { type OutboxModel } from './outboxModel.js'
import { type Item } from './outboxRules.js'
import { at, SOON, timeDifference, type Timeline } from './Timeline.js'

/** Compares the queue in the database with the model after every step, including refused steps. */

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
  readonly #timeline: Timeline
  readonly #model: OutboxModel
  readonly #nameOf: (uuid: string) => string
  readonly #ids = new Map<string, string>()
  /** Items that the database shows as blocked, although the next claim must still verify the block. */
  #unverified: ReadonlySet<string> = new Set()

  constructor(superuser: Queryable, timeline: Timeline, model: OutboxModel, nameOf: (uuid: string) => string) {
    this.#superuser = superuser
    this.#timeline = timeline
    this.#model = model
    this.#nameOf = nameOf
  }

  get unverified(): ReadonlySet<string> {
    return this.#unverified
  }

  /**
   * Returns differences between queue and model. If there are none, makes each time in the model exact and equal to the
   * stored one.
   */
  async compare(): Promise<string[]> {
    const { rows } = await this.#superuser.query<{ clock: bigint; queue: QueueRow[] | null }>(READ, [
      this.#timeline.start,
    ])
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
    await this.#postpone(expected)
    return []
  }

  #compareRow(item: Item, row: QueueRow, clock: number): string[] {
    const { lease, late } = item
    const blocked = this.#model.isBlocked(item)
    const known = { attempt: row.completed, claim: row.claimed, call: [this.#model.clock, clock] } as const
    const differences = [
      ...fieldDifferences(item.name, {
        attempt_count: [this.#model.countOf(item), row.attempt_count],
        'last attempt': [item.attempts.length, row.attempt_no ?? 0],
        lease: [lease && `${lease.token} of ${lease.worker} ${lease.mark}`, this.#leaseOf(row)],
        outcome_unknown: [item.unknown, row.outcome_unknown],
        expiry_streak: [item.streak, row.expiry_streak],
        late_outcome: [late && `${late.state} ${late.reference}`, row.late],
        hold_reason: [item.hold, row.hold_reason],
        // The database may still show an item as blocked after a concurrent commit unblocked it. The next claim
        // corrects that.
        blocked: [blocked || (row.blocked && row.block_unverified), row.blocked],
      }),
      ...timeDifference(`${item.name}: due`, item.due, row.due, known),
      ...(lease === null ? [] : timeDifference(`${item.name}: leased until`, lease.expires, row.expires, known)),
    ]
    if (differences.length > 0) return differences
    if (lease !== null) lease.expires = row.expires!
    if (typeof item.due === 'number' || item.due.since !== 'attempt' || item.due.max === 0 || item.due.max >= SOON)
      item.due = row.due
    return []
  }

  #leaseOf(row: QueueRow): string | null {
    return row.lease_token && `${this.#nameOf(row.lease_token)} of ${row.claimed_by} ${row.dispatch_mark}`
  }

  /** Moves due times that PostgreSQL computed into the far future, so that none comes due during the sequence. */
  async #postpone(items: readonly Item[]): Promise<void> {
    const soon = items.filter((item) => typeof item.due !== 'number')
    for (const item of soon) item.due = this.#timeline.future()
    await this.write(soon)
  }

  /** Writes the times of these items from the model into the database. */
  async write(items: readonly Item[]): Promise<void> {
    if (items.length === 0) return
    await this.#superuser.query(WRITE, [
      items.map((item) => this.#ids.get(item.name)),
      items.map((item) => this.#timeline.start + at(item.due)),
      items.map((item) => item.lease && this.#timeline.start + at(item.lease.expires)),
    ])
  }
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
