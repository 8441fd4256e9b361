import { createServer, type Server } from 'node:http'
import { Provider } from 'oidc-provider'
import { portOf } from './portOf.js'

export const CLIENT = { id: 'symphony-dashboard', secret: 'secret-of-the-dashboard' }

/** A certified identity provider with its own pages. Every name signs in; the group of a person grants the scopes. */
export class IdentityProviderFixture {
  readonly issuer: string
  readonly #server: Server

  private constructor(server: Server) {
    this.#server = server
    // Uses another host than the dashboard, so that the redirect comes from another site.
    this.issuer = `http://localhost:${portOf(server)}`
  }

  static async start(publicUrl: string): Promise<IdentityProviderFixture> {
    const server = createServer()
    await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve))
    const fixture = new IdentityProviderFixture(server)
    const provider = new Provider(fixture.issuer, {
      clients: [
        {
          client_id: CLIENT.id,
          client_secret: CLIENT.secret,
          redirect_uris: [publicUrl],
          post_logout_redirect_uris: [publicUrl],
        },
      ],
      pkce: { required: () => true },
      ttl: { AccessToken: 600, Grant: 600, IdToken: 600, Interaction: 600, Session: 600 },
      cookies: { keys: ['key of the tests'] },
      claims: { openid: ['sub', 'groups'] },
      conformIdTokenClaims: false,
      findAccount: async (_context: unknown, id: string) => ({
        accountId: id,
        claims: async () => ({ sub: id, groups: ['payments.ops'] }),
      }),
    })
    server.on('request', provider.callback())
    return fixture
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}
