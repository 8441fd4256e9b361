import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer, type ServerOptions } from 'node:https'
import { portOf } from './portOf.js'

export interface ReceivedRequest {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

export interface RailServer {
  readonly url: string
  readonly received: ReceivedRequest[]
  /** Connections opened so far, and those still open. */
  readonly connections: { opened: number; open: number }
  readonly close: () => Promise<void>
}

export type Respond = (request: ReceivedRequest, response: ServerResponse, raw: IncomingMessage) => void

/** Starts an HTTP server, or HTTPS as `localhost`, that records its requests. */
export async function startRailServer(respond: Respond, tls?: ServerOptions): Promise<RailServer> {
  const received: ReceivedRequest[] = []
  const connections = { opened: 0, open: 0 }
  const handle = async (raw: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = []
    for await (const chunk of raw) chunks.push(Buffer.from(chunk))
    const request = {
      method: raw.method ?? '',
      path: raw.url ?? '',
      headers: raw.headers,
      body: Buffer.concat(chunks).toString(),
    }
    received.push(request)
    respond(request, response, raw)
  }
  const listener = (raw: IncomingMessage, response: ServerResponse) => void handle(raw, response)
  const server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener)
  server.on('connection', (socket) => {
    connections.opened += 1
    connections.open += 1
    socket.once('close', () => (connections.open -= 1))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const port = portOf(server)
  return {
    url: tls === undefined ? `http://127.0.0.1:${port}` : `https://localhost:${port}`,
    received,
    connections,
    close: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

export function answerJson(response: ServerResponse, status: number, body: unknown, headers: object = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}
