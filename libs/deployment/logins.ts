import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto'
import { InvalidArgumentError, requireKnownOptions } from '../core/index.js'
import { ALL_ROLES, API_ROLES, isRuntimeRole, RUNTIME_ROLES, type RuntimeRole } from './roles.js'

export interface LoginRequest {
  readonly name: string
  /**
   * Roles of the login. `ingest` alone makes a login for an application: it inherits the role's rights, because it
   * enqueues in its own transactions. Other roles make a login for a process of Symphony or a person: it inherits
   * nothing and switches roles.
   */
  readonly roles: readonly RuntimeRole[]
  /**
   * People that the login may act for. `keys`: owners of API keys, which the database verifies. `names`: also any
   * person that the login names.
   * @default only itself
   */
  readonly gateway?: 'keys' | 'names'
  /** Password, in printable ASCII. @default generated, and returned once */
  readonly password?: string
}

/** Parses `app=ingest`, `relayer=executor`, `ops=control+readonly`, `web=api` or `web=api+names`. */
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

/** Word of `--create-login` for all roles of the HTTP API and the right to act for owners of API keys. */
const API = 'api'
/** Word beside `api` for the right to act for people without an API key, whom the database cannot verify. */
const NAMES = 'names'

/** Login, as the statements of a deployment need it. */
export interface LoginStatement {
  readonly name: string
  readonly roles: readonly string[]
  /** True if the login has the rights of its roles without SET ROLE. */
  readonly inherits: boolean
  /** People that the login may act for, besides itself. */
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

/** PostgreSQL's default number of iterations. More would slow down every login. */
const ITERATIONS = 4096
const SALT_BYTES = 16

/**
 * Returns the verifier that PostgreSQL stores for a password. The deployment sends the verifier, so that logs and
 * statistics of the server never contain the password. Accepts printable ASCII only, because other text would need
 * normalisation (RFC 4013).
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
