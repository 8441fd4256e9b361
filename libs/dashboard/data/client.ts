import type { Problem } from '../../http/index.js'
import { learnServerTime } from './clock.js'
import { readToken, tokenWasRejected } from './session.js'

/** What a page shows when an answer was not a success: the server's own words, or ours where it said none. */
export interface ShownProblem {
  readonly status: number
  readonly code: string
  readonly title: string
  readonly detail: string | undefined
  readonly requestId: string | undefined
}

export class RequestError extends Error {
  readonly problem: ShownProblem

  constructor(problem: ShownProblem) {
    super(problem.title)
    this.name = 'RequestError'
    this.problem = problem
  }
}

interface Request {
  readonly method?: 'GET' | 'POST'
  readonly query?: Readonly<Record<string, string | number | undefined>>
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

/** One request of the API, and its answer as the published shape. No other origin is ever asked. */
export async function request<T>(path: string, options: Request = {}): Promise<T> {
  const response = await send(path, options)
  const answer: T = await response.json()
  return answer
}

/** The same for an answer that is read as it comes. */
export async function send(path: string, { method = 'GET', query, body, headers, signal }: Request): Promise<Response> {
  const token = readToken()
  let response: Response
  try {
    response = await fetch(addressOf(`${path}${queryText(query)}`), {
      method,
      cache: 'no-store',
      credentials: 'omit',
      headers: {
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    })
  } catch (error) {
    if (signal?.aborted === true) throw error
    throw new RequestError(UNREACHABLE)
  }
  learnServerTime(response.headers.get('date'))
  if (response.ok) return response
  if (response.status === 401) tokenWasRejected(token)
  throw new RequestError(await readProblem(response))
}

/** Beside the page, wherever that is served: a proxy may have put a path before both. */
export function addressOf(path: string): string {
  return new URL(`.${path}`, document.baseURI).href
}

export function problemOf(error: unknown): ShownProblem {
  return error instanceof RequestError ? error.problem : { ...BROKEN, detail: String(error) }
}

async function readProblem(response: Response): Promise<ShownProblem> {
  const given: Partial<Problem> = await response.json().catch(() => ({}))
  const { status, headers } = response
  return {
    status,
    code: given.code ?? `HTTP_${status}`,
    title: given.title ?? 'The server answered with an error',
    detail: given.detail,
    requestId: given.requestId ?? headers.get('x-request-id') ?? undefined,
  }
}

function queryText(query: Request['query'] = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '')
  return given.length === 0 ? '' : `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`
}

const UNREACHABLE: ShownProblem = {
  status: 0,
  code: 'UNREACHABLE',
  title: 'The server cannot be reached',
  detail: 'It may be restarting, or the network between is down. Nothing was changed by this page.',
  requestId: undefined,
}

const BROKEN: ShownProblem = {
  status: 0,
  code: 'DASHBOARD',
  title: 'The dashboard made a mistake',
  detail: undefined,
  requestId: undefined,
}
