import type { Socket } from 'node:net'
import type { BookPage, BookPayment, BookReceipt } from './RailBook.js'

/*
 * Requests and answers between RemoteRailBook and serveRailBook: one line of JSON each. Answers may arrive in another
 * order than their requests. The lines cost a new process a fraction of what HTTP costs: a chaos run starts a thousand
 * workers, and each makes about a thousand payments.
 */

export type BookRequest = { readonly id: number } & (
  | { readonly pay: BookPayment }
  /** Reference of a payment. */
  | { readonly find: string }
  /** Position in the book. */
  | { readonly page: number }
)

export interface BookAnswer {
  readonly id: number
  /** Missing if the request was refused or failed. */
  readonly receipt?: BookReceipt
  /** Rail reference of a payment; null if there is none. */
  readonly found?: string | null
  readonly page?: BookPage
}

/** Calls `take` for each line that arrives. Destroys the socket if a line is too long or `take` throws. */
export function readLines(socket: Socket, lengthMax: number, take: (line: string) => void): void {
  let unfinished = ''
  socket.setEncoding('utf8').on('data', (text: string) => {
    const lines = (unfinished + text).split('\n')
    unfinished = lines.pop() ?? ''
    try {
      if (unfinished.length > lengthMax) throw new RangeError(`a line is longer than ${lengthMax} characters`)
      for (const line of lines) take(line)
    } catch (error) {
      socket.destroy(error instanceof Error ? error : undefined)
    }
  })
}

/** Writes the lines of one pass of the event loop in one system call. */
export function writeLine(socket: Socket, message: BookRequest | BookAnswer): void {
  if (socket.writableCorked === 0) {
    socket.cork()
    setImmediate(() => socket.uncork())
  }
  socket.write(`${JSON.stringify(message)}\n`)
}
