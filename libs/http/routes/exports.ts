import { Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { csvRecord, isObject } from '../../core/index.js'
import type { Authenticator } from '../access/Authenticator.js'
import { OneAtATime } from '../OneAtATime.js'
import { ProblemError } from '../Problem.js'
import type { Route } from './route.js'

/** Media types of the export formats. JSON is not an export but a page. */
const MEDIA_TYPES = { csv: 'text/csv; charset=utf-8', ndjson: 'application/x-ndjson' } as const
export type ExportFormat = keyof typeof MEDIA_TYPES
export const EXPORT_TYPES = Object.values(MEDIA_TYPES)

/** Maximum number of concurrent exports of all callers, because each keeps a connection of the pool busy. */
const EXPORTS_MAX = 8
/** Time after which a client that reads nothing is disconnected. */
const UNREAD_MS = 60_000

interface ExportedFile {
  readonly name: string
  readonly format: ExportFormat
  readonly columns: readonly Column[]
  /** Rows in pages. The first page is read before the response starts, so that its error can become a problem. */
  readonly pages: AsyncGenerator<readonly unknown[], void>
}

/** Path of a value in a row. */
type Column = readonly string[]

/** Sends rows as CSV or NDJSON. Reads the next page only after the client has received the previous one. */
export class Exports {
  readonly #running = new OneAtATime('export', EXPORTS_MAX)
  readonly #authenticator: Authenticator

  constructor(authenticator: Authenticator) {
    this.#authenticator = authenticator
  }

  /**
   * Adds exports to every list with the parameter `format`. An export calls the route of the list page by page, so
   * filters, rights and hidden fields are the same.
   */
  cover(routes: readonly Route[]): readonly Route[] {
    return routes.map((route) => {
      const schema = route.answers[200]?.schema
      if (schema === undefined || !isList(route)) return route
      const columns = columnsOf(memberOf(schema, 'properties', 'items', 'items'))
      const name = route.path.split('/').findLast((word) => /^\w+$/.test(word)) ?? 'export'
      return {
        ...route,
        answers: { ...route.answers, 200: { ...route.answers[200]!, otherTypes: EXPORT_TYPES } },
        problems: [...new Set([...route.problems, 'INVALID_QUERY' as const])],
        handle: async (request, reply) => {
          const format = formatOf(request.query)
          if (format === undefined) return route.handle(request, reply)
          return this.send(request, reply, { name, format, columns, pages: pagesOf(route, request, reply) })
        },
      }
    })
  }

  async send(request: FastifyRequest, reply: FastifyReply, file: ExportedFile): Promise<FastifyReply> {
    const { name, format, pages } = file
    const { identity } = request
    if (identity === undefined) throw new ProblemError('UNAUTHENTICATED')
    const end = this.#running.begin(identity)
    const first = await pages.next().catch((error: unknown) => {
      end()
      throw error
    })
    void reply.type(MEDIA_TYPES[format]).header('content-disposition', `attachment; filename="${name}.${format}"`)
    if (request.method === 'HEAD') {
      end()
      return reply.serializer(String).send('')
    }
    const check = async () => void (await this.#authenticator.identify(request))
    const text = disconnectUnread(textOf(file, first.value ?? [], check), () => reply.raw.destroy())
    const stream = Readable.from(text, { objectMode: false })
    stream.once('close', end)
    return reply.send(stream)
  }
}

/** Returns whether the route is a list that can be exported. An upload also has `format`, but no cursor. */
function isList({ query }: Route): boolean {
  return query !== undefined && 'cursor' in query.properties && 'format' in query.properties
}

const PAGE_SIZE = '500'

async function* pagesOf(
  route: Route,
  request: FastifyRequest,
  reply: FastifyReply,
): AsyncGenerator<readonly unknown[], void> {
  const query = queryOf(request.query)
  for (let cursor: string | null | undefined; cursor !== null;) {
    const paging = { limit: PAGE_SIZE, ...(cursor === undefined ? {} : { cursor }) }
    const page = await route.handle(request, reply, { ...query, ...paging })
    if (!isPage(page)) throw new TypeError(`${route.path} returned no page`)
    yield page.items
    cursor = page.next
  }
}

/**
 * Yields the text of each page.
 *
 * @param check throws if the key was revoked or expired since the export began
 */
async function* textOf(
  { format, columns, pages }: ExportedFile,
  first: readonly unknown[],
  check: () => Promise<void>,
): AsyncGenerator<string, void> {
  const lineOf = (item: unknown) =>
    format === 'csv'
      ? `${csvRecord(columns.map((column) => memberOf(item, ...column)))}\r\n`
      : `${JSON.stringify(item)}\n`
  if (format === 'csv') yield `${csvRecord(columns.map((column) => column.join('.')))}\r\n`
  if (first.length > 0) yield first.map(lineOf).join('')
  await check()
  for await (const items of pages) {
    if (items.length > 0) yield items.map(lineOf).join('')
    await check()
  }
}

/**
 * Yields the texts unchanged. Calls `disconnect` if the reader takes none for a minute, because an idle export counts
 * towards EXPORTS_MAX.
 */
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

interface Page {
  readonly items: readonly unknown[]
  readonly next: string | null
}

function isPage(value: unknown): value is Page {
  return isObject(value) && Array.isArray(value['items'])
}

/** Returns the paths of all values in an item. An object becomes one column per field, a list becomes one column. */
function columnsOf(schema: unknown, path: Column = []): readonly Column[] {
  const properties = memberOf(schema, 'properties') ?? memberOf(objectIn(schema), 'properties')
  if (!isObject(properties)) return [path]
  return Object.entries(properties).flatMap(([name, property]) => columnsOf(property, [...path, name]))
}

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
