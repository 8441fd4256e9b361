import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import {
  ArgumentRangeError,
  boundedInteger,
  InvalidArgumentError,
  parseStrictJson,
  requiredId,
  requiredText,
  SymphonyError,
} from '../../core/index.js'
import { FileRailBook } from './FileRailBook.js'
import type { BookPayment } from './RailBook.js'

export interface BookServerOptions {
  readonly file: string
  /** TCP port. @default 0: any free port */
  readonly port?: number
}

export interface BookServer {
  readonly url: string
  readonly close: () => Promise<void>
}

/**
 * Serves a rail book over HTTP on this machine. `startRailBook` runs it in its own process, so that killing workers
 * does not affect it.
 *
 * | request | answer |
 * | --- | --- |
 * | `POST /payments` | 200 with the receipt; 410 after its `notAfter` |
 * | `GET /payments?from=POSITION` | 200 with a page of payments |
 * | `GET /payments/REFERENCE` | 200 with the rail's reference; 404 if nothing was paid under it |
 */
export async function serveRailBook({ file, port = 0 }: BookServerOptions): Promise<BookServer> {
  boundedInteger('port', port, { min: 0, max: 65_535 })
  const book = new FileRailBook(requiredText('file', file, FILE_LENGTH_MAX))
  const server = createServer((request, response) => {
    void answer(book, request, response)
  })
  // Clients close idle connections earlier. So the server never closes a connection to which a client is writing a
  // payment.
  server.keepAliveTimeout = 60_000
  await listening(server, port)
  const address = server.address()
  if (address === null || typeof address === 'string') throw new InvalidArgumentError('port', 'expected a TCP port')
  return {
    url: `http://127.0.0.1:${address.port}`,
    close: async () => {
      const closed = once(server, 'close')
      server.close()
      server.closeIdleConnections()
      const patience = setTimeout(() => server.closeAllConnections(), CLOSE_PATIENCE_MS)
      await closed
      clearTimeout(patience)
      await book.close()
    },
  }
}

const PAYMENTS = '/payments'
const FILE_LENGTH_MAX = 4_096
const BODY_BYTES_MAX = 4_096
/** Time that a close waits for running answers. The book itself needs a few milliseconds. */
const CLOSE_PATIENCE_MS = 1_000

async function answer(book: FileRailBook, request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    const { status, body } = await respond(book, request)
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  } catch (error) {
    // After an error other than an invalid request, the payment may be recorded or not. The body contains no receipt.
    const isRefused = error instanceof InvalidArgumentError || error instanceof ArgumentRangeError
    const status = isRefused ? 400 : 500
    response.writeHead(status, { 'content-type': 'application/json' }).end('{}')
  }
}

async function respond(
  book: FileRailBook,
  request: IncomingMessage,
): Promise<{ readonly status: number; readonly body: object }> {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://book')
  if (request.method === 'POST' && pathname === PAYMENTS) {
    const receipt = await book.pay(readPayment(await readBody(request)))
    return { status: receipt.paid ? 200 : 410, body: receipt }
  }
  if (request.method === 'GET' && pathname === PAYMENTS) {
    const from = boundedInteger('from', Number(searchParams.get('from')), { min: 0, max: Number.MAX_SAFE_INTEGER })
    return { status: 200, body: await book.page(from) }
  }
  if (request.method !== 'GET' || !pathname.startsWith(`${PAYMENTS}/`)) {
    throw new InvalidArgumentError('path', 'expected POST /payments, GET /payments or GET /payments/REFERENCE')
  }
  const railReference = await book.find(decodeURIComponent(pathname.slice(PAYMENTS.length + 1)))
  return railReference === undefined ? { status: 404, body: {} } : { status: 200, body: { railReference } }
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request) {
    const part = Buffer.from(chunk)
    bytes += part.length
    if (bytes > BODY_BYTES_MAX) throw new InvalidArgumentError('body', `expected at most ${BODY_BYTES_MAX} bytes`)
    chunks.push(part)
  }
  return Buffer.concat(chunks)
}

function readPayment(body: Buffer): BookPayment {
  const given = parseStrictJson(body)
  if (typeof given !== 'object' || given === null) throw new InvalidArgumentError('body', 'expected an object')
  const field = (name: string): unknown => Reflect.get(given, name)
  const notAfter = new Date(String(field('notAfter')))
  if (Number.isNaN(notAfter.getTime())) throw new InvalidArgumentError('notAfter', 'expected a time')
  return {
    reference: requiredId('reference', field('reference')),
    amount: readText('amount', field('amount')),
    currency: readText('currency', field('currency')),
    once: field('once') === true,
    notAfter,
  }
}

function readText(name: string, value: unknown): string | null {
  return value === null ? null : requiredText(name, value, 64)
}

async function listening(server: Server, port: number): Promise<void> {
  server.listen(port, '127.0.0.1')
  // Rejects if the server emits 'error', for example because the port is in use.
  await once(server, 'listening')
}

export interface RailBookProcess {
  /** URL for `simulatedRail({ bookUrl })`. */
  readonly url: string
  readonly pid: number
  /** Stops the process. Resolves when it has ended. May be called twice. */
  readonly stop: () => Promise<void>
}

/** Starts a rail book in its own process, which ends with this process. */
export async function startRailBook(options: {
  readonly file: string
  readonly port?: number
}): Promise<RailBookProcess> {
  const program = fileURLToPath(new URL('railBookProcess.js', import.meta.url))
  const child = spawn(process.execPath, [program, JSON.stringify(options)], {
    // A separate process group: Ctrl-C in the terminal must not end the rail before the workers have drained.
    detached: true,
    // When this process ends, the kernel closes this pipe, and the child ends.
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit')
  for await (const line of createInterface(child.stdout)) {
    const { url, reason }: { url?: string; reason?: string } = JSON.parse(line)
    if (url === undefined) throw notStarted(reason)
    return {
      url,
      pid: child.pid ?? 0,
      stop: async () => {
        child.stdin.end()
        await ended
      },
    }
  }
  throw notStarted('its process ended without an answer')
}

function notStarted(reason = 'no reason was given'): SymphonyError {
  return new SymphonyError('RAIL_BOOK_NOT_STARTED', `the rail book could not be started: ${reason}`)
}
