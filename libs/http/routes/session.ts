import { Type } from '#typebox'
import {
  cookieOf,
  REMOVED_SESSION,
  REMOVED_SIGN_IN,
  setCookie,
  SIGN_IN_COOKIE,
  type BrowserSessions,
} from '../access/BrowserSessions.js'
import type { IdentityProvider } from '../access/IdentityProvider.js'
import { ProblemError } from '../Problem.js'
import { Me, SignedOut, SignInMethods, StartedSignIn } from '../shapes/overview.js'
import { describeCaller } from './overview.js'
import { route, type Route } from './route.js'

/** Identity provider of the dashboard, and the sessions of the people who signed in there. */
export interface SignIn {
  readonly provider: IdentityProvider
  readonly sessions: BrowserSessions
}

/**
 * Routes of the sign-in. The dashboard calls them and opens the URLs in their answers. The server sends no redirect, so
 * it cannot become an open redirect.
 */
export function sessionRoutes(signIn: SignIn | undefined): readonly Route[] {
  const open = { tag: 'session', access: 'open', participants: 'filtered' } as const
  const required = (): SignIn => {
    if (signIn !== undefined) return signIn
    throw new ProblemError('SIGN_IN_REFUSED', 'No identity provider is set up. Set signIn in the file of --oidc.')
  }
  return [
    route({
      ...open,
      method: 'GET',
      path: '/v1/sign-in',
      summary: 'Whether people can sign in to the dashboard at an identity provider.',
      answers: { 200: { description: 'The provider, or null if the dashboard needs a token.', schema: SignInMethods } },
      problems: ['INVALID_QUERY'],
      example: { status: 200, answer: { provider: null } },
      handle: async () => ({ provider: signIn?.provider.name ?? null }),
    }),
    route({
      ...open,
      method: 'POST',
      path: '/v1/sign-in',
      summary: 'Starts a sign-in: sets a cookie for 10 minutes and returns the provider’s address for the browser.',
      answers: { 200: { description: 'Address that the browser opens.', schema: StartedSignIn } },
      problems: [
        'INVALID_QUERY',
        'SIGN_IN_REFUSED',
        'CROSS_SITE_REQUEST',
        'RATE_LIMITED',
        'IDENTITY_PROVIDER_UNAVAILABLE',
      ],
      handle: async ({ request, reply }) => {
        const { provider, sessions } = required()
        sessions.requireSameOrigin(request)
        const { authorizationUrl, started } = await provider.start()
        void reply.header('set-cookie', setCookie(SIGN_IN_COOKIE, started, STARTED_SECONDS))
        return { authorizationUrl }
      },
    }),
    route({
      ...open,
      method: 'POST',
      path: '/v1/session',
      summary: 'Finishes a sign-in with the query of the provider’s redirect: sets the cookie of a session.',
      body: Type.Object(
        { answer: Type.String({ minLength: 1, maxLength: 8_192, description: 'query of the redirect' }) },
        { additionalProperties: false },
      ),
      answers: { 200: { description: 'The person who signed in.', schema: Me } },
      problems: [
        'INVALID_QUERY',
        'SIGN_IN_REFUSED',
        'CROSS_SITE_REQUEST',
        'RATE_LIMITED',
        'INVALID_ARGUMENT',
        'DATABASE_UNAVAILABLE',
        'IDENTITY_PROVIDER_UNAVAILABLE',
      ],
      handle: async ({ request, reply, body }) => {
        const { provider, sessions } = required()
        sessions.requireSameOrigin(request)
        // The sign-in cookie is valid for one attempt, even a failed one.
        void reply.header('set-cookie', REMOVED_SIGN_IN)
        const person = await provider.finish(body.answer, cookieOf(request, SIGN_IN_COOKIE))
        const { identity, cookie } = await sessions.create(request, person)
        void reply.header('set-cookie', cookie)
        return describeCaller(identity)
      },
    }),
    route({
      method: 'DELETE',
      path: '/v1/session',
      tag: 'session',
      summary: 'Signs out: ends the session of the cookie. A key or token stays valid.',
      access: 'any',
      participants: 'filtered',
      answers: {
        200: { description: 'Address that ends the session at the provider too, if it has one.', schema: SignedOut },
      },
      problems: ['INVALID_QUERY'],
      example: { status: 200, answer: { signOutUrl: null } },
      handle: async ({ identity: { session }, reply }) => {
        if (session === undefined || signIn === undefined) return { signOutUrl: null }
        await signIn.sessions.end(session)
        void reply.header('set-cookie', REMOVED_SESSION)
        return { signOutUrl: await signIn.provider.signOutUrl() }
      },
    }),
  ]
}

const STARTED_SECONDS = 600
