import {
  ArgumentRangeError,
  InvalidArgumentError,
  requiredId,
  requiredText,
  requireKnownOptions,
  PERSON_LENGTH_MAX,
} from '../core/index.js'
import { openOrUse, type DatabaseOptions, type RoleSource } from '../db/index.js'
import { newApiKey } from './apiKey.js'
import { createApiKey, readApiKeys, revokeApiKey, SCOPES, type ApiKeyStatus, type Scope } from './db.js'

export interface ApiKeyRequest {
  readonly scopes: readonly Scope[]
  /** Person this key acts as. A different person must approve a two-person decision. */
  readonly owner: string
  /** Participants whose payments the key may read and enqueue. @default all */
  readonly participants?: readonly string[]
  /** Expiry. @default never */
  readonly expiresAt?: Date
}

export interface CreatedApiKey {
  readonly keyId: string
  /** Text of the key. It is not stored, so show it to its owner now. */
  readonly key: string
  readonly createdAt: Date
}

/** Creates, lists and revokes keys of the HTTP API. The login needs `symphony_control`. */
export class ApiKeys implements AsyncDisposable {
  readonly #database: ReturnType<typeof openOrUse>

  /** Opens no connection yet. A database that the caller opened stays open after `close()`. */
  constructor(database: DatabaseOptions | RoleSource) {
    this.#database = openOrUse(database)
  }

  /**
   * Creates a key: its secret in this process, and only the hash of the secret in the database. An administrator may
   * create any key. Any other login needs the role of each scope, and can create a key with `operate` only for itself.
   */
  async create(request: ApiKeyRequest): Promise<CreatedApiKey> {
    // A misspelt expiry or participant would create a key without that limit.
    requireKnownOptions(request, ['scopes', 'owner', 'participants', 'expiresAt'])
    const checked = {
      scopes: requiredScopes(request.scopes),
      owner: requiredOwner(request.owner),
      participants: participantsOf(request),
      expiresAt: expiryOf(request),
    }
    const { keyId, secretHash, key } = newApiKey()
    return { keyId, key, createdAt: await createApiKey(this.#control, { keyId, secretHash }, checked) }
  }

  /** Returns the newest 1000 keys, newest first, without secrets. */
  async list(): Promise<ApiKeyStatus[]> {
    return readApiKeys(this.#control)
  }

  /** Revokes a key permanently. Servers notice within five seconds. Returns false if it was already revoked. */
  async revoke({ keyId }: { readonly keyId: string }): Promise<boolean> {
    return revokeApiKey(this.#control, requiredId('keyId', keyId))
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

function requiredScopes(scopes: readonly Scope[]): readonly Scope[] {
  const known: readonly string[] = SCOPES
  const fits = Array.isArray(scopes) && scopes.length > 0 && scopes.every((scope) => known.includes(scope))
  if (!fits || new Set(scopes).size < scopes.length) {
    throw new InvalidArgumentError('scopes', `expected some of ${SCOPES.join(', ')}, each once`)
  }
  return scopes
}

/** Checks the owner. Refuses outer spaces, because a second spelling of a name would count as a second person. */
function requiredOwner(owner: string): string {
  if (requiredText('owner', owner, PERSON_LENGTH_MAX) !== owner.trim()) {
    throw new InvalidArgumentError('owner', 'expected a person without space at either end')
  }
  return owner
}

function participantsOf({ participants }: ApiKeyRequest): string[] | null {
  if (participants === undefined) return null
  if (!Array.isArray(participants) || participants.length === 0 || participants.length > PARTICIPANTS_MAX) {
    throw new ArgumentRangeError('participants', `expected 1 to ${PARTICIPANTS_MAX} participants`)
  }
  return participants.map((id, index) => requiredId(`participants[${index}]`, id))
}

function expiryOf({ expiresAt }: ApiKeyRequest): Date | null {
  if (expiresAt === undefined) return null
  if (expiresAt instanceof Date && !Number.isNaN(expiresAt.getTime())) return expiresAt
  throw new InvalidArgumentError('expiresAt', 'expected a valid Date')
}

const PARTICIPANTS_MAX = 100
