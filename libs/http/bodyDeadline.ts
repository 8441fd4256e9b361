import type { IncomingMessage, Server } from 'node:http'

/**
 * Deadlines of request bodies. Node's own limit is the same for all requests of a server, and an uploaded file needs
 * more time than other bodies.
 */
interface Deadline {
  readonly start: () => void
  readonly stop: () => void
}

const deadlines = new WeakMap<IncomingMessage, Deadline>()

/** Disconnects every client whose body does not arrive within this time, with 408 as Node does. */
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

/** Gives a file the time of an upload: from now on only Node's own limit applies. */
export function extendDeadline(request: IncomingMessage): void {
  deadlines.get(request)?.stop()
}

/** Drops the rest of a refused file within the time of other bodies, so that the client can read the answer. */
export function dropRest(request: IncomingMessage): void {
  if (request.destroyed || request.complete) return
  deadlines.get(request)?.start()
  request.resume()
}
