import { requiredText } from '../core/index.js'
import type { RoleHandle } from './Database.js'
import type { Queryable } from './Queryable.js'

/**
 * The same role, acting for a person whom this process has authenticated. Each statement is a transaction of its own that
 * names the person first; the database believes it only of a login that its owner has listed as a gateway.
 */
export function actingFor(role: RoleHandle, person: string): Queryable & { readonly schema: string } {
  const actor = requiredText('person', person, PERSON_LENGTH_MAX)
  return {
    schema: role.schema,
    query: (text, values) =>
      role.transaction(async (tx) => {
        await tx.query(`SELECT pg_catalog.set_config('symphony.actor', $1, true)`, [actor])
        return tx.query(text, values)
      }),
  }
}

const PERSON_LENGTH_MAX = 200
