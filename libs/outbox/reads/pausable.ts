import { SymphonyError, nearestSpelling, requiredId } from '../../core/index.js'
import { minUuidV7At, qualify, type Queryable } from '../../db/index.js'
import type { PauseKind } from '../types.js'
import { STRETCH, type ItemSearch } from './search.js'

/** Error for an unknown name: no declared rail, waiting item or participant has it. */
export class UnknownNameError extends SymphonyError {
  /** Most similar known name; undefined if no known name is similar. */
  readonly nearest: string | undefined

  constructor(kind: PauseKind, name: string, nearest: string | undefined, use: NameUse = 'pause') {
    const noun = kind === 'rail' ? 'rail' : 'participant'
    const meant = nearest === undefined ? '' : ` Did you mean ${nearest}?`
    const force = use === 'filter' ? '' : `, or force the pause of a ${noun} that does not exist yet`
    super('UNKNOWN_NAME', `${faultOf(use, noun, name)}${meant}`, {
      remedy: `Give the ${noun} exactly as its payments name it${force}.`,
    })
    this.nearest = nearest
  }
}

/** Purpose of the name: a pause, a pause of an undeclared rail with waiting items, or a search for items. */
type NameUse = 'pause' | 'pauseOfWaiting' | 'filter'

function faultOf(use: NameUse, noun: 'rail' | 'participant', name: string): string {
  if (use === 'pauseOfWaiting') return `No process has declared the rail ${name}, although items wait for it.`
  if (use === 'pause') return `The database knows no ${noun} ${name}, so the pause would stop nothing.`
  return noun === 'rail'
    ? `The database knows no rail ${name}: no process declared it, and no waiting or recently failed payment names it.`
    : `The database knows no participant ${name}: no item was enqueued for it.`
}

/**
 * Returns the declared rails, the rails of waiting items and the paused rails, by name. As symphony_control or
 * symphony_readonly.
 */
export async function readKnownRails(role: Queryable): Promise<string[]> {
  const { rows } = await role.query<{ name: string }>(
    `SELECT known.name FROM (
       SELECT rail_type AS name FROM ${qualify(role, 'outbox_rails')}
       UNION SELECT rail_type FROM ${qualify(role, 'payment_outbox_pending')}
       UNION SELECT name FROM ${qualify(role, 'outbox_pauses')} WHERE kind = 'rail'
     ) known ORDER BY known.name COLLATE "C" LIMIT 10000`,
  )
  return rows.map(({ name }) => name)
}

/** Throws `UnknownNameError` unless the database knows the name to pause. As symphony_control. */
export async function requireKnownName(role: Queryable, kind: PauseKind, name: string): Promise<void> {
  requiredId('name', name)
  if (kind === 'all') return
  if (kind === 'rail') return requireKnownRail(role, name)
  const known = await readParticipantsLike(role, name)
  if (!known.includes(name)) throw new UnknownNameError(kind, name, nearestSpelling(name, known))
}

/**
 * Throws `UnknownNameError` for an undeclared rail, unless items wait for it and no declared name is similar. Waiting
 * items alone prove nothing: a process without rails also enqueues items for a misspelt rail.
 */
async function requireKnownRail(role: Queryable, name: string): Promise<void> {
  const { rows } = await role.query<{ name: string }>(
    `SELECT rail_type AS name FROM ${qualify(role, 'outbox_rails')} LIMIT 10000`,
  )
  const declared = rows.map((row) => row.name)
  if (declared.includes(name)) return
  const known = await readKnownRails(role)
  const nearest = nearestSpelling(name, declared) ?? nearestSpelling(name, known)
  const itemsWait = known.includes(name)
  if (!itemsWait || nearest !== name)
    throw new UnknownNameError('rail', name, nearest, itemsWait ? 'pauseOfWaiting' : 'pause')
}

export interface SkippedHead {
  readonly outboxId: string
  readonly instructionId: string
  /** Number of ordered items of the stream that wait. */
  readonly waiting: number
}

/**
 * Returns the first payment that halted a stream, or failed after that, and was not redriven. A resume of the stream
 * skips this payment. A stream that was paused already keeps the reason of that pause when a payment fails. As
 * symphony_control.
 */
export async function readSkippedHead(role: Queryable, participantId: string): Promise<SkippedHead | undefined> {
  const identities = qualify(role, 'payment_outbox_identities')
  const { rows } = await role.query<SkippedHead>(
    // Failed attempts are read by their ids, which are UUIDs of version 7 made when the attempt ends. The hour allows for
    // a clock that was set back. `attempt_no >= 1` is always true; it lets the planner use the index of failed attempts.
    `WITH failed AS (
       SELECT i.outbox_id, i.instruction_id, i.sequence_id, a.completed_at, z.reason, z.paused_at
       FROM ${qualify(role, 'outbox_pauses')} z
       JOIN ${qualify(role, 'payment_outbox_attempts')} a ON a.participant_id = z.name AND a.state = 'FAILED'
         AND a.attempt_no >= 1 AND a.action <> 'cancelled'
         AND a.attempt_id >= ${minUuidV7At(`z.paused_at - interval '1 hour'`)}
       JOIN ${identities} i ON i.outbox_id = a.outbox_id AND i.ordered
       WHERE z.kind = 'stream' AND z.name = $1 AND (z.reason = 'ORDERED_HEAD_FAILED' OR EXISTS (
         SELECT 1 FROM ${qualify(role, 'participant_outbox_policies')} y
         WHERE y.participant_id = z.name AND y.on_ordered_failure = 'halt'))
     )
     SELECT f.outbox_id AS "outboxId", f.instruction_id AS "instructionId",
       (SELECT count(*) FROM ${qualify(role, 'payment_outbox_pending')} p WHERE p.participant_id = $1 AND p.ordered)::int AS waiting
     FROM failed f
     WHERE f.completed_at >= CASE f.reason
         WHEN 'ORDERED_HEAD_FAILED' THEN (SELECT max(h.completed_at) FROM failed h WHERE h.completed_at <= h.paused_at)
         ELSE f.paused_at
       END
       AND NOT EXISTS (SELECT 1 FROM ${identities} r WHERE r.redrive_of = f.outbox_id)
     ORDER BY f.sequence_id LIMIT 1`,
    [requiredId('participantId', participantId)],
  )
  return rows[0]
}

/**
 * Explains a search without results: throws `UnknownNameError` if the database does not know its rail or one of its
 * participants. Rails of the latest failed items count as known. As symphony_control.
 */
export async function requireKnownSearch(
  role: Queryable,
  { railType, participants = [] }: Pick<ItemSearch, 'railType' | 'participants'>,
): Promise<void> {
  if (railType !== undefined) {
    const known = [...(await readKnownRails(role)), ...(await readFailedRails(role))]
    if (!known.includes(railType))
      throw new UnknownNameError('rail', railType, nearestSpelling(railType, known), 'filter')
  }
  for (const participant of participants) {
    const known = await readParticipantsLike(role, participant)
    if (!known.includes(participant))
      throw new UnknownNameError('participant', participant, nearestSpelling(participant, known), 'filter')
  }
}

/** Returns the rails of the latest failed items, from as many rows as one page of a search scans. */
async function readFailedRails(role: Queryable): Promise<string[]> {
  // `attempt_no >= 1` is always true; it lets the planner use the index of failed attempts.
  const { rows } = await role.query<{ name: string }>(
    `SELECT DISTINCT failed.rail_type AS name FROM (
       SELECT a.rail_type FROM ${qualify(role, 'payment_outbox_attempts')} a
       WHERE a.state = 'FAILED' AND a.attempt_no >= 1 ORDER BY a.attempt_id DESC LIMIT ${STRETCH}
     ) failed`,
  )
  return rows.map(({ name }) => name)
}

/**
 * Returns only the participant if it exists, else participants with names of similar length, to find a misspelt name.
 */
async function readParticipantsLike(role: Queryable, name: string): Promise<string[]> {
  const table = qualify(role, 'participant_outbox_sequences')
  const exact = await role.query<{ name: string }>(
    `SELECT participant_id AS name FROM ${table} WHERE participant_id = $1`,
    [name],
  )
  if (exact.rows.length > 0) return [name]
  const { rows } = await role.query<{ name: string }>(
    `SELECT participant_id AS name FROM ${table}
     WHERE length(participant_id) BETWEEN length($1) - 2 AND length($1) + 2 LIMIT 10000`,
    [name],
  )
  return rows.map((row) => row.name)
}
