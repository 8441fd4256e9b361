import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { SymphonyError } from '../../core/index.js'
import { NotSentError } from '../NotSentError.js'
import { readLines, writeLine, type BookAnswer, type BookRequest } from './bookProtocol.js'
import type { BookPage, BookPayment, BookReceipt, RailBook } from './RailBook.js'

/** Client of a rail book in another process (`startRailBook`). As with a real rail, the connection can break. */
export class RemoteRailBook implements RailBook {
  readonly #url: string
  #connection: Promise<BookConnection> | undefined
  #requests = 0

  constructor(url: string) {
    this.#url = url
  }

  async pay(payment: BookPayment, signal: AbortSignal): Promise<BookReceipt> {
    const { receipt } = await this.#ask({ id: this.#nextId(), pay: payment }, signal)
    return receipt ?? noAnswer('the rail book refused the payment')
  }

  async find(reference: string, signal: AbortSignal): Promise<string | undefined> {
    const { found } = await this.#ask({ id: this.#nextId(), find: reference }, signal)
    if (found === undefined) return noAnswer('the rail book refused the inquiry')
    return found ?? undefined
  }

  async page(from: number, signal: AbortSignal): Promise<BookPage> {
    const { page } = await this.#ask({ id: this.#nextId(), page: from }, signal)
    return page ?? noAnswer('the rail book refused to list payments')
  }

  async close(): Promise<void> {
    const connection = await this.#connection?.catch(() => undefined)
    await connection?.close()
  }

  #nextId(): number {
    return (this.#requests += 1)
  }

  async #ask(request: BookRequest, signal: AbortSignal): Promise<BookAnswer> {
    this.#connection ??= this.#connect()
    const connection = await this.#connection
    if (signal.aborted) throw new NotSentError('aborted before it was sent')
    return connection.ask(request, signal)
  }

  async #connect(): Promise<BookConnection> {
    try {
      const { hostname, port } = new URL(this.#url)
      const socket = connect({ host: hostname, port: Number(port), noDelay: true })
      socket.once('close', () => {
        this.#connection = undefined
      })
      await once(socket, 'connect')
      return new BookConnection(socket)
    } catch (error) {
      this.#connection = undefined
      throw new NotSentError('the rail book could not be reached', { cause: error })
    }
  }
}

interface Waiting {
  readonly resolve: (answer: BookAnswer) => void
  readonly reject: (error: Error) => void
}

class BookConnection {
  readonly #socket: Socket
  readonly #waiting = new Map<number, Waiting>()

  constructor(socket: Socket) {
    this.#socket = socket
    readLines(socket, ANSWER_LENGTH_MAX, (line) => {
      const answer: BookAnswer = JSON.parse(line)
      this.#waiting.get(answer.id)?.resolve(answer)
    })
    // The book closed the connection. A request written now would get no answer.
    socket.once('end', () => socket.destroy())
    socket.on('error', () => {})
    socket.once('close', () => {
      for (const { reject } of this.#waiting.values()) reject(brokenExchange('the connection ended without an answer'))
    })
  }

  async ask(request: BookRequest, signal: AbortSignal): Promise<BookAnswer> {
    if (this.#socket.destroyed) throw new NotSentError('the connection to the rail book has ended')
    const onAbort = () => {
      this.#waiting.get(request.id)?.reject(brokenExchange('aborted before it was answered'))
    }
    signal.addEventListener('abort', onAbort)
    try {
      return await new Promise((resolve, reject) => {
        this.#waiting.set(request.id, { resolve, reject })
        writeLine(this.#socket, request)
      })
    } finally {
      this.#waiting.delete(request.id)
      signal.removeEventListener('abort', onAbort)
    }
  }

  async close(): Promise<void> {
    if (this.#socket.destroyed) return
    this.#socket.end()
    await once(this.#socket, 'close')
  }
}

/** Maximum length of an answer: a page of the book is a chunk of 64 KiB. */
const ANSWER_LENGTH_MAX = 1_048_576

/** The request was written, and no answer arrived: the rail may have paid. */
function brokenExchange(message: string): SymphonyError {
  return new SymphonyError('RAIL_BOOK_NO_ANSWER', message)
}

function noAnswer(message: string): never {
  throw brokenExchange(message)
}
