import { InvalidArgumentError } from '../core/index.js'
import type { LoginStatement } from './db.js'
import { ALL_ROLES, API_ROLES, isRuntimeRole, RUNTIME_ROLES, type RuntimeRole } from './roles.js'

/** A login to create, and what it is for. */
export interface LoginRequest {
  readonly name: string
  /**
   * `ingest` alone makes a login for an application: it has the role's rights at all times, because it enqueues in its
   * own transactions. Anything else makes a login for a process of Symphony or for a person: a member that inherits
   * nothing and switches role.
   */
  readonly roles: readonly RuntimeRole[]
  /**
   * For which people it acts: `keys`, the owners of API keys that it shows, which the database verifies; `names`, also people
   * whom it only names. @default itself alone
   */
  readonly gateway?: 'keys' | 'names'
  /** Printable ASCII. @default generated, and returned once */
  readonly password?: string
}

/** `app=ingest`, `relayer=executor`, `ops=control+readonly`, `web=api`, `web=api+names`. */
export function parseLoginRequest(text: string): LoginRequest {
  const [, name = '', words = ''] = /^(.*)=([^=]*)$/.exec(text) ?? []
  const list = words.split('+')
  const isApi = list.includes(API)
  const namesPeople = isApi && list.includes(NAMES)
  const roles = list
    .filter((word) => !(isApi && word === NAMES))
    .flatMap((word) => (word === API ? API_ROLES : [requiredRuntimeRole(word)]))
  return { name, roles: [...new Set(roles)], ...(isApi ? { gateway: namesPeople ? 'names' : 'keys' } : {}) }
}

/** Every role of the HTTP API, and the right to act for owners of API keys. */
const API = 'api'
/** Beside `api`: the right to name people without an API key. The database cannot verify those names. */
const NAMES = 'names'

export function loginStatement({ name, roles, gateway }: LoginRequest): LoginStatement {
  return {
    name,
    roles: roles.map((role) => RUNTIME_ROLES[role]),
    inherits: roles.length === 1 && roles[0] === 'ingest',
    gateway,
  }
}

export function checkLoginRequest(request: LoginRequest): LoginRequest {
  const { name, roles, password } = request
  if (typeof name !== 'string' || name.trim() === '' || Buffer.byteLength(name) > 63) {
    throw new InvalidArgumentError('createLogins', 'expected NAME=ROLE with a name of 1 to 63 bytes')
  }
  if (ALL_ROLES.includes(name) || name.startsWith('pg_')) {
    throw new InvalidArgumentError('createLogins', `expected the name of a login, got the role ${name}`)
  }
  if (roles.length === 0) throw new InvalidArgumentError('createLogins', `expected a role for ${name}, got none`)
  roles.forEach(requiredRuntimeRole)
  if (password !== undefined && !/^[ -~]{8,128}$/.test(password)) {
    throw new InvalidArgumentError('password', 'expected 8 to 128 printable ASCII characters')
  }
  return request
}

function requiredRuntimeRole(word: string): RuntimeRole {
  if (isRuntimeRole(word)) return word
  const known = [...Object.keys(RUNTIME_ROLES), API, `${API}+${NAMES}`].join(', ')
  throw new InvalidArgumentError('createLogins', `expected NAME=ROLE with roles of ${known} joined by +, got "${word}"`)
}
