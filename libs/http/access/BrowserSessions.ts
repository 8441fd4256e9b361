import type { FastifyRequest } from 'fastify'
import {
  authenticateBrowserSession,
  createBrowserSession,
  endBrowserSession,
  newApiKey,
  parseApiKey,
  type ApiKeyParts,
  type KnownBrowserSession,
} from '../../access/index.js'
import type { Clock } from '../../core/index.js'
import { ProblemError } from '../Problem.js'
import { CredentialCache } from './CredentialCache.js'
import type { Identity } from './Identity.js'
import { keyScopeOf, type OidcOptions, type SignInOptions } from './oidcOptions.js'

type Role = Parameters<typeof authenticateBrowserSession>[0]

/** Parts of a request that identify its session and its origin. */
export type CookieRequest = Pick<FastifyRequest, 'headers' | 'method'>

/**
 * Sessions of people who signed in to the dashboard. The cookie contains a random id and secret. The database stores
 * person and scopes, so every server with the same database login accepts the session, and an operator can revoke it.
 */
export class BrowserSessions {
  readonly #auth: Role
  readonly #issuer: string
  readonly #options: SignInOptions
  readonly #known: CredentialCache<KnownBrowserSession | undefined>

  constructor(auth: Role, issuer: OidcOptions['issuer'], options: SignInOptions, clock?: Clock) {
    this.#auth = auth
    this.#issuer = issuer
    this.#options = options
    this.#known = new CredentialCache((parts) => authenticateBrowserSession(auth, parts), clock)
  }

  /** Returns the identity of the cookie; undefined without one. Throws SESSION_ENDED or CROSS_SITE_REQUEST. */
  async identify(request: CookieRequest): Promise<Identity | undefined> {
    const shown = cookieOf(request, SESSION_COOKIE)
    if (shown === undefined) return undefined
    this.requireSameOrigin(request)
    const parts = parseApiKey(shown)
    const session = parts === undefined ? undefined : await this.#known.read(parts)
    if (session?.status !== 'ACTIVE' || parts === undefined) throw new ProblemError('SESSION_ENDED')
    const { owner, scopes, participants, issuer, expiresAt } = session
    const keyScope = keyScopeOf(issuer, owner)
    return { via: 'session', owner, keyScope, scopes, participants, apiKey: null, session: parts, expiresAt }
  }

  /**
   * Creates a session and returns its identity and its cookie. Ends the session that the browser had before. The id is
   * always new, so that a cookie planted in the browser cannot become a session.
   */
  async create(request: CookieRequest, person: Omit<Identity, 'via'>): Promise<{ identity: Identity; cookie: string }> {
    const before = parseApiKey(cookieOf(request, SESSION_COOKIE) ?? '')
    const { keyId, secretHash, key } = newApiKey()
    const { sessionSeconds: seconds } = this.#options
    const expiresAt = await createBrowserSession(
      this.#auth,
      { keyId, secretHash },
      { ...person, issuer: this.#issuer, seconds },
    )
    if (before !== undefined) await this.end(before)
    return {
      identity: { ...person, via: 'session', session: { keyId, secretHash }, expiresAt },
      cookie: setCookie(SESSION_COOKIE, key, seconds),
    }
  }

  async end(session: ApiKeyParts): Promise<void> {
    await endBrowserSession(this.#auth, session)
    this.#known.remove(session)
  }

  /**
   * Refuses a request that another site may have caused. From another site, a browser does not let a script set
   * `symphony-csrf`, Origin or Sec-Fetch-Site. Browsers omit Origin in a GET of the same origin. Programs without a
   * browser send a key instead of a cookie.
   */
  requireSameOrigin({ headers, method }: CookieRequest): void {
    const { publicUrl } = this.#options
    const site = headers['sec-fetch-site'] ?? 'same-origin'
    const isRead = method === 'GET' || method === 'HEAD'
    const origin = headers.origin ?? (isRead ? new URL(publicUrl).origin : undefined)
    if (headers[CSRF_HEADER] === '1' && site === 'same-origin' && origin === new URL(publicUrl).origin) return
    throw new ProblemError('CROSS_SITE_REQUEST', `Open the dashboard at ${publicUrl}`)
  }
}

const CSRF_HEADER = 'symphony-csrf'
/**
 * Name of the session cookie. The prefix `__Host-` makes browsers accept it only from this host, with Secure and
 * Path=/.
 */
const SESSION_COOKIE = '__Host-symphony-session'
/** Name of the cookie with state, nonce and PKCE verifier of a started sign-in. */
export const SIGN_IN_COOKIE = '__Host-symphony-sign-in'

/** Returns the value of a cookie; undefined if it is missing or was sent twice. */
export function cookieOf({ headers }: CookieRequest, name: string): string | undefined {
  const found = (headers.cookie ?? '').split('; ').filter((pair) => pair.startsWith(`${name}=`))
  return found.length === 1 ? found[0]?.slice(name.length + 1) : undefined
}

/**
 * Returns the value of Set-Cookie. With `SameSite=Strict`, the browser sends no cookie with the provider's redirect.
 * The page at the end of the redirect needs none: its script sends the cookie with its own requests.
 */
export function setCookie(name: string, value: string, seconds: number): string {
  return `${name}=${value}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=${seconds}`
}

/** Values of Set-Cookie that delete the sign-in cookie and the session cookie. */
export const REMOVED_SIGN_IN = setCookie(SIGN_IN_COOKIE, '', 0)
export const REMOVED_SESSION = setCookie(SESSION_COOKIE, '', 0)
