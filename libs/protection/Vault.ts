import { SymphonyError } from '../core/index.js'
import { openOrUse, type DatabaseOptions, type RoleSource } from '../db/index.js'
import {
  countSubjectKeys,
  destroySubjectKey,
  masterKeysInUse,
  readKeysToRewrap,
  rewrapSubjectKeys,
  type MasterKeyUse,
  type SubjectKeyCounts,
} from './db.js'
import { unwrapKey, wrapKey } from './envelope.js'
import { FieldKeyMissingError } from './errors.js'
import type { MasterKeys } from './MasterKeys.js'

export interface VaultStatus extends SubjectKeyCounts {
  /** Number of data keys per master key. A process needs all of these master keys. */
  readonly masterKeys: readonly MasterKeyUse[]
}

export interface RewrapResult {
  readonly masterKeyId: string
  readonly rewrapped: number
}

/** Manages the data keys of encrypted fields. The login needs `symphony_control`. */
export class Vault implements AsyncDisposable {
  readonly #database: ReturnType<typeof openOrUse>

  /** Opens no connection yet. A database that the caller opened stays open after `close()`. */
  constructor(database: DatabaseOptions | RoleSource) {
    this.#database = openOrUse(database)
  }

  async status(): Promise<VaultStatus> {
    return { ...(await countSubjectKeys(this.#control)), masterKeys: await masterKeysInUse(this.#control) }
  }

  /**
   * Wraps every data key under the current master key, 500 at a time. A repeated call continues after an interruption.
   * Neither encrypted fields nor the ledger change.
   */
  async rotate({ masterKeys }: { readonly masterKeys: MasterKeys }): Promise<RewrapResult> {
    const current = await masterKeys.current()
    let rewrapped = 0
    let after: string | undefined
    for (;;) {
      const keys = await readKeysToRewrap(this.#control, current.id, after, BATCH)
      after = keys.at(-1)?.keyId
      if (after === undefined) return { masterKeyId: current.id, rewrapped }
      for (const previousId of new Set(keys.map(({ masterKeyId }) => masterKeyId))) {
        if (previousId === null) continue
        const previous = await masterKeys.find(previousId)
        if (previous === undefined) {
          throw new FieldKeyMissingError(`Keys are wrapped under the master key ${previousId}, which is missing.`)
        }
        const group = keys
          .filter(({ masterKeyId }) => masterKeyId === previousId)
          .map(({ keyId, subject, wrappedKey }) => {
            const key = unwrapKey(previous, keyId, subject, wrappedKey ?? '')
            if (key === undefined) throw new FieldKeyMissingError(`The data key ${keyId} cannot be unwrapped.`)
            return { keyId, wrappedKey: wrapKey(current, key, subject) }
          })
        rewrapped += await rewrapSubjectKeys(this.#control, group, current.id, previousId)
      }
    }
  }

  /**
   * Destroys the data key of a subject for ever, so that no process can decrypt the subject's fields again. Returns
   * false if the key was already destroyed.
   */
  async shred({ subject, reason }: { readonly subject: string; readonly reason: string }): Promise<boolean> {
    const outcome = await destroySubjectKey(this.#control, subject, reason)
    if (outcome === 'UNKNOWN') {
      throw new SymphonyError('SUBJECT_UNKNOWN', `${subject} has no data key, so nothing was destroyed.`, {
        remedy: 'Check the spelling: expected the participant, or the value that the rail’s subject points at.',
      })
    }
    return outcome === 'DESTROYED'
  }

  close(): Promise<void> {
    return this.#database.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  get #control() {
    return this.#database.as('symphony_control')
  }
}

const BATCH = 500
