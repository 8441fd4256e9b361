import { AppError, nearestSpelling, requiredId } from '../../core/index.js'
import { qualify, type Queryable } from '../../db/index.js'
import type { PauseKind } from '../types.js'

/** A name that the database does not know: no declared rail, no waiting item, no participant. */
export class UnknownNameError extends AppError {
  /** The known name that was probably meant. */
  readonly nearest: string | undefined

  constructor(kind: PauseKind, name: string, nearest: string | undefined) {
    const noun = kind === 'rail' ? 'rail' : 'participant'
    const meant = nearest === undefined ? '' : ` Did you mean ${nearest}?`
    super('UNKNOWN_NAME', `The database knows no ${noun} ${name}, so that pausing it would stop nothing.${meant}`, {
      remedy: `Give the ${noun} exactly as its payments name it, or force the pause of a ${noun} that is still to come.`,
    })
    this.nearest = nearest
  }
}

/** Rails that a process declared, that items wait for or that are paused, by name. As symphony_control or symphony_readonly. */
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

/** Throws `UnknownNameError` unless the database knows what is to be paused. As symphony_control. */
export async function requireKnownName(role: Queryable, kind: PauseKind, name: string): Promise<void> {
  requiredId('name', name)
  if (kind === 'all') return
  const known = kind === 'rail' ? await readKnownRails(role) : await readParticipantsLike(role, name)
  if (!known.includes(name)) throw new UnknownNameError(kind, name, nearestSpelling(name, known))
}

/** The participant itself, or those whose names are about as long: among them is one that was misspelt. */
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
