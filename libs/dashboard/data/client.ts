import type { Problem } from '../../http/index.js'
import { learnServerTime } from './clock.js'
import { credentialWasRejected, readToken } from './session.js'

/** Problem that a page shows, in the server's words, or in the dashboard's if the server sent none. */
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
  readonly method?: 'GET' | 'POST' | 'PUT' | 'DELETE'
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>
  /** File, or value to send as JSON. */
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

/** Sends a request to the API and returns its JSON. The dashboard calls no other origin. */
export async function request<T>(path: string, options: Request = {}): Promise<T> {
  const response = await send(path, options)
  const answer: T = await response.json()
  return answer
}

/** Sends a request and returns the response, for callers that read a stream. */
export async function send(path: string, { method = 'GET', query, body, headers, signal }: Request): Promise<Response> {
  const token = readToken()
  let response: Response
  try {
    response = await fetch(addressOf(`${path}${queryText(query)}`), {
      method,
      cache: 'no-store',
      credentials: token === null ? 'same-origin' : 'omit',
      headers: {
        // The server accepts its cookie only with this header, which another site cannot send.
        ...(token === null ? { 'symphony-csrf': '1' } : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: body instanceof Blob ? body : JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    })
  } catch (error) {
    if (signal?.aborted === true) throw error
    throw new RequestError(method === 'GET' ? UNREACHABLE : UNANSWERED)
  }
  learnServerTime(response.headers.get('date'))
  if (response.ok) return response
  if (response.status === 401) credentialWasRejected(token)
  throw new RequestError(await readProblem(response))
}

/**
 * Returns the absolute URL of a path of the API, resolved against the address of the page, because a proxy may serve
 * page and API below another path.
 */
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
  detail: 'It may be restarting, or the network is down. This page has changed nothing.',
  requestId: undefined,
}

/** Lost answer of a request that changes data. The server may have received the request. */
const UNANSWERED: ShownProblem = {
  ...UNREACHABLE,
  detail: 'The action may have been carried out. Check before you repeat it.',
}

const BROKEN: ShownProblem = {
  status: 0,
  code: 'DASHBOARD',
  title: 'The dashboard has an error',
  detail: undefined,
  requestId: undefined,
}
