import { createHash, timingSafeEqual } from 'node:crypto'
import { SCOPES } from '../../access/index.js'
import { ProblemError } from '../Problem.js'
import type { ApiKeyAuthenticator } from './ApiKeyAuthenticator.js'
import type { BrowserSessions, CookieRequest } from './BrowserSessions.js'
import type { Identity } from './Identity.js'
import type { OidcAuthenticator } from './OidcAuthenticator.js'

interface AuthenticatorOptions {
  /** Token with every scope, for the operator of the process; undefined if there is none. */
  readonly accessToken: string | undefined
  readonly accessTokenOwner: string
  readonly keys?: ApiKeyAuthenticator | undefined
  readonly oidc?: OidcAuthenticator | undefined
  readonly sessions?: BrowserSessions | undefined
}

/** Authenticates a request by the process's own token, an API key, a token of an identity provider, or a session. */
export class Authenticator {
  readonly #options: AuthenticatorOptions
  readonly #isAccessToken: (shown: string) => boolean

  constructor(options: AuthenticatorOptions) {
    this.#options = options
    this.#isAccessToken = createAccessTokenCheck(options.accessToken)
  }

  /** Reads the header Authorization, else the cookie. Throws UNAUTHENTICATED for an unknown caller. */
  async identify(request: CookieRequest): Promise<Identity> {
    const { authorization } = request.headers
    const session = authorization === undefined ? await this.#options.sessions?.identify(request) : undefined
    if (session !== undefined) return session
    const shown = /^Bearer +(\S+) *$/i.exec(authorization ?? '')?.[1]
    if (shown === undefined || shown.length > TOKEN_LENGTH_MAX) throw new ProblemError('UNAUTHENTICATED')
    if (this.#isAccessToken(shown)) return this.#local()
    const identity = (await this.#options.keys?.identify(shown)) ?? (await this.#options.oidc?.identify(shown))
    if (identity === undefined) throw new ProblemError('UNAUTHENTICATED')
    return identity
  }

  #local(): Identity {
    const owner = this.#options.accessTokenOwner
    return {
      via: 'token',
      owner,
      keyScope: `token:${owner}`,
      scopes: SCOPES,
      participants: null,
      apiKey: null,
      expiresAt: null,
    }
  }
}

/**
 * Maximum length of a token. Tokens of identity providers are shorter. The limit bounds the cost of hashing a token
 * that an unknown caller sends.
 */
const TOKEN_LENGTH_MAX = 8_192

/**
 * Returns a check of the access token. The duration of the check depends only on the length of the shown text, not on
 * its content.
 */
function createAccessTokenCheck(token: string | undefined): (shown: string) => boolean {
  if (token === undefined) return () => false
  const expected = digest(token)
  return (shown) => timingSafeEqual(digest(shown), expected)
}

/** Hashes the text, because the comparison needs equal lengths and must not reveal the length of the token. */
function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
