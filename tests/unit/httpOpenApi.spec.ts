import { Compile } from '#typebox/compile'
import type { TSchema } from '#typebox'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { markdownPage } from '../support/markdownPage.js'
import { problemCodesOf, PROBLEMS, type Example, type Route } from '../../libs/http/index.js'
import { useTestDatabase } from '../support/database.js'
import { openHttpFixture, type HttpFixture } from '../support/httpFixture.js'
import { bodyText, resolveExampleIds, seedExamples, type ExampleIds } from '../support/httpExamples.js'

/** Tests that the OpenAPI document is well-formed and that every example in it works. */

const db = await useTestDatabase()
let fixture: HttpFixture
let exampleIds: ExampleIds
let document: OpenApi
beforeAll(async () => {
  exampleIds = await seedExamples(db)
  fixture = await openHttpFixture(db, { accessTokenOwner: 'bob' })
  document = JSON.parse(await (await fetch(`${fixture.address}/openapi.json`)).text())
})
afterAll(async () => {
  await fixture.close()
})

interface Operation {
  readonly operationId: string
  readonly summary: string
  readonly tags: readonly string[]
  readonly security: readonly object[]
  readonly parameters: readonly { name: string; in: string; required: boolean; schema: TSchema; example?: unknown }[]
  readonly requestBody?: { required: boolean; content: Record<string, { schema: TSchema; example?: unknown }> }
  readonly responses: Record<string, { description: string; content: Record<string, Media> }>
}

interface Media {
  readonly schema: TSchema & { $ref?: string }
  readonly example?: unknown
  readonly examples?: Record<string, { value: unknown }>
}

interface OpenApi {
  readonly openapi: string
  readonly info: Record<string, unknown>
  readonly tags: readonly { name: string }[]
  readonly paths: Record<string, Record<string, Operation>>
  readonly components: { schemas: Record<string, TSchema>; securitySchemes: Record<string, unknown> }
}

function operations(): (readonly [string, string, Operation])[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => [path, method, operation] as const),
  )
}

function call(route: Route, example: Example): Promise<Response> {
  const path = route.path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(example.params?.[name] ?? ''),
  )
  const query = new URLSearchParams(example.query).toString()
  return fixture.call(query === '' ? path : `${path}?${query}`, {
    method: route.method,
    headers: { ...(example.body === undefined ? {} : { 'content-type': 'application/json' }), ...example.headers },
    ...(example.body === undefined ? {} : { body: bodyText(example) }),
  })
}

describe('the OpenAPI document', () => {
  test('follows the structure of OpenAPI 3.1', () => {
    expect(document.openapi).toBe('3.1.0')
    expect(Object.keys(document).toSorted()).toEqual(['components', 'info', 'openapi', 'paths', 'servers', 'tags'])
    expect(document.info).toMatchObject({ title: expect.any(String), version: expect.any(String) })
    expect(operations().length).toBeGreaterThan(35)
    const ids = operations().map(([, , { operationId }]) => operationId)
    expect(new Set(ids).size).toBe(ids.length)
    for (const [path, method, operation] of operations()) {
      const where = `${method} ${path}`
      expect([where, path]).toEqual([where, expect.stringMatching(/^\/[a-zA-Z0-9{}/-]*$/)])
      expect(['get', 'put', 'post', 'delete']).toContain(method)
      expect(Object.keys(operation).filter((key) => !OPERATION_KEYS.has(key))).toEqual([])
      expect([where, operation.summary.length > 0, operation.tags.length]).toEqual([where, true, 1])
      expect(document.tags.map(({ name }) => name)).toContain(operation.tags[0])
      // Every parameter of the path is described, and no other.
      const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
      const described = operation.parameters.filter((one) => one.in === 'path')
      expect([where, described.map(({ name }) => name)]).toEqual([where, named])
      expect(described.every(({ required }) => required)).toBe(true)
      for (const parameter of operation.parameters) {
        expect(['path', 'query', 'header']).toContain(parameter.in)
        expect([where, parameter.name, isSchema(parameter.schema)]).toEqual([where, parameter.name, true])
      }
      expect(method === 'get' && operation.requestBody !== undefined).toBe(false)
      for (const [status, { description, content }] of Object.entries(operation.responses)) {
        expect(status).toMatch(/^[2345]\d\d$/)
        expect([where, status, description.length > 0]).toEqual([where, status, true])
        for (const { schema } of Object.values(content)) {
          expect([where, status, schema.$ref === undefined ? isSchema(schema) : resolves(schema.$ref)]).toEqual([
            where,
            status,
            true,
          ])
        }
      }
      for (const scheme of operation.security.flatMap(Object.keys)) {
        expect(Object.keys(document.components.securitySchemes)).toContain(scheme)
      }
    }
  })

  test('has exactly the routes of the server', () => {
    const served = fixture.routes.map(({ method, path }) => `${method.toLowerCase()} ${path}`).toSorted()
    expect(
      operations()
        .map(([path, method]) => `${method} ${path}`)
        .toSorted(),
    ).toEqual(served)
  })

  test('has only examples that fit their schemas', () => {
    const problem = document.components.schemas['Problem']!
    const shown: (readonly [string, readonly unknown[]])[] = []
    for (const [path, method, { parameters, requestBody, responses }] of operations()) {
      const where = `${method} ${path}`
      const media = Object.values(responses).flatMap(({ content }) => Object.values(content))
      for (const { schema, example } of [...parameters, ...Object.values(requestBody?.content ?? {}), ...media]) {
        if (example !== undefined) shown.push([where, defectsOf(schema, example)])
      }
      for (const { value } of media.flatMap(({ examples = {} }) => Object.values(examples))) {
        shown.push([where, defectsOf(problem, value)])
      }
    }
    expect(shown.length).toBeGreaterThan(300)
    expect(shown.filter(([, defects]) => defects.length > 0)).toEqual([])
  })

  test('is public, and so is its page /docs, which has no inline script or style', async () => {
    for (const path of ['/openapi.json', '/docs', '/docs/page.js', '/docs/page.css']) {
      const response = await fetch(`${fixture.address}${path}`)
      expect([path, response.status]).toEqual([path, 200])
      expect(response.headers.get('content-security-policy')).toContain("default-src 'self'; script-src 'self'")
      expect(response.headers.get('content-security-policy')).not.toContain('unsafe')
    }
    const page = await (await fetch(`${fixture.address}/docs`)).text()
    expect(page).not.toMatch(/<style|style="|<script>|\son[a-z]+=|https?:/)
  })
})

/** Routes that need an identity provider. httpSignIn.spec.ts calls them. */
const AT_PROVIDER = new Set(['POST /v1/sign-in', 'POST /v1/session'])

describe('every route', () => {
  test('answers its documented example with the documented status and schema', async () => {
    const executed: string[] = []
    // The order of the routes matters: a job is defined before it is deleted.
    for (const route of fixture.routes) {
      const { path, method } = route
      if (route.access === 'signature' || path === '/v1/stream' || AT_PROVIDER.has(`${method} ${path}`)) continue
      const where = `${method} ${path}`
      const example = resolveExampleIds(exampleIds, route.example!)
      const response = await call(route, example)
      const text = await response.text()
      expect([where, response.status, response.ok ? '' : text]).toEqual([where, example.status, ''])
      const { schema } = route.answers[example.status]!
      expect([where, schema === undefined ? [] : defectsOf(schema, JSON.parse(text))]).toEqual([where, []])
      // An example with an empty list would not show the shape of an item.
      const isEmpty = method === 'GET' && !EMPTY_HERE.has(path) && /^\{"\w+":\[\]/.test(text)
      expect([where, isEmpty]).toEqual([where, false])
      executed.push(where)
    }
    expect(executed.length).toBe(operations().length - 1 - AT_PROVIDER.size)
  })

  test('declares only known problem codes, and every code is declared by some route', () => {
    const declared = new Set([...fixture.routes.flatMap(problemCodesOf), ...WEBHOOKS])
    expect([...declared].toSorted()).toEqual(
      Object.keys(PROBLEMS)
        .filter((code) => code !== 'NOT_FOUND' && code !== 'METHOD_NOT_ALLOWED')
        .toSorted(),
    )
  })

  test('is listed in docs/reference/http.md with its scope', async () => {
    const page = markdownPage('docs/reference/http.md')
    for (const { method, path, access } of fixture.routes) {
      if (access === 'open') continue
      const row = page.split('\n').find((line) => line.startsWith(`| \`${method} ${path}\``))
      expect([`${method} ${path}`, row?.split('|')[2]?.trim()]).toEqual([`${method} ${path}`, access])
    }
  })
})

const OPERATION_KEYS = new Set(['operationId', 'tags', 'summary', 'security', 'parameters', 'requestBody', 'responses'])
/**
 * Lists that are empty here: the fixture has no alert rules and no databases, and earlier examples end their pauses.
 */
const EMPTY_HERE = new Set(['/v1/alerts', '/v1/databases', '/v1/pauses'])
const WEBHOOKS = [
  'WEBHOOK_SOURCE_UNKNOWN',
  'SIGNATURE_INVALID',
  'TIMESTAMP_OUT_OF_TOLERANCE',
  'CONTENT_DIFFERS',
  'INVALID_MESSAGE',
] as const

/** Returns whether the schema compiles and is not empty. */
function isSchema(schema: TSchema): boolean {
  return Object.keys(schema).length > 0 && Compile(schema) !== undefined
}

function resolves(ref: string): boolean {
  const name = /^#\/components\/schemas\/(\w+)$/.exec(ref)?.[1] ?? ''
  return document.components.schemas[name] !== undefined
}

function defectsOf(schema: TSchema, value: unknown): unknown[] {
  const compiled = Compile(schema)
  return compiled.Check(value)
    ? []
    : [...compiled.Errors(value)].map(({ instancePath, message }) => `${instancePath} ${message}`)
}
