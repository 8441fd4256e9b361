import { createHash, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type Server } from 'node:http'
import { text } from 'node:stream/consumers'
import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT } from 'jose'
import { portOf } from './portOf.js'

export const CLIENT = { id: 'symphony-dashboard', secret: 'secret-of-the-dashboard' }

type Key = Awaited<ReturnType<typeof generateKeyPair>>['privateKey'] | Uint8Array

/** Changes of the token that the provider issues. */
export interface Forgery {
  readonly claims?: Readonly<Record<string, unknown>>
  readonly alg?: string
  readonly key?: Key
  /** Text in place of the token. */
  readonly token?: string
}

interface Code {
  readonly parameters: URLSearchParams
  readonly forgery: Forgery
}

/** An identity provider that signs in every person at once, and issues wrong tokens if a test wants them. */
export class ForgingProvider {
  readonly #codes = new Map<string, Code>()
  #server: Server | undefined
  #port = 0
  #key!: Key
  #jwks = ''
  /** HTTP status of the token endpoint. With any status except 200, it returns an error instead of a token. */
  tokenStatus = 200

  async open(): Promise<this> {
    const pair = await generateKeyPair('ES256', { extractable: true })
    this.#key = pair.privateKey
    this.#jwks = JSON.stringify({
      keys: [{ ...(await exportJWK(pair.publicKey)), kid: 'k1', alg: 'ES256', use: 'sig' }],
    })
    await this.start()
    return this
  }

  get issuer(): string {
    return `http://127.0.0.1:${this.#port}`
  }

  async start(): Promise<void> {
    const server = createServer((request, response) => {
      void this.#answer(request).then(({ status, body }) =>
        response.writeHead(status, { 'content-type': 'application/json' }).end(body),
      )
    })
    await new Promise<void>((resolve) => server.listen(this.#port, '127.0.0.1', resolve))
    this.#server = server
    this.#port = portOf(server)
  }

  async stop(): Promise<void> {
    this.#server?.closeAllConnections()
    await new Promise((resolve) => this.#server?.close(resolve))
  }

  /**
   * Signs in the person of `forgery.claims`, by default alice, as the page of the provider does. Returns the query of
   * the redirect.
   */
  approve(authorizationUrl: string, forgery: Forgery = {}): string {
    const { searchParams: parameters } = new URL(authorizationUrl)
    const code = randomUUID()
    this.#codes.set(code, { parameters, forgery })
    return new URLSearchParams({ code, state: parameters.get('state') ?? '', iss: this.issuer }).toString()
  }

  async #answer(request: IncomingMessage): Promise<{ readonly status: number; readonly body: string }> {
    if (request.url === '/jwks') return { status: 200, body: this.#jwks }
    if (request.url !== '/token') return { status: 200, body: JSON.stringify(this.#metadata()) }
    const form = new URLSearchParams(await text(request))
    if (this.tokenStatus !== 200) return { status: this.tokenStatus, body: '{"error":"invalid_client"}' }
    const code = this.#codes.get(form.get('code') ?? '')
    this.#codes.delete(form.get('code') ?? '')
    const challenge = createHash('sha256')
      .update(form.get('code_verifier') ?? '')
      .digest('base64url')
    const isSound =
      credentialsOf(request) === `${CLIENT.id}:${CLIENT.secret}` &&
      form.get('redirect_uri') === code?.parameters.get('redirect_uri') &&
      challenge === code?.parameters.get('code_challenge')
    if (code === undefined || !isSound) return { status: 400, body: '{"error":"invalid_grant"}' }
    const token = await this.#token(code)
    return { status: 200, body: JSON.stringify({ access_token: 'a', token_type: 'bearer', id_token: token }) }
  }

  async #token({ parameters, forgery }: Code): Promise<string> {
    const { claims = {}, alg = 'ES256', key = this.#key } = forgery
    const now = Math.floor(Date.now() / 1_000)
    const payload = {
      iss: this.issuer,
      aud: CLIENT.id,
      sub: 'alice',
      iat: now,
      exp: now + 300,
      nonce: parameters.get('nonce') ?? '',
      groups: ['payments.ops'],
      ...claims,
    }
    if (forgery.token !== undefined) return forgery.token
    if (alg === 'none') return new UnsecuredJWT(payload).encode()
    return new SignJWT(payload).setProtectedHeader({ alg, kid: 'k1' }).sign(key)
  }

  #metadata(): object {
    return {
      issuer: this.issuer,
      authorization_endpoint: `${this.issuer}/authorize`,
      token_endpoint: `${this.issuer}/token`,
      jwks_uri: `${this.issuer}/jwks`,
      end_session_endpoint: `${this.issuer}/end`,
      response_types_supported: ['code'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['ES256', 'HS256', 'none'],
      code_challenge_methods_supported: ['S256'],
      authorization_response_iss_parameter_supported: true,
    }
  }
}

/** Returns id and secret of the client. Both are encoded as in a form. */
function credentialsOf({ headers }: IncomingMessage): string {
  const [, basic = ''] = headers.authorization?.split(' ') ?? []
  return decodeURIComponent(Buffer.from(basic, 'base64').toString())
}
