import type { Queryable } from '../db/index.js'
import { readKeysToRewrap, rewrapSubjectKeys } from './db.js'
import { unwrapKey, wrapKey } from './envelope.js'
import { FieldKeyMissingError } from './errors.js'
import type { MasterKeys } from './MasterKeys.js'

export interface RewrapResult {
  readonly masterKeyId: string
  readonly rewrapped: number
}

/**
 * Puts every data key under the current master key, some hundreds at a time; stopped half-way, it goes on where it was. What the
 * keys encrypt stays as it is, so no payment and no row of the ledger changes. As symphony_control.
 */
export async function rewrapKeys(role: Queryable, masters: MasterKeys): Promise<RewrapResult> {
  const current = await masters.current()
  let rewrapped = 0
  let after: string | undefined
  for (;;) {
    const keys = await readKeysToRewrap(role, current.id, after, BATCH)
    after = keys.at(-1)?.keyId
    if (after === undefined) return { masterKeyId: current.id, rewrapped }
    for (const previousId of new Set(keys.map(({ masterKeyId }) => masterKeyId))) {
      if (previousId === null) continue
      const previous = await masters.find(previousId)
      if (previous === undefined) {
        throw new FieldKeyMissingError(`Keys are wrapped under the master key ${previousId}, which is not there.`)
      }
      const group = keys
        .filter(({ masterKeyId }) => masterKeyId === previousId)
        .map(({ keyId, subject, wrappedKey }) => {
          const key = unwrapKey(previous, keyId, subject, wrappedKey ?? '')
          if (key === undefined) throw new FieldKeyMissingError(`The data key ${keyId} does not open.`)
          return { keyId, wrappedKey: wrapKey(current, key, subject) }
        })
      rewrapped += await rewrapSubjectKeys(role, group, current.id, previousId)
    }
  }
}

const BATCH = 500
