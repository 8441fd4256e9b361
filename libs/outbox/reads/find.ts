import { boundedInteger, requiredText } from '../../core/index.js'
import { minUuidV7At, qualify, type Queryable } from '../../db/index.js'
import { PAGE, STRETCH } from './search.js'

interface FindOptions {
  /** Participants whose items are searched. @default all */
  readonly participants?: readonly string[]
  /** Key scope in which the word may be an idempotency key of an item that is not projected yet. @default none */
  readonly keyScope?: string
  readonly limit: number
}

/**
 * Finds the newest items by one word: an instruction, a participant, the rail's reference, an idempotency key of
 * `keyScope`, or the beginning of an outbox id. Finds projected items also by the beginning of an instruction, a key or
 * a reference, from three characters on. Each of these searches uses an index.
 */
export async function findItems(
  role: Queryable,
  word: string,
  { participants, keyScope, limit }: FindOptions,
): Promise<readonly string[]> {
  const identities = `SELECT i.outbox_id AS id, i.outbox_id AS place, i.participant_id
    FROM ${qualify(role, 'payment_outbox_identities')} i`
  const { rows } = await role.query<{ id: string }>(
    `SELECT DISTINCT f.id FROM (
       ${theirs(`${identities} WHERE i.instruction_id = $1 ORDER BY i.outbox_id DESC`)}
       UNION ALL
       ${theirs(`${identities} WHERE i.key_scope = $6 AND i.idempotency_key = $1`)}
       UNION ALL
       ${theirs(
         `SELECT i.outbox_id AS id, i.sequence_id AS place, i.participant_id
          FROM ${qualify(role, 'payment_outbox_identities')} i
          WHERE i.participant_id = $1 ORDER BY i.sequence_id DESC`,
       )}
       UNION ALL
       ${theirs(
         `SELECT a.outbox_id AS id, a.attempt_id AS place, a.participant_id
          FROM ${qualify(role, 'payment_outbox_attempts')} a
          WHERE a.rail_reference = $1 ORDER BY a.attempt_id DESC`,
       )}
       UNION ALL
       ${theirs(`${identities} WHERE i.outbox_id BETWEEN $4::uuid AND $5::uuid ORDER BY i.outbox_id DESC`)}
       ${['instruction_id', 'idempotency_key', 'rail_reference'].map((column) => `UNION ALL ${theirs(beginning(role, column), BEGINNING_MAX)}`).join('\n')}
     ) f ORDER BY f.id DESC LIMIT $3`,
    [
      requiredText('word', word, WORD_LENGTH_MAX),
      participants ?? null,
      boundedInteger('limit', limit, PAGE),
      ...uuidRange(word),
      keyScope ?? null,
      ...(word.length < PREFIX_LENGTH_MIN ? [null, null] : [word, `${word}\u{10FFFF}`]),
    ],
  )
  return rows.map(({ id }) => id)
}

/**
 * Returns SQL for the projected items whose column begins with $7. The columns sort by bytes, and $8 is $7 followed by
 * the greatest character.
 */
function beginning(role: Queryable, column: string): string {
  return `SELECT s.outbox_id AS id, s.outbox_id AS place, s.participant_id FROM ${qualify(role, 'payment_search')} s
    WHERE s.${column} >= $7::text AND s.${column} < $8::text ORDER BY s.${column}`
}

/**
 * Limits a scan to `stretch` rows, then to these participants ($2) and one page ($3). The participant filter applies
 * before the page is cut; otherwise items of other participants would fill the page of a restricted key.
 */
function theirs(scan: string, stretch = STRETCH): string {
  return `(SELECT s.id FROM (${scan} LIMIT ${stretch}) s
    WHERE $2::text[] IS NULL OR s.participant_id = ANY ($2) ORDER BY s.place DESC LIMIT $3)`
}

/**
 * Returns the range of ids with this beginning, or nulls if the word cannot begin an id. Requires at least eight
 * digits.
 */
function uuidRange(word: string): readonly [string | null, string | null] {
  const digits = word.toLowerCase().replaceAll('-', '')
  if (!/^[0-9a-f]{8,32}$/.test(digits)) return [null, null]
  return [digits.padEnd(32, '0'), digits.padEnd(32, 'f')]
}

/** Returns the items that changed within the last `seconds`, newest item first. */
export async function readRecentlyChanged(
  role: Queryable,
  {
    seconds,
    participants,
    limit,
  }: { readonly seconds: number; readonly participants?: readonly string[]; readonly limit: number },
): Promise<readonly string[]> {
  const since = `statement_timestamp() - make_interval(secs => $1::integer)`
  const first = minUuidV7At(since)
  const identities = qualify(role, 'payment_outbox_identities')
  const { rows } = await role.query<{ id: string }>(
    `SELECT DISTINCT c.id FROM (
       ${theirs(
         `SELECT i.outbox_id AS id, i.outbox_id AS place, i.participant_id FROM ${identities} i
          WHERE i.outbox_id >= ${first} ORDER BY i.outbox_id DESC`,
       )}
       UNION ALL
       ${theirs(
         `SELECT a.outbox_id AS id, a.attempt_id AS place, a.participant_id
          FROM ${qualify(role, 'payment_outbox_attempts')} a
          WHERE a.attempt_id >= ${first} ORDER BY a.attempt_id DESC`,
       )}
       UNION ALL
       ${theirs(
         `SELECT e.outbox_id AS id, e.event_id AS place,
            (SELECT i.participant_id FROM ${identities} i WHERE i.outbox_id = e.outbox_id) AS participant_id
          FROM ${qualify(role, 'payment_outbox_events')} e
          WHERE e.event_id >= ${first} AND e.outbox_id IS NOT NULL ORDER BY e.event_id DESC`,
       )}
       UNION ALL
       ${theirs(
         `SELECT p.outbox_id AS id, p.claimed_at AS place, p.participant_id
          FROM ${qualify(role, 'payment_outbox_pending')} p
          WHERE p.lease_expires_at IS NOT NULL AND p.claimed_at >= ${since} ORDER BY p.claimed_at DESC`,
       )}
     ) c ORDER BY c.id DESC LIMIT $3`,
    [boundedInteger('seconds', seconds, RECENT_SECONDS), participants ?? null, boundedInteger('limit', limit, PAGE)],
  )
  return rows.map(({ id }) => id)
}

const RECENT_SECONDS = Object.freeze({ min: 1, max: 3_600 })
const WORD_LENGTH_MAX = 255
/** Minimum length of a beginning. A shorter one would match too many items. */
const PREFIX_LENGTH_MIN = 3
/** Maximum number of items that a search by beginning reads. It returns the newest of them. */
const BEGINNING_MAX = 5_000
