import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto'
import { InvalidArgumentError, requireKnownOptions } from '../core/index.js'
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
    .flatMap((word) => (word === API ? API_ROLES : [parseRuntimeRole(word)]))
  return { name, roles: [...new Set(roles)], ...(isApi ? { gateway: namesPeople ? 'names' : 'keys' } : {}) }
}

/** Every role of the HTTP API, and the right to act for owners of API keys. */
const API = 'api'
/** Beside `api`: the right to name people without an API key. The database cannot verify those names. */
const NAMES = 'names'

/** A login as the statements of a deployment need it. */
export interface LoginStatement {
  readonly name: string
  readonly roles: readonly string[]
  /** Whether the login has the rights of its roles without SET ROLE. */
  readonly inherits: boolean
  /** People that the login may act for, beside itself. */
  readonly gateway: 'keys' | 'names' | undefined
}

export function loginStatement({ name, roles, gateway }: LoginRequest): LoginStatement {
  return {
    name,
    roles: roles.map((role) => RUNTIME_ROLES[role]),
    inherits: roles.length === 1 && roles[0] === 'ingest',
    gateway,
  }
}

export function checkLoginRequest(request: LoginRequest): LoginRequest {
  requireKnownOptions(request, ['name', 'roles', 'gateway', 'password'], 'createLogins.')
  const { name, roles, password } = request
  if (typeof name !== 'string' || name.trim() === '' || Buffer.byteLength(name) > 63) {
    throw new InvalidArgumentError('createLogins', 'expected a login as { name, roles }, with a name of 1 to 63 bytes')
  }
  if (ALL_ROLES.includes(name) || name.startsWith('pg_')) {
    throw new InvalidArgumentError('createLogins', `expected the name of a login, got the role ${name}`)
  }
  if (!Array.isArray(roles) || roles.length === 0 || !roles.every(isRuntimeRole)) {
    const known = Object.keys(RUNTIME_ROLES).join(', ')
    throw new InvalidArgumentError('createLogins', `expected { name, roles } with roles of ${known} for ${name}`)
  }
  if (password !== undefined && !/^[ -~]{8,128}$/.test(password)) {
    throw new InvalidArgumentError('password', 'expected 8 to 128 printable ASCII characters')
  }
  return request
}

function parseRuntimeRole(word: string): RuntimeRole {
  if (isRuntimeRole(word)) return word
  const known = [...Object.keys(RUNTIME_ROLES), API, `${API}+${NAMES}`].join(', ')
  throw new InvalidArgumentError(
    '--create-login',
    `expected NAME=ROLE with roles of ${known} joined by +, got "${word}"`,
  )
}

/** PostgreSQL's own default. More would be paid at every login. */
const ITERATIONS = 4096
const SALT_BYTES = 16

/**
 * What PostgreSQL stores for a password. Sent in its place, so that a server which logs statements, or keeps them in
 * its statistics, never sees the password itself. For printable ASCII only: anything else would have to be normalised
 * first (RFC 4013).
 */
export function scramVerifier(
  password: string,
  salt: Buffer = randomBytes(SALT_BYTES),
  iterations = ITERATIONS,
): string {
  const salted = pbkdf2Sync(password, salt, iterations, 32, 'sha256')
  const storedKey = createHash('sha256').update(hmac(salted, 'Client Key')).digest('base64')
  const serverKey = hmac(salted, 'Server Key').toString('base64')
  return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${storedKey}:${serverKey}`
}

function hmac(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest()
}
