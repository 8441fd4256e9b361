import { authenticateApiKey, parseApiKey, type ApiKeyParts, type KnownApiKey } from '../../access/index.js'
import { systemClock, type Clock } from '../../core/index.js'
import { ProblemError } from '../Problem.js'
import type { Identity } from './Identity.js'

type Role = Parameters<typeof authenticateApiKey>[0]

interface Remembered {
  readonly key: Promise<KnownApiKey | undefined>
  readonly untilMs: number
}

/**
 * Keys as the database knows them, each remembered for a few seconds: a busy client costs one look now and then, and a
 * revocation bites that soon. It remembers a bounded number, known or not, by the hash of what was shown.
 */
export class KeyGate {
  readonly #auth: Role
  readonly #clock: Clock
  readonly #remembered = new Map<string, Remembered>()

  constructor(auth: Role, clock: Clock = systemClock) {
    this.#auth = auth
    this.#clock = clock
  }

  /** Undefined: it is no key of ours. Throws the problem of one that has ended. */
  async identify(shown: string): Promise<Identity | undefined> {
    const parts = parseApiKey(shown)
    const key = parts === undefined ? undefined : await this.#look(parts)
    if (parts === undefined || key === undefined) return undefined
    if (key.status === 'REVOKED') throw new ProblemError('KEY_REVOKED')
    if (key.status === 'EXPIRED') throw new ProblemError('KEY_EXPIRED')
    const { owner, scopes, participants, expiresAt } = key
    // Two spellings that differ in case are one owner, as in two-person decisions.
    const keyScope = `key:${owner.toLowerCase()}`
    return { via: 'key', owner, keyScope, scopes, participants, apiKey: parts, expiresAt }
  }

  #look(parts: ApiKeyParts): Promise<KnownApiKey | undefined> {
    const name = `${parts.keyId} ${parts.secretHash.toString('hex')}`
    const nowMs = this.#clock.monotonicMs()
    const remembered = this.#remembered.get(name)
    if (remembered !== undefined && remembered.untilMs > nowMs) return remembered.key
    const key = authenticateApiKey(this.#auth, parts)
    this.#remembered.delete(name)
    this.#remembered.set(name, { key, untilMs: nowMs + REMEMBERED_MS })
    // What could not be asked is not an answer.
    key.catch(() => this.#remembered.delete(name))
    this.#forget()
    return key
  }

  /** The oldest answers, beyond the bound. */
  #forget(): void {
    for (const name of this.#remembered.keys()) {
      if (this.#remembered.size <= REMEMBERED_MAX) return
      this.#remembered.delete(name)
    }
  }
}

const REMEMBERED_MS = 5_000
const REMEMBERED_MAX = 10_000
