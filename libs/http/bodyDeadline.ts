import type { IncomingMessage, Server } from 'node:http'

/**
 * Deadline of a request body. Node.js has only one limit for all requests of a server, but an uploaded file needs more
 * time than other bodies.
 */
interface Deadline {
  readonly start: () => void
  readonly stop: () => void
}

const deadlines = new WeakMap<IncomingMessage, Deadline>()

/** Disconnects a client with 408, as Node does, if its body does not arrive in time. */
export function enforceBodyDeadline(server: Server, withinMs: number): void {
  server.prependListener('request', (request: IncomingMessage) => {
    const { 'content-length': length = '0', 'transfer-encoding': encoding } = request.headers
    if (length === '0' && encoding === undefined) return
    let timer: NodeJS.Timeout | undefined
    const expire = () => {
      const error = Object.assign(new Error('the body did not arrive in time'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })
      if (!request.complete) server.emit('clientError', error, request.socket)
    }
    const deadline = { start: () => void (timer = setTimeout(expire, withinMs)), stop: () => clearTimeout(timer) }
    deadlines.set(request, deadline)
    deadline.start()
    request.once('close', deadline.stop)
  })
}

/** Removes the deadline of an uploaded file. Only Node's own, longer limit still applies. */
export function extendDeadline(request: IncomingMessage): void {
  deadlines.get(request)?.stop()
}

/** Discards the rest of a refused file within the normal deadline, so that the client can read the answer. */
export function dropRest(request: IncomingMessage): void {
  if (request.destroyed || request.complete) return
  deadlines.get(request)?.start()
  request.resume()
}
