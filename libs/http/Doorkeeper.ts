import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../core/index.js'
import type { ApiRoles } from './Api.js'
import type { Gate } from './access/Gate.js'
import { nameOf, type Identity } from './access/Identity.js'
import { RateLimiter } from './access/RateLimiter.js'
import { REQUEST_BYTES } from './limits.js'
import { ProblemError } from './Problem.js'
import type { Route } from './routes/route.js'

export interface DoorkeeperOptions {
  readonly gate: Gate
  readonly requestsPerSecond: number
  readonly mayActFor: ApiRoles['mayActFor'] | undefined
  readonly clock: Clock
}

/** Lets a request pass to its route, or throws why not: who asks, how often, for what, and about whom. */
export class Doorkeeper {
  readonly #options: DoorkeeperOptions
  readonly #requests: RateLimiter
  readonly #granted = new Set<'keys' | 'names'>()

  constructor(options: DoorkeeperOptions) {
    this.#options = options
    this.#requests = new RateLimiter(options.requestsPerSecond, options.clock)
  }

  /** Without a route there is nothing to see, and even that is told only to those who are known. */
  async admit(route: Route | undefined, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    if (route?.access === 'open' || route?.access === 'signature') return
    const identity = await this.#identify(request, reply)
    request.identity = identity
    const waitSeconds = this.#requests.take(nameOf(identity), requestsIn(request))
    if (waitSeconds > 0) throw new ProblemError('RATE_LIMITED', undefined, { retryAfterSeconds: waitSeconds })
    if (route !== undefined) await this.#requireRight(route, identity)
  }

  /** Who is not let in is told how to come in. Guessing is not slowed down: there are 256 bits to guess. */
  async #identify(request: FastifyRequest, reply: FastifyReply): Promise<Identity> {
    try {
      return await this.#options.gate.identify(request.headers.authorization)
    } catch (error) {
      if (error instanceof ProblemError) void reply.header('www-authenticate', 'Bearer')
      throw error
    }
  }

  async #requireRight({ access, participants }: Route, identity: Identity): Promise<void> {
    if (access === 'any' || access === 'open' || access === 'signature') return
    if (!identity.scopes.includes(access)) {
      throw new ProblemError('SCOPE_MISSING', `This needs the scope ${access}.`)
    }
    if (participants === 'refused' && identity.participants !== null) {
      throw new ProblemError('PARTICIPANT_REFUSED', 'It is about all participants, and this key is bound to some.')
    }
    if (access === 'operate') await this.#requireGateway(identity.apiKey === null ? 'names' : 'keys')
    // Every gateway may say whose idempotency key a payment carries.
    if (access === 'ingest') await this.#requireGateway('keys')
  }

  /** A granted right is remembered: the owner of the schema grants it, and the doctor would report its removal. */
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

/** For how many requests it counts, before a byte of its body is read. One that does not tell its length counts as the longest. */
function requestsIn({ headers, routeOptions }: FastifyRequest): number {
  const isUntold = headers['transfer-encoding'] !== undefined
  const bytes = isUntold ? (routeOptions.bodyLimit ?? 0) : Number(headers['content-length'] ?? 0)
  return Math.max(1, Math.ceil(bytes / REQUEST_BYTES))
}
