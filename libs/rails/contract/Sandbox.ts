import { randomBytes, randomUUID } from 'node:crypto'
import { boundedInteger, compactUuid, systemClock, type JsonObject, SymphonyError } from '../../core/index.js'
import { callRail, type RailResult } from '../callRail.js'
import type { LoadedRail } from '../loadRails.js'
import type { RailRequest } from '../types.js'

export interface RailContractOptions {
  /** Payload that the rail, or its sandbox, can pay several times, under different references. */
  readonly payload: JsonObject
  /** Payload that the rail refuses permanently. @default refusals are not checked */
  readonly refusedPayload?: JsonObject
  /**
   * Asks the sandbox, without the adapter, how many payments it made under a reference. Most rules check this number
   * too. @default the adapter's own answers are trusted
   */
  readonly effectsOf?: (reference: string) => number | Promise<number>
  /** Milliseconds within which the adapter must react to its signal. @default 2000 */
  readonly abortPatienceMs?: number
}

/** Rail and payloads for the check of one rule. Each request has a new reference. */
export class Sandbox {
  readonly rail: LoadedRail
  readonly payload: JsonObject
  readonly effectsOf: RailContractOptions['effectsOf']
  readonly abortPatienceMs: number
  readonly #refusedPayload: JsonObject | undefined

  constructor(rail: LoadedRail, { payload, refusedPayload, effectsOf, abortPatienceMs = 2_000 }: RailContractOptions) {
    this.rail = rail
    this.payload = payload
    this.effectsOf = effectsOf
    this.abortPatienceMs = boundedInteger('abortPatienceMs', abortPatienceMs, { min: 1, max: 60_000 })
    this.#refusedPayload = refusedPayload
  }

  /** Creates a deeply frozen request, because a change by the adapter would also affect the next attempt. */
  request(payload: JsonObject = this.payload): RailRequest {
    const reference = createReference(systemClock.now())
    return deepFreeze({
      reference,
      compactReference: compactUuid(reference),
      instructionId: `contract-${randomUUID()}`,
      participantId: 'contract',
      sequenceId: 1n,
      idempotencyKey: randomUUID(),
      attempt: 1,
      payload: structuredClone(payload),
      notAfter: new Date(systemClock.now().getTime() + this.rail.timeoutMs + LEASE_MARGIN_MS),
    })
  }

  refusedRequest(): RailRequest {
    return this.#refusedPayload === undefined ? skip('it needs refusedPayload') : this.request(this.#refusedPayload)
  }

  async call(request: RailRequest): Promise<RailResult> {
    const result = await callRail(this.rail, request)
    return result.unknownCode === true ? fail(`the code ${result.railCode} contradicts the table of codes`) : result
  }

  async pay(request: RailRequest): Promise<RailResult & { readonly kind: 'success' }> {
    const result = await this.call(request)
    if (result.kind === 'success') return result
    return fail(`expected success, got ${result.kind} (${result.code}: ${result.message ?? 'no text'})`)
  }

  async expectEffects({ reference }: RailRequest, expected: number): Promise<string> {
    if (this.effectsOf === undefined) return skip('it needs effectsOf')
    const effects = await this.effectsOf(reference)
    return effects === expected
      ? `paid ${effects} times`
      : fail(`expected ${expected} payments, the sandbox has ${effects}`)
  }
}

/** Margin by which the lease outlasts the call. */
const LEASE_MARGIN_MS = 60_000

/** Creates a UUIDv7, as outbox ids are. Adapters may read the time of the payment from it. */
function createReference(now: Date): string {
  const time = now.getTime().toString(16).padStart(12, '0')
  const random = randomBytes(10).toString('hex')
  const variant = 'a'
  return [
    time.slice(0, 8),
    time.slice(8),
    `7${random.slice(0, 3)}`,
    `${variant}${random.slice(3, 6)}`,
    random.slice(6, 18),
  ].join('-')
}

function deepFreeze<Value extends object>(value: Value): Value {
  for (const member of Object.values(value)) {
    if (typeof member === 'object' && member !== null && !(member instanceof Date)) deepFreeze(member)
  }
  return Object.freeze(value)
}

class RuleBroken extends SymphonyError {}

export class RuleSkipped extends SymphonyError {}

export function fail(detail: string): never {
  throw new RuleBroken('RULE_BROKEN', detail)
}

export function skip(why: string): never {
  throw new RuleSkipped('RULE_SKIPPED', why)
}
