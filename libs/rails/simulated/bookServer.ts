import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { boundedInteger, InvalidArgumentError, requiredId, requiredText, SymphonyError } from '../../core/index.js'
import { readLines, writeLine, type BookAnswer, type BookRequest } from './bookProtocol.js'
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
 * Serves a rail book to the processes of this machine. `startRailBook` runs it in its own process, so that killing
 * workers does not affect it.
 */
export async function serveRailBook({ file, port = 0 }: BookServerOptions): Promise<BookServer> {
  boundedInteger('port', port, { min: 0, max: 65_535 })
  const book = new FileRailBook(requiredText('file', file, FILE_LENGTH_MAX))
  const sockets = new Set<Socket>()
  const server = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
    // The process of the client was killed.
    socket.on('error', () => {})
    readLines(socket, REQUEST_LENGTH_MAX, (line) => {
      const request: BookRequest | null = JSON.parse(line)
      if (request === null) throw new InvalidArgumentError('request', 'expected an object')
      void respond(book, request, socket)
    })
  })
  await listening(server, port)
  const address = server.address()
  if (address === null || typeof address === 'string') throw new InvalidArgumentError('port', 'expected a TCP port')
  return {
    url: `tcp://127.0.0.1:${address.port}`,
    close: async () => {
      const closed = once(server, 'close')
      server.close()
      // Written answers are sent before the end.
      for (const socket of sockets) socket.destroySoon()
      await closed
      await book.close()
    },
  }
}

const FILE_LENGTH_MAX = 4_096
const REQUEST_LENGTH_MAX = 4_096

async function respond(book: FileRailBook, request: BookRequest, socket: Socket): Promise<void> {
  const answer = await answerOf(book, request)
  if (!socket.destroyed) writeLine(socket, answer)
}

/** Returns the answer. After an error the payment may be recorded or not, and the answer has no receipt. */
async function answerOf(book: FileRailBook, request: BookRequest): Promise<BookAnswer> {
  const { id } = request
  try {
    if ('pay' in request) return { id, receipt: await book.pay(readPayment(request.pay)) }
    if ('find' in request) return { id, found: (await book.find(requiredId('find', request.find))) ?? null }
    return { id, page: await book.page(boundedInteger('page', request.page, { min: 0, max: Number.MAX_SAFE_INTEGER })) }
  } catch {
    return { id }
  }
}

/** Checks a payment, which another process sent. */
function readPayment({ reference, amount, currency, once: isOnce, notAfter }: BookPayment): BookPayment {
  const refusedAfter = new Date(notAfter)
  if (Number.isNaN(refusedAfter.getTime())) throw new InvalidArgumentError('notAfter', 'expected a time')
  return {
    reference: requiredId('reference', reference),
    amount: readText('amount', amount),
    currency: readText('currency', currency),
    once: isOnce,
    notAfter: refusedAfter,
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
