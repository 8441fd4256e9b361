import { Type, type TSchema } from '#typebox'
import { PROBLEMS, type ProblemCode } from './Problem.js'
import { scopesOf, type Route } from './routes/route.js'
import { oneOf, shape } from './shapes/common.js'

interface OpenApiOptions {
  readonly version: string
}

/** Returns the OpenAPI 3.1 document of the routes. OpenAPI 3.1 accepts their schemas unchanged. */
export function openApiDocument(routes: readonly Route[], { version }: OpenApiOptions): object {
  const paths: Record<string, Record<string, object>> = {}
  for (const route of routes) {
    paths[route.path] = { ...paths[route.path], [route.method.toLowerCase()]: operationOf(route) }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Symphony',
      version,
      summary: 'Money-safe dispatch on PostgreSQL.',
      description:
        'Whole numbers that may exceed 2^53 are text. Times are UTC. Unknown query parameters are refused. HEAD returns the headers of GET.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    tags: [...new Set(routes.map(({ tag }) => tag))].map((name) => ({ name, description: TAGS[name] })),
    paths,
    components: {
      schemas: { Problem: ProblemShape },
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer', description: 'A key, the process’s own token, or a JWT.' },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: '__Host-symphony-session',
          description: 'Session of the dashboard. Each request also has the header Symphony-Csrf: 1.',
        },
      },
    },
  }
}

/** Descriptions of tags, with rules for all their routes. */
const TAGS: Readonly<Record<string, string>> = {
  instructions:
    'Instruction id and idempotency key together identify a payment for ever. The same pair with the same content returns ' +
    'the first item (200); with other content it is refused (409 IDEMPOTENCY_CONFLICT). A caller may use an idempotency ' +
    'key for one instruction only: with another one it is refused (409 KEY_REUSED, which names the first instruction). ' +
    'Callers are identified by the owner of the key, or by issuer and person of a token. Without an instruction id, the key is the id.',
}

function operationOf(route: Route): object {
  const { path, method, tag, summary, example } = route
  const content = bodyContentOf(route)
  return {
    operationId: operationIdOf(method, path),
    tags: [tag],
    summary,
    security: securityOf(route),
    parameters: [
      ...parametersIn('path', route.params, example?.params),
      ...parametersIn('query', route.query, example?.query),
      ...parametersIn('header', route.headers, example?.headers),
    ],
    ...(content === undefined ? {} : { requestBody: { required: true, content } }),
    responses: { ...successesOf(route), ...problemsOf(route) },
  }
}

function bodyContentOf({ body, upload, example }: Route): object | undefined {
  if (upload === undefined) return body === undefined ? undefined : jsonOf(body, example?.body)
  const shown = example?.headers?.['content-type']
  return Object.fromEntries(
    upload.map((type) => [type, { schema: { type: 'string' }, ...(type === shown ? { example: example?.body } : {}) }]),
  )
}

/**
 * Returns alternative security requirements: a caller must meet one of them. Empty for a route without authentication.
 */
function securityOf(route: Route): readonly object[] {
  const { access } = route
  if (access === 'open' || access === 'signature') return []
  const scopes = access === 'any' ? [access] : scopesOf(route)
  return [...scopes.map((scope) => ({ bearer: [scope] })), ...scopes.map((scope) => ({ session: [scope] }))]
}

function operationIdOf(method: string, path: string): string {
  const words = path.split(/[^A-Za-z]+/).filter((word) => word !== '' && word !== 'v')
  return [method.toLowerCase(), ...words.map((word) => word[0]?.toUpperCase() + word.slice(1))].join('')
}

interface ObjectSchema {
  readonly properties: Readonly<Record<string, TSchema>>
  readonly required?: readonly string[]
}

function parametersIn(
  place: 'path' | 'query' | 'header',
  schema: ObjectSchema | undefined,
  examples: Readonly<Record<string, string>> = {},
): object[] {
  return Object.entries(schema?.properties ?? {}).map(([name, property]) => ({
    name,
    in: place,
    required: place === 'path' || schema?.required?.includes(name) === true,
    schema: property,
    // JSON.stringify omits undefined.
    example: examples[name] === undefined ? undefined : asTyped(property, examples[name]),
  }))
}

/** Converts an example to the type of its schema, because path and query parameters are text. */
function asTyped(schema: TSchema, text: string): unknown {
  const type = 'type' in schema ? schema.type : undefined
  return type === 'integer' || type === 'boolean' ? JSON.parse(text) : text
}

function successesOf({ answers, example }: Route): Record<string, object> {
  return Object.fromEntries(
    Object.entries(answers).map(
      ([status, { description, schema, contentType = 'application/json', otherTypes = [] }]) => {
        const shown = Number(status) === example?.status ? example.answer : undefined
        const content =
          schema === undefined
            ? textOf([contentType, ...otherTypes])
            : { ...jsonOf(schema, shown), ...textOf(otherTypes) }
        return [status, { description, content }]
      },
    ),
  )
}

function textOf(types: readonly string[]): object {
  return Object.fromEntries(types.map((type) => [type.split(';', 1)[0], { schema: { type: 'string' } }]))
}

function jsonOf(schema: TSchema, example: unknown): object {
  return { 'application/json': { schema, ...(example === undefined ? {} : { example }) } }
}

function problemsOf(route: Route): Record<string, object> {
  const byStatus = new Map<number, ProblemCode[]>()
  for (const code of problemCodesOf(route)) {
    const { status } = PROBLEMS[code]
    byStatus.set(status, [...(byStatus.get(status) ?? []), code])
  }
  return Object.fromEntries(
    [...byStatus].map(([status, codes]) => [
      String(status),
      {
        description: codes.map((code) => `${code}: ${PROBLEMS[code].title}.`).join(' '),
        content: {
          'application/problem+json': {
            schema: { $ref: '#/components/schemas/Problem' },
            examples: Object.fromEntries(codes.map((code) => [code, { value: problemExample(code) }])),
          },
        },
      },
    ]),
  )
}

function problemExample(code: ProblemCode): object {
  const { status, title } = PROBLEMS[code]
  const type = `urn:symphony:problem:${code.toLowerCase().replaceAll('_', '-')}`
  return { type, title, status, code, requestId: '2f1c8a52-6a0d-4a53-9f7e-0d6f2b1c9e11' }
}

/** Returns every problem code of a route: its own and the common ones. */
export function problemCodesOf({ access, participants, body, upload, query, problems }: Route): readonly ProblemCode[] {
  const known = access !== 'open' && access !== 'signature'
  return [
    ...new Set<ProblemCode>([
      'BAD_REQUEST',
      ...problems,
      ...(known ? KNOWN : []),
      ...(known && access !== 'any' ? (['SCOPE_MISSING'] as const) : []),
      ...(known && participants === 'refused' ? (['PARTICIPANT_REFUSED'] as const) : []),
      ...(scopesOf({ access }).some((scope) => scope === 'operate' || scope === 'ingest')
        ? (['OPERATE_UNAVAILABLE'] as const)
        : []),
      ...(body === undefined ? [] : (['MALFORMED_JSON'] as const)),
      ...(body === undefined && upload === undefined ? [] : BODY),
      ...(query === undefined && known ? (['INVALID_QUERY'] as const) : []),
      ...(access === 'open' ? [] : (['DATABASE_UNAVAILABLE'] as const)),
      'INTERNAL',
    ]),
  ]
}

const KNOWN: readonly ProblemCode[] = [
  'UNAUTHENTICATED',
  'KEY_EXPIRED',
  'KEY_REVOKED',
  'SESSION_ENDED',
  'CROSS_SITE_REQUEST',
  'RATE_LIMITED',
  'IDENTITY_PROVIDER_UNAVAILABLE',
]
const BODY: readonly ProblemCode[] = ['BODY_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE']

const ProblemShape = shape(
  {
    type: Type.String({ pattern: '^urn:symphony:problem:[a-z-]+$' }),
    title: Type.String(),
    status: Type.Integer({ minimum: 400, maximum: 599 }),
    code: oneOf(Object.keys(PROBLEMS), 'code for programs'),
    detail: Type.Optional(Type.String()),
    argument: Type.Optional(Type.String({ description: 'invalid argument' })),
    instructionId: Type.Optional(Type.String({ description: 'KEY_REUSED: instruction that the key belongs to' })),
    reason: Type.Optional(
      Type.String({ description: 'NOT_CANCELLABLE: LEASED, OUTCOME_UNKNOWN, CANCELLED (an earlier request did it) …' }),
    ),
    requestId: Type.String(),
  },
  { description: 'problem; it never contains a payload' },
)
