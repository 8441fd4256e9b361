import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type, type Static, type TObject, type TProperties, type TSchema } from '#typebox'
import { Compile } from '#typebox/compile'
import type { Scope } from '../../access/index.js'
import { indexPath, isObject, keyPath } from '../../core/index.js'
import type { Identity } from '../access/Identity.js'
import { ProblemError, type ProblemCode } from '../Problem.js'

/** Example request and response for the documentation. Tests execute each. */
export interface Example {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  /** JSON, or the text of an uploaded file. */
  readonly body?: unknown
  readonly status: number
  readonly answer: unknown
}

export interface RouteResponse {
  readonly description: string
  /** Schema of the JSON; absent for other content. */
  readonly schema?: TSchema
  /** @default application/json */
  readonly contentType?: string
  /** Media types of the same content in other formats. */
  readonly otherTypes?: readonly string[]
}

/** Route with its description. The server, the OpenAPI document and the tests all read this object. */
export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Path with parameters as in OpenAPI: `/v1/outbox/{outboxId}` */
  readonly path: string
  readonly tag: string
  readonly summary: string
  /** Required scope; `any`: every authenticated caller; `open`: all callers; `signature`: a signed request. */
  readonly access: Scope | 'ingest or operate' | 'any' | 'open' | 'signature'
  /** Whether the handler acts as the caller without the scope operate. Routes with that scope always act as the caller. */
  readonly actsAs?: boolean | undefined
  /** Effect of a key that is restricted to participants: only their data (`filtered`), or a problem (`refused`). */
  readonly participants: 'filtered' | 'refused'
  readonly params?: TObject | undefined
  readonly query?: TObject | undefined
  readonly headers?: TObject | undefined
  readonly body?: TSchema | undefined
  /** Maximum body size in bytes. @default 256 KiB */
  readonly bodyLimit?: number | undefined
  /** Whether the handler receives the bytes of the body, because a signature covers them. */
  readonly rawBody?: boolean | undefined
  /** Media types of a file that the handler reads as a stream; absent if the body is JSON. */
  readonly upload?: readonly string[] | undefined
  readonly answers: Readonly<Record<number, RouteResponse>>
  /** Problem codes besides those common to all routes. */
  readonly problems: readonly ProblemCode[]
  /** Code for an invalid argument. @default INVALID_ARGUMENT */
  readonly invalid?: ProblemCode | undefined
  /** Example; absent for a signed webhook, which a test cannot call without the key. */
  readonly example?: Example | undefined
  /** @param query replaces the query of the URL, to read another page of a list */
  readonly handle: (request: FastifyRequest, reply: FastifyReply, query?: unknown) => Promise<unknown>
}

/** Returns the scopes that allow this route: a caller needs one of them. Empty if the route needs no scope. */
export function scopesOf({ access }: Pick<Route, 'access'>): readonly Scope[] {
  if (access === 'any' || access === 'open' || access === 'signature') return []
  return access === 'ingest or operate' ? ['ingest', 'operate'] : [access]
}

/** Request whose parts match the schemas of the route. */
interface RouteRequest<Params extends TProperties, Query extends TProperties, Body extends TSchema> {
  /** Identity of the caller; undefined on an open route, whose handler must not read it. */
  readonly identity: Identity
  readonly params: Static<TObject<Params>>
  readonly query: Static<TObject<Query>>
  readonly body: Static<Body>
  readonly request: FastifyRequest
  readonly reply: FastifyReply
}

interface Spec<Params extends TProperties, Query extends TProperties, Body extends TSchema, Result> extends Omit<
  Route,
  'params' | 'query' | 'body' | 'handle'
> {
  readonly params?: Params
  readonly query?: Query
  readonly body?: Body
  readonly handle: (given: RouteRequest<Params, Query, Body>) => Promise<Result>
}

/** Creates a route whose handler receives only requests that match its schemas. */
export function route<
  const Params extends TProperties = TProperties,
  const Query extends TProperties = TProperties,
  const Body extends TSchema = typeof NO_BODY,
  Result = unknown,
>(spec: Spec<Params, Query, Body, Result>): Route {
  const params = strictObject(spec.params)
  const query = strictObject(spec.query)
  const checkParams = checker(params, 'INVALID_ARGUMENT')
  const checkQuery = checker(query, 'INVALID_QUERY')
  const checkBody = checker(spec.body ?? NO_BODY, spec.invalid ?? 'INVALID_ARGUMENT')
  const { params: _params, query: _query, body: _body, handle, ...described } = spec
  return {
    ...described,
    params: spec.params === undefined ? undefined : params,
    query: spec.query === undefined ? undefined : query,
    body: spec.body,
    handle: async (request, reply, asked = request.query) => {
      const given = {
        identity: request.identity,
        params: checkParams(request.params),
        query: checkQuery(parseQuery(query, asked)),
        body: spec.body === undefined ? undefined : checkBody(requiredBody(request.body)),
        request,
        reply,
      }
      if (!isRouteRequest<Params, Query, Body>(given, spec)) throw new ProblemError('UNAUTHENTICATED')
      return handle(given)
    },
  }
}

const NO_BODY = Type.Undefined()

/** Checks that the request has an identity, except on an open route. The schemas have checked every other part. */
function isRouteRequest<Params extends TProperties, Query extends TProperties, Body extends TSchema>(
  given: { readonly identity: Identity | undefined },
  { access }: Pick<Route, 'access'>,
): given is RouteRequest<Params, Query, Body> {
  return access === 'open' || given.identity !== undefined
}

function strictObject(properties: TProperties | undefined) {
  return Type.Object(properties ?? {}, { additionalProperties: false })
}

function requiredBody(body: unknown): unknown {
  if (body === undefined) throw new ProblemError('MALFORMED_JSON', 'Expected a body of application/json.')
  return body
}

/** Returns a check that returns a valid value unchanged and throws a problem for an invalid one. */
function checker(schema: TSchema, code: ProblemCode): (value: unknown) => unknown {
  const compiled = Compile(schema)
  return (value) => {
    if (compiled.Check(value)) return value
    const { place = '', expected = 'not valid' } = findDefect(schema, value, '') ?? {}
    const argument = place.replace(/^\./, '') || 'body'
    throw new ProblemError(code, `${argument}: ${expected}`, { argument })
  }
}

/** Subset of JSON Schema that the schemas of requests use. */
interface JsonSchema {
  readonly type?: unknown
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly JsonSchema[]
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: unknown
  readonly items?: JsonSchema
  readonly minItems?: number
  readonly maxItems?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: unknown
  readonly description?: string
  readonly minimum?: number
  readonly maximum?: number
}

interface Defect {
  readonly place: string
  readonly expected: string
}

/**
 * Finds the first place where a value does not match its schema. The error names the place, never the value. The
 * validator's own error list visits every item, which took 8 s for a batch of 4 MiB.
 */
export function findDefect(schema: JsonSchema, value: unknown, place: string): Defect | undefined {
  const got = value === null ? 'null' : Array.isArray(value) ? 'an array' : typeof value
  const defect = (expected: string): Defect => ({ place, expected: `expected ${expected}` })
  if (schema.anyOf !== undefined) {
    const defects = schema.anyOf.map((one) => findDefect(one, value, place))
    return defects.includes(undefined) ? undefined : defects[0]
  }
  if (schema.enum !== undefined) {
    return schema.enum.includes(value) ? undefined : defect(`one of ${schema.enum.join(', ')}`)
  }
  switch (schema.type) {
    case 'object':
      return isObject(value) ? findFieldDefect(schema, value, place) : defect(`an object, got ${got}`)
    case 'array':
      return Array.isArray(value) ? findItemDefect(schema, value, place) : defect(`an array, got ${got}`)
    case 'string':
      return typeof value === 'string' ? findTextDefect(schema, value, place) : defect(`text, got ${got}`)
    case 'boolean':
      return typeof value === 'boolean' ? undefined : defect(`true or false, got ${got}`)
    case 'integer': {
      const { minimum = -Infinity, maximum = Infinity } = schema
      const isWithin = typeof value === 'number' && Number.isInteger(value) && value >= minimum && value <= maximum
      return isWithin ? undefined : defect(`a whole number from ${minimum} to ${maximum}`)
    }
    default:
      return undefined
  }
}

function findFieldDefect(schema: JsonSchema, value: Readonly<Record<string, unknown>>, place: string) {
  const { properties = {}, required = [], additionalProperties } = schema
  const known = Object.keys(properties)
  const fields = Object.keys(value)
  const unknown = additionalProperties === false ? fields.findIndex((field) => !Object.hasOwn(properties, field)) : -1
  if (unknown !== -1) {
    const expected = known.length === 0 ? 'unknown field' : `unknown field; expected ${known.join(', ')}`
    return { place: keyPath(place, fields[unknown] ?? '', unknown), expected }
  }
  const missing = required.find((field) => !Object.hasOwn(value, field))
  if (missing !== undefined) return { place: keyPath(place, missing, 0), expected: 'missing' }
  for (const [field, property] of Object.entries(properties)) {
    const defect = Object.hasOwn(value, field)
      ? findDefect(property, value[field], keyPath(place, field, 0))
      : undefined
    if (defect !== undefined) return defect
  }
  return undefined
}

function findItemDefect(schema: JsonSchema, items: readonly unknown[], place: string): Defect | undefined {
  const { minItems = 0, maxItems = Infinity, items: itemSchema = {} } = schema
  if (items.length < minItems || items.length > maxItems) {
    return { place, expected: `expected ${minItems} to ${maxItems} items, got ${items.length}` }
  }
  for (const [index, item] of items.entries()) {
    const defect = findDefect(itemSchema, item, indexPath(place, index))
    if (defect !== undefined) return defect
  }
  return undefined
}

function findTextDefect(schema: JsonSchema, text: string, place: string): Defect | undefined {
  const { minLength = 0, maxLength = Infinity, pattern, description } = schema
  const length = Array.from(text).length
  if (length < minLength || length > maxLength) {
    return { place, expected: `expected ${minLength} to ${maxLength} characters, got ${length}` }
  }
  if (typeof pattern !== 'string' || new RegExp(pattern, 'u').test(text)) return undefined
  return { place, expected: `expected ${description ?? `text that matches ${pattern}`}` }
}

/**
 * Parses the numbers and booleans of a query by its schema. Only plain spelling is parsed; other text stays text, which
 * the schema refuses.
 */
function parseQuery(schema: TObject, raw: unknown): Readonly<Record<string, unknown>> {
  const given = typeof raw === 'object' && raw !== null ? Object.entries(raw) : []
  return Object.fromEntries(given.map(([name, value]) => [name, readValue(kindOf(schema, name), value)]))
}

function readValue(kind: string | undefined, value: unknown): unknown {
  if (typeof value !== 'string') return value
  if (kind === 'integer' && /^(?:0|[1-9]\d{0,8})$/.test(value)) return Number(value)
  if (kind === 'boolean' && (value === 'true' || value === 'false')) return value === 'true'
  return value
}

function kindOf({ properties }: TObject, name: string): string | undefined {
  const property = Object.hasOwn(properties, name) ? properties[name] : undefined
  return property !== undefined && 'type' in property ? String(property.type) : undefined
}
