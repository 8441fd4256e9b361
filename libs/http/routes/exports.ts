import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { csvRecord, isObject } from '../../core/index.js'
import type { Authenticator } from '../access/Authenticator.js'
import { OneAtATime } from '../OneAtATime.js'
import { ProblemError } from '../Problem.js'
import type { Route } from './route.js'

/** Media types of the formats besides JSON, which is a page. */
const MEDIA_TYPES = { csv: 'text/csv; charset=utf-8', ndjson: 'application/x-ndjson' } as const
type ExportFormat = keyof typeof MEDIA_TYPES

/** Maximum number of exports of all callers together, because each keeps a connection of the pool busy. */
const EXPORTS_MAX = 8
/** Time after which a client that reads nothing is disconnected. */
const UNREAD_MS = 60_000

/**
 * Lets every list with the parameter `format` return all its rows as a file. Reads page after page by the route of the
 * list, so filters, rights and hidden fields are the same. Reads a page only when the client has taken the one before.
 */
export function withExports(routes: readonly Route[], authenticator: Authenticator): readonly Route[] {
  const running = new OneAtATime('export', EXPORTS_MAX)
  return routes.map((route) => {
    const schema = route.answers[200]?.schema
    if (schema === undefined || !isList(route)) return route
    const columns = columnsOf(memberOf(schema, 'properties', 'items', 'items'))
    return {
      ...route,
      answers: { ...route.answers, 200: { ...route.answers[200]!, otherTypes: Object.values(MEDIA_TYPES) } },
      problems: [...new Set([...route.problems, 'INVALID_QUERY' as const])],
      handle: async (request, reply) => {
        const format = formatOf(request.query)
        if (format === undefined) return route.handle(request, reply)
        return sendExport({ route, columns, format, running, authenticator }, request, reply)
      },
    }
  })
}

/** Returns whether the query of the route has the parameters of a list. An upload has a `format` too, and no cursor. */
function isList({ query }: Route): boolean {
  return query !== undefined && 'cursor' in query.properties && 'format' in query.properties
}

interface Export {
  readonly route: Route
  readonly columns: readonly Column[]
  readonly format: ExportFormat
  readonly running: OneAtATime
  readonly authenticator: Authenticator
}

async function sendExport(
  { route, columns, format, running, authenticator }: Export,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const query = queryOf(request.query)
  const { identity } = request
  if (identity === undefined) throw new ProblemError('UNAUTHENTICATED')
  const read = async (cursor: string | null) => {
    const page = await route.handle(request, reply, {
      ...query,
      limit: PAGE_SIZE,
      ...(cursor === null ? {} : { cursor }),
    })
    if (isPage(page)) return page
    throw new TypeError(`${route.path} returned no page`)
  }
  const end = running.begin(identity)
  const first = await read(null).catch((error: unknown) => {
    end()
    throw error
  })
  const name = route.path.split('/').findLast((word) => /^\w+$/.test(word))
  void reply.type(MEDIA_TYPES[format]).header('content-disposition', `attachment; filename="${name}.${format}"`)
  if (request.method === 'HEAD') {
    end()
    return reply.serializer(String).send('')
  }
  const text = textOf(first, { format, columns, read, check: () => requireAllowed(authenticator, request) })
  const file = Readable.from(
    disconnectUnread(text, () => reply.raw.destroy()),
    { objectMode: false },
  )
  file.once('close', end)
  return reply.send(file)
}

const PAGE_SIZE = '500'

/** Throws if the key or session was revoked or expired since the export began. */
async function requireAllowed(authenticator: Authenticator, request: FastifyRequest): Promise<void> {
  await authenticator.identify(request)
}

interface Page {
  readonly items: readonly unknown[]
  readonly next: string | null
}

interface TextOptions {
  readonly format: ExportFormat
  readonly columns: readonly Column[]
  readonly read: (cursor: string) => Promise<Page>
  readonly check: () => Promise<void>
}

async function* textOf(first: Page, { format, columns, read, check }: TextOptions): AsyncGenerator<string, void> {
  const lineOf = (item: unknown) =>
    format === 'csv'
      ? `${csvRecord(columns.map((column) => memberOf(item, ...column)))}\r\n`
      : `${JSON.stringify(item)}\n`
  if (format === 'csv') yield `${csvRecord(columns.map((column) => column.join('.')))}\r\n`
  for (let page = first; ; page = await read(page.next)) {
    if (page.items.length > 0) yield page.items.map(lineOf).join('')
    if (page.next === null) return
    await check()
  }
}

/** Yields the same texts. Calls `disconnect` if the reader takes none for a minute, because an export has a limit. */
async function* disconnectUnread(texts: AsyncIterable<string>, disconnect: () => void): AsyncGenerator<string, void> {
  for await (const text of texts) {
    const timer = setTimeout(disconnect, UNREAD_MS)
    try {
      yield text
    } finally {
      clearTimeout(timer)
    }
  }
}

function formatOf(query: unknown): ExportFormat | undefined {
  const format = isObject(query) ? query['format'] : undefined
  return format === 'csv' || format === 'ndjson' ? format : undefined
}

function queryOf(query: unknown): Readonly<Record<string, unknown>> {
  const given = isObject(query) ? query : {}
  const paged = ['cursor', 'limit'].find((name) => name in given)
  if (paged === undefined) return given
  throw new ProblemError('INVALID_QUERY', `${paged}: an export has all rows; remove this parameter`, {
    argument: paged,
  })
}

function isPage(value: unknown): value is Page {
  return isObject(value) && Array.isArray(value['items'])
}

/** Path of a value in an item. */
type Column = readonly string[]

/** Returns the paths of all values in an item. An object has columns of its own, and a list is one column. */
function columnsOf(schema: unknown, path: Column = []): readonly Column[] {
  const properties = memberOf(schema, 'properties') ?? memberOf(objectIn(schema), 'properties')
  if (!isObject(properties)) return [path]
  return Object.entries(properties).flatMap(([name, property]) => columnsOf(property, [...path, name]))
}

/** Returns the object of a schema that also allows null. */
function objectIn(schema: unknown): unknown {
  const choices = memberOf(schema, 'anyOf')
  return Array.isArray(choices) ? choices.find((choice) => memberOf(choice, 'properties') !== undefined) : undefined
}

function memberOf(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (place, name) => (isObject(place) && Object.hasOwn(place, name) ? place[name] : undefined),
    value,
  )
}
