import { requiredText } from '../core/index.js'
import type { RoleHandle } from './Database.js'
import type { Queryable } from './Queryable.js'

/** The person on whose behalf a gateway acts: the owner of an API key, or a person whom only the gateway has authenticated. */
export type Actor =
  | { readonly apiKey: { readonly keyId: string; readonly secretHash: Buffer } }
  | { readonly person: string }

/**
 * Returns the role acting for a person. Each statement is a transaction of its own that first presents the person. The database
 * verifies an API key itself. It takes a mere name only from a login in `naming_gateways`, and records that login beside it.
 */
export function actingFor(role: RoleHandle, actor: Actor): Queryable & { readonly schema: string } {
  const [setting, value] =
    'apiKey' in actor
      ? ['symphony.api_key', `${actor.apiKey.keyId}:${actor.apiKey.secretHash.toString('hex')}`]
      : ['symphony.actor', requiredText('person', actor.person, PERSON_LENGTH_MAX)]
  return {
    schema: role.schema,
    query: (text, values) =>
      role.transaction(async (tx) => {
        // Bound, never part of the statement's text: statements are shown in pg_stat_activity and in logs.
        await tx.query('SELECT pg_catalog.set_config($1, $2, true)', [setting, value])
        return tx.query(text, values)
      }),
  }
}

const PERSON_LENGTH_MAX = 200
