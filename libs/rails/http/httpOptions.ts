import { isIP } from 'node:net'
import {
  compileJsonPointer,
  boundedInteger,
  compactUuid,
  InvalidArgumentError,
  kindOf,
  requiredId,
  requiredObject,
  requiredText,
  systemClock,
  type Clock,
  type JsonObject,
  type JsonPointer,
  type JsonValue,
  rejectUnknownKeys,
} from '../../core/index.js'
import { readBoolean } from '../loadRails.js'
import type { RailDeclaration, RailOutcome, RailRequest } from '../types.js'
import { mergeStatusOutcomes, type StatusOutcomes } from './httpOutcomes.js'
import type { TlsMaterial } from './HttpTransport.js'
import type { SigningKey } from './requestSignature.js'

/** Declaration of a rail that has `http` instead of `dispatch` and `queryStatus`. */
export interface HttpRailOptions<Type extends string = string, Payload extends object = JsonObject> extends Omit<
  RailDeclaration<Type, Payload>,
  'dispatch' | 'queryStatus' | 'close'
> {
  readonly http: HttpOptions<Payload>
}

export interface HttpOptions<Payload extends object = JsonObject> {
  /**
   * Address to which payments are sent: HTTPS, or plain HTTP to this machine. `{reference}` and `{compactReference}`
   * are replaced.
   */
  readonly url: string
  /** HTTP method. @default 'POST' */
  readonly method?: 'POST' | 'PUT'
  /** Inquiry about a reference. Without it the rail has no `queryStatus`. */
  readonly status?: HttpStatusOptions
  /**
   * Returns the JSON to send. It must not depend on `attempt` or `notAfter`, because rails compare the bodies of two
   * requests under one key. @default reference, instructionId, participantId, sequenceId, idempotencyKey and payload
   */
  readonly body?: (request: RailRequest<Payload>) => JsonValue
  /** Additional headers, such as an API key; a function for tokens that change. @default none */
  readonly headers?: HttpHeaders | (() => HttpHeaders | Promise<HttpHeaders>)
  /** JSON pointers into the answer. @default /reference, /code and /message */
  readonly pointers?: { readonly reference?: string; readonly code?: string; readonly message?: string }
  /** Outcomes of HTTP statuses that differ from `HTTP_STATUS_OUTCOMES`. */
  readonly statusOutcomes?: Readonly<Record<number, RailOutcome>>
  /**
   * Key that signs each request (header `Symphony-Signature`). The secret has at least 16 bytes. @default no signature
   */
  readonly signing?: SigningKey
  readonly tls?: TlsMaterial
  /**
   * Whether plain HTTP to other machines is allowed, for example in a network that encrypts all traffic. @default false
   */
  readonly allowPlainHttp?: boolean
  /** Maximum number of bytes of an answer. @default 65536 */
  readonly responseBytesMax?: number
  /** Maximum number of connections. @default concurrency, or 10 */
  readonly connectionsMax?: number
  /**
   * Whether connections are reused. A server may close an idle connection while a payment is written to it, which
   * leaves an unknown outcome. Such an outcome is cheap with `resend` or `inquire`, but with `hold` an operator must
   * decide it. @default true unless onUnknown is 'hold'
   */
  readonly keepAlive?: boolean
  /** Clock of times in requests. @default systemClock */
  readonly clock?: Clock
}

export interface HttpStatusOptions {
  /**
   * Address to which the inquiry is sent (GET), with `{reference}` or `{compactReference}`. 404 with JSON or an empty
   * body means absent.
   */
  readonly url: string
  /** JSON pointers into the answer. @default those of the dispatch */
  readonly pointers?: { readonly reference?: string; readonly code?: string; readonly message?: string }
  /**
   * Outcomes by state, for rails that describe a payment by a state. An unlisted state is unknown. Without `states`,
   * any 2xx with a reference means paid.
   */
  readonly states?: {
    readonly pointer: string
    readonly outcomes: Readonly<Record<string, 'success' | 'terminal' | 'absent' | 'unknown'>>
  }
}

export type HttpHeaders = Readonly<Record<string, string>>

export interface AnswerPointers {
  readonly reference: JsonPointer
  readonly code: JsonPointer
  readonly message: JsonPointer
}

export interface ResolvedHttp {
  readonly url: UrlTemplate
  readonly method: 'POST' | 'PUT'
  readonly pointers: AnswerPointers
  readonly status: ResolvedStatusQuery | undefined
  readonly statusOutcomes: StatusOutcomes
  readonly headers: () => HttpHeaders | Promise<HttpHeaders>
  readonly signing: SigningKey | undefined
  readonly tls: TlsMaterial | undefined
  readonly responseBytesMax: number
  readonly connectionsMax: number
  readonly keepAlive: boolean
  readonly clock: Clock
}

export interface ResolvedStatusQuery {
  readonly url: UrlTemplate
  readonly pointers: AnswerPointers
  readonly state: JsonPointer | undefined
  readonly outcomes: ReadonlyMap<string, 'success' | 'terminal' | 'absent' | 'unknown'>
}

type UrlTemplate = (reference: string) => URL

const KEYS: readonly (keyof HttpOptions)[] = [
  'url',
  'method',
  'status',
  'body',
  'headers',
  'pointers',
  'statusOutcomes',
  'signing',
  'tls',
  'allowPlainHttp',
  'responseBytesMax',
  'connectionsMax',
  'keepAlive',
  'clock',
]

const RESPONSE_BYTES_MAX = { min: 1, max: 16_777_216 }
const CONNECTIONS_MAX = { min: 1, max: 10_000 }
const SECRET_BYTES_MIN = 16
const URL_LENGTH_MAX = 2_048

/** Checks the HTTP options. `loadRails` checks the rest of the declaration. */
export function resolveHttpOptions<Payload extends object>(rail: HttpRailOptions<string, Payload>): ResolvedHttp {
  const type = requiredId('type', rail.type)
  const field = (name: string) => `rail "${type}", http.${name}`
  const given = rail.http
  if (typeof given !== 'object' || given === null) {
    throw new InvalidArgumentError(`rail "${type}", http`, 'expected an object with url')
  }
  rejectUnknownKeys(given, KEYS, field)
  const { method = 'POST', status, signing, headers = {}, body } = given
  const allowPlainHttp = readBoolean(field('allowPlainHttp'), given.allowPlainHttp ?? false)
  if (method !== 'POST' && method !== 'PUT') throw new InvalidArgumentError(field('method'), 'expected POST or PUT')
  if (rail.onUnknown === 'inquire' && status === undefined) {
    throw new InvalidArgumentError(field('status'), 'expected an address to inquire at, because onUnknown is "inquire"')
  }
  if (body !== undefined && typeof body !== 'function') {
    throw new InvalidArgumentError(field('body'), `expected a function, got ${kindOf(body)}`)
  }
  if (signing !== undefined) checkSigning(field, signing)
  if (typeof headers !== 'function') refuseOwnHeaders(field('headers'), headers)
  return {
    url: readUrl(field('url'), given.url, allowPlainHttp),
    method,
    pointers: readPointers(field('pointers'), given.pointers),
    status: status && resolveStatus(field, status, given, allowPlainHttp),
    statusOutcomes: mergeStatusOutcomes(readStatusOutcomes(field('statusOutcomes'), given.statusOutcomes ?? {})),
    headers: typeof headers === 'function' ? headers : () => headers,
    signing,
    tls: given.tls,
    responseBytesMax: boundedInteger(field('responseBytesMax'), given.responseBytesMax ?? 65_536, RESPONSE_BYTES_MAX),
    connectionsMax: boundedInteger(
      field('connectionsMax'),
      given.connectionsMax ?? rail.concurrency ?? 10,
      CONNECTIONS_MAX,
    ),
    keepAlive: readBoolean(field('keepAlive'), given.keepAlive ?? rail.onUnknown !== 'hold'),
    clock: given.clock ?? systemClock,
  }
}

function resolveStatus(
  field: (name: string) => string,
  status: HttpStatusOptions,
  given: Pick<HttpOptions, 'pointers'>,
  allowPlainHttp: boolean,
): ResolvedStatusQuery {
  rejectUnknownKeys(status, ['url', 'pointers', 'states'], (key) => field(`status.${key}`))
  const url = readUrl(field('status.url'), status.url, allowPlainHttp)
  if (!status.url.includes(REFERENCE_PLACE) && !status.url.includes(COMPACT_PLACE)) {
    throw new InvalidArgumentError(
      field('status.url'),
      `expected ${REFERENCE_PLACE} or ${COMPACT_PLACE} in the address, to name the payment`,
    )
  }
  return {
    url,
    pointers: readPointers(field('status.pointers'), status.pointers ?? given.pointers),
    ...readStates(field('status.states'), status.states),
  }
}

function readStates(
  field: string,
  states: HttpStatusOptions['states'],
): Pick<ResolvedStatusQuery, 'state' | 'outcomes'> {
  if (states === undefined) return { state: undefined, outcomes: new Map() }
  rejectUnknownKeys(requiredObject(field, states), ['pointer', 'outcomes'], (key) => `${field}.${key}`)
  const outcomes = Object.entries(requiredObject(`${field}.outcomes`, states.outcomes))
  for (const [state, outcome] of outcomes) {
    if (!['success', 'terminal', 'absent', 'unknown'].includes(outcome)) {
      throw new InvalidArgumentError(`${field}.outcomes.${state}`, 'expected success, terminal, absent or unknown')
    }
  }
  return { state: compileJsonPointer(`${field}.pointer`, states.pointer), outcomes: new Map(outcomes) }
}

const REFERENCE_PLACE = '{reference}'
const COMPACT_PLACE = '{compactReference}'

function readUrl(field: string, value: unknown, allowPlainHttp: boolean): UrlTemplate {
  const template = requiredText(field, value, URL_LENGTH_MAX)
  const urlFor = (reference: string) =>
    new URL(
      template
        .replaceAll(REFERENCE_PLACE, encodeURIComponent(reference))
        .replaceAll(COMPACT_PLACE, encodeURIComponent(compactUuid(reference))),
    )
  const sample = parseUrl(field, urlFor)
  if (sample.protocol !== 'https:' && sample.protocol !== 'http:') {
    throw new InvalidArgumentError(field, 'expected an address that begins with https://')
  }
  if (sample.protocol === 'http:' && !allowPlainHttp && !isLoopback(sample.hostname)) {
    throw new InvalidArgumentError(
      field,
      'expected https: plain HTTP to another machine reveals payments on the network (allowPlainHttp permits it)',
    )
  }
  if (sample.username !== '' || sample.password !== '') {
    throw new InvalidArgumentError(field, 'expected no credentials in the address; put them into headers')
  }
  if (urlFor('another').origin !== sample.origin) {
    throw new InvalidArgumentError(
      field,
      `expected ${REFERENCE_PLACE} and ${COMPACT_PLACE} in the path or the query only`,
    )
  }
  return urlFor
}

function parseUrl(field: string, urlFor: UrlTemplate): URL {
  try {
    return urlFor('one')
  } catch {
    throw new InvalidArgumentError(field, 'expected an absolute address such as https://rail.example/payments')
  }
}

function isLoopback(hostname: string): boolean {
  const address = hostname.replace(/^\[|\]$/g, '')
  return hostname === 'localhost' || address === '::1' || (isIP(address) === 4 && address.startsWith('127.'))
}

function readPointers(field: string, given: HttpOptions['pointers'] = {}): AnswerPointers {
  rejectUnknownKeys(given, ['reference', 'code', 'message'], (key) => `${field}.${key}`)
  return {
    reference: compileJsonPointer(`${field}.reference`, given.reference ?? '/reference'),
    code: compileJsonPointer(`${field}.code`, given.code ?? '/code'),
    message: compileJsonPointer(`${field}.message`, given.message ?? '/message'),
  }
}

function readStatusOutcomes(
  field: string,
  given: Readonly<Record<number, RailOutcome>>,
): Readonly<Record<number, RailOutcome>> {
  for (const [status, outcome] of Object.entries(given)) {
    boundedInteger(`${field}, a status`, Number(status), { min: 200, max: 599 })
    if (!['success', 'terminal', 'retryable', 'unknown'].includes(outcome)) {
      throw new InvalidArgumentError(`${field}.${status}`, 'expected success, terminal, retryable or unknown')
    }
  }
  return given
}

function checkSigning(field: (name: string) => string, { keyId, secret }: SigningKey): void {
  if (requiredId(field('signing.keyId'), keyId).includes(',')) {
    throw new InvalidArgumentError(
      field('signing.keyId'),
      'expected no comma, which separates the parts of the signature',
    )
  }
  const isText = typeof secret === 'string'
  if ((!isText && !(secret instanceof Uint8Array)) || Buffer.byteLength(secret) < SECRET_BYTES_MIN) {
    throw new InvalidArgumentError(field('signing.secret'), `expected at least ${SECRET_BYTES_MIN} bytes`)
  }
}

/** Headers that the rail writes itself. Options must not set them. */
const OWN_HEADERS = new Set(['idempotency-key', 'content-type', 'content-length', 'host', 'traceparent', 'tracestate'])

export function isOwnHeader(name: string): boolean {
  return OWN_HEADERS.has(name.toLowerCase()) || name.toLowerCase().startsWith('symphony-')
}

function refuseOwnHeaders(field: string, headers: HttpHeaders): void {
  const unknownKey = Object.keys(headers).find(isOwnHeader)
  if (unknownKey !== undefined) throw new InvalidArgumentError(field, `${unknownKey} is written by Symphony`)
}
