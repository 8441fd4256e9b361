import type { FastifyReply, FastifyRequest } from 'fastify'
import { TokenBucket, type Clock } from '../core/index.js'
import type { Authenticator } from './access/Authenticator.js'
import { rateLimitKey, type Identity } from './access/Identity.js'
import type { ApiRoles } from './Api.js'
import { REQUEST_BYTES } from './limits.js'
import { ProblemError } from './Problem.js'
import { bodyBytes } from './requestBody.js'
import { scopesOf, type Route } from './routes/route.js'

interface RequestAuthorizerOptions {
  readonly authenticator: Authenticator
  readonly requestsPerSecond: number
  readonly mayActFor: ApiRoles['mayActFor'] | undefined
  readonly clock: Clock
}

/** Authorizes a request for its route, or throws a problem: identity, rate limit, scope and participants. */
export class RequestAuthorizer {
  readonly #options: RequestAuthorizerOptions
  readonly #requests: RateLimiter
  readonly #granted = new Set<'keys' | 'names'>()

  constructor(options: RequestAuthorizerOptions) {
    this.#options = options
    this.#requests = new RateLimiter(options.requestsPerSecond, options.clock)
  }

  /**
   * Authorizes a request. Identifies the caller even if no route matches, so that an unknown caller cannot find out
   * which routes exist.
   */
  async authorize(route: Route | undefined, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    if (route?.access === 'open' || route?.access === 'signature') return
    const identity = await this.#identify(request, reply)
    request.identity = identity
    const waitSeconds = this.#requests.take(rateLimitKey(identity), requestsIn(request))
    if (waitSeconds > 0) throw new ProblemError('RATE_LIMITED', undefined, { retryAfterSeconds: waitSeconds })
    if (route !== undefined) await this.#requireRight(route, identity)
  }

  /**
   * Identifies the caller. On failure, adds the header that names the accepted scheme. Failures are not throttled,
   * because keys have 256 random bits.
   */
  async #identify(request: FastifyRequest, reply: FastifyReply): Promise<Identity> {
    try {
      return await this.#options.authenticator.identify(request)
    } catch (error) {
      if (error instanceof ProblemError) void reply.header('www-authenticate', 'Bearer')
      throw error
    }
  }

  async #requireRight({ access, actsAs, participants }: Route, identity: Identity): Promise<void> {
    const scopes = scopesOf({ access })
    if (scopes.length === 0) return
    if (!scopes.some((scope) => identity.scopes.includes(scope))) {
      throw new ProblemError('SCOPE_MISSING', `This needs the scope ${access}.`)
    }
    if (participants === 'refused' && identity.participants !== null) {
      throw new ProblemError(
        'PARTICIPANT_REFUSED',
        'This route covers all participants; this key is restricted to some. Use an unrestricted key.',
      )
    }
    if (scopes.includes('operate') || actsAs === true)
      await this.#requireGateway(identity.apiKey === null ? 'names' : 'keys')
    // An enqueue sets the scope of its idempotency key. The database allows that only to a gateway.
    if (access === 'ingest') await this.#requireGateway('keys')
  }

  /**
   * Requires that this server is a gateway: a login that may act for other people. Caches a granted right until the
   * process ends. Only the owner of the schema can remove the right, and `symphony doctor` reports a removed right.
   */
  async #requireGateway(people: keyof typeof UNAVAILABLE): Promise<void> {
    if (!this.#granted.has(people) && (await this.#options.mayActFor?.(people)) === true) this.#granted.add(people)
    if (this.#granted.has(people)) return
    throw new ProblemError('OPERATE_UNAVAILABLE', UNAVAILABLE[people])
  }
}

const UNAVAILABLE = {
  keys: 'The login of this server is not listed as a gateway. Run: symphony deploy --create-login NAME=api',
  names:
    'The login of this server may act for owners of API keys only. Use a key, or run: symphony deploy --create-login NAME=api+names',
}

/**
 * Returns how many requests this request counts as, by the length of its body. An uploaded file counts once, because a
 * caller may send only one file at a time.
 */
function requestsIn(request: FastifyRequest): number {
  if (request.routeOptions.config.route?.upload !== undefined) return 1
  return Math.max(1, Math.ceil(bodyBytes(request) / REQUEST_BYTES))
}

/**
 * Limits the requests per second of each name, with bursts of twice that number. Keeps a bounded number of names; a
 * name that was dropped starts with a full bucket again.
 */
class RateLimiter {
  readonly #perSecond: number
  readonly #clock: Clock | undefined
  readonly #buckets = new Map<string, TokenBucket>()

  constructor(perSecond: number, clock?: Clock) {
    this.#perSecond = perSecond
    this.#clock = clock
  }

  /**
   * Takes `count` tokens and returns 0. If there are too few, takes none and returns the whole seconds until there are
   * enough.
   */
  take(name: string, count = 1): number {
    const bucket = this.#bucketOf(name)
    // A request costs at most a full bucket. Otherwise a very large one would never be allowed.
    const taken = Math.min(count, this.#perSecond * 2)
    const waitMs = bucket.waitMs(taken)
    if (waitMs > 0) return Math.ceil(waitMs / 1_000)
    bucket.take(taken)
    return 0
  }

  #bucketOf(name: string): TokenBucket {
    const bucket =
      this.#buckets.get(name) ??
      new TokenBucket({ perSecond: this.#perSecond, burst: this.#perSecond * 2, clock: this.#clock })
    // Moves the name to the end of the map, so that the names unused for longest are dropped first.
    this.#buckets.delete(name)
    this.#buckets.set(name, bucket)
    for (const oldest of this.#buckets.keys()) {
      if (this.#buckets.size <= NAMES_MAX) break
      this.#buckets.delete(oldest)
    }
    return bucket
  }
}

const NAMES_MAX = 10_000
