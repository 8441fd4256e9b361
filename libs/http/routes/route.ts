import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type, type Static, type TObject, type TProperties, type TSchema } from 'typebox'
import { Compile } from 'typebox/compile'
import type { Scope } from '../../access/index.js'
import { keyPath } from '../../core/index.js'
import type { Identity } from '../access/Identity.js'
import { ProblemError, type ProblemCode } from '../Problem.js'

/** What is documented and executed alike: a request, and what it is answered with. */
export interface Example {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: unknown
  readonly status: number
  readonly answer: unknown
}

export interface Answer {
  readonly description: string
  /** Of the JSON; absent for other content. */
  readonly schema?: TSchema
  /** @default application/json */
  readonly contentType?: string
}

/** A route with everything that is known of it. The server, the OpenAPI document and the tests read the same. */
export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** With its parameters as OpenAPI writes them: `/v1/outbox/{outboxId}` */
  readonly path: string
  readonly tag: string
  readonly summary: string
  /** The scope it needs; `any`: whoever is known; `open`: everybody; `signature`: the request proves itself. */
  readonly access: Scope | 'any' | 'open' | 'signature'
  /** What a key that is bound to participants gets: what is theirs, or nothing at all. */
  readonly participants: 'filtered' | 'refused'
  readonly params?: TObject | undefined
  readonly query?: TObject | undefined
  readonly headers?: TObject | undefined
  readonly body?: TSchema | undefined
  /** Bytes at the most. @default 256 KiB */
  readonly bodyLimit?: number | undefined
  /** The body is left as the bytes that came: a signature is over them. */
  readonly rawBody?: boolean | undefined
  readonly answers: Readonly<Record<number, Answer>>
  /** Beside those that every route may answer with. */
  readonly problems: readonly ProblemCode[]
  /** What an argument that is not valid is called. @default INVALID_ARGUMENT */
  readonly invalid?: ProblemCode | undefined
  /** Absent for what no test can call by itself: a signed webhook. */
  readonly example?: Example | undefined
  readonly handle: (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>
}

/** What a handler is given: checked, and of the types that the schemas say. */
export interface Asked<Params extends TProperties, Query extends TProperties, Body extends TSchema> {
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
  /** The body is documented by its schema and read by the handler itself, which says more about what is wrong with it. */
  readonly readsBody?: boolean
  readonly handle: (asked: Asked<Params, Query, Body>) => Promise<Result>
}

/** Closes a route over its schemas: what reaches the handler has passed them. */
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
  const checkBody = checker(spec.readsBody === true ? Type.Unknown() : (spec.body ?? NO_BODY), 'INVALID_ARGUMENT')
  const { params: _params, query: _query, body: _body, readsBody: _readsBody, handle, ...described } = spec
  return {
    ...described,
    params: spec.params === undefined ? undefined : params,
    query: spec.query === undefined ? undefined : query,
    body: spec.body,
    handle: async (request, reply) => {
      const asked: unknown = {
        identity: request.identity,
        params: checkParams(request.params),
        query: checkQuery(parseQuery(query, request.query)),
        body: spec.body === undefined ? undefined : checkBody(requiredBody(request.body)),
        request,
        reply,
      }
      if (!isAsked<Params, Query, Body>(asked)) throw new ProblemError('UNAUTHENTICATED')
      return handle(asked)
    },
  }
}

const NO_BODY = Type.Undefined()

/** The parts were checked one by one, each by the schema whose type is claimed here; what is left is that somebody asks. */
function isAsked<Params extends TProperties, Query extends TProperties, Body extends TSchema>(
  asked: unknown,
): asked is Asked<Params, Query, Body> {
  return typeof asked === 'object' && asked !== null && 'identity' in asked && asked.identity !== undefined
}

function strictObject(properties: TProperties | undefined) {
  return Type.Object(properties ?? {}, { additionalProperties: false })
}

function requiredBody(body: unknown): unknown {
  if (body === undefined) throw new ProblemError('MALFORMED_JSON', 'Expected a body of application/json.')
  return body
}

/** Returns what fits, and otherwise throws the problem with the place of the first thing that does not. */
function checker(schema: TSchema, code: ProblemCode): (value: unknown) => unknown {
  const compiled = Compile(schema)
  return (value) => {
    if (compiled.Check(value)) return value
    const { argument, expected } = firstDefect(compiled.Errors(value))
    throw new ProblemError(code, `${argument}: ${expected}`, { argument })
  }
}

interface Defect {
  readonly instancePath: string
  readonly message: string
  readonly params?: object
}

/** The validator tells what was expected and where; never the value. */
function firstDefect(defects: Iterable<Defect>): { readonly argument: string; readonly expected: string } {
  const all = [...defects]
  // "schema is false" is how it says that a field is not known; its path names it.
  const stranger = all.find(({ message }) => message === 'schema is false')
  if (stranger !== undefined) return { argument: placeOf(stranger.instancePath), expected: 'unknown field' }
  const [first] = all
  const missing = namesIn(first?.params, 'requiredProperties')[0]
  if (missing !== undefined)
    return { argument: placeOf(`${first?.instancePath ?? ''}/${missing}`), expected: 'missing' }
  return { argument: placeOf(first?.instancePath ?? ''), expected: first?.message ?? 'not valid' }
}

function namesIn(params: object | undefined, field: string): readonly string[] {
  const names: unknown = Object.entries(params ?? {}).find(([name]) => name === field)?.[1]
  return Array.isArray(names) ? names.map(String) : []
}

/** `/instructions/0/payload` → `instructions[0].payload` */
function placeOf(pointer: string): string {
  const steps = pointer.split('/').slice(1)
  const place = steps.map((step) => (/^\d{1,6}$/.test(step) ? `[${step}]` : keyPath('', step, 0))).join('')
  return place.replace(/^\./, '').slice(0, 200) || 'body'
}

/**
 * Parses the numbers and booleans of a query, whose values are all text, by its schema. Accepts only their plain spelling;
 * any other text stays, and the schema refuses it.
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
