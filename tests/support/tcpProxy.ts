import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { portOf } from './portOf.js'

/**
 * Treatment of bytes: all pass, those of the server are dropped, or all are dropped. Dropped bytes cause no error, and
 * a close is dropped like the bytes of its side.
 */
type Traffic = 'flows' | 'answers vanish' | 'vanishes'

interface TcpProxyOptions {
  /** Changes answers of the server. */
  readonly alterAnswer?: (chunk: Buffer) => Buffer
}

/** A proxy that a test can interrupt like a network: silently, in one direction, or with a reset. */
export class TcpProxy {
  readonly #server: Server
  /** Server socket of each client socket. */
  readonly #connections = new Map<Socket, Socket>()
  traffic: Traffic = 'flows'
  /** Whether new connections are reset. */
  refusing = false
  /** Number of connections so far. */
  visits = 0
  #answersToSwallow = 0
  #target: { readonly host: string; readonly port: number }

  private constructor(target: URL, { alterAnswer = (chunk) => chunk }: TcpProxyOptions) {
    this.#target = { host: target.hostname, port: Number(target.port) }
    this.#server = createServer((client) => {
      this.visits += 1
      if (this.refusing) {
        client.resetAndDestroy()
        return
      }
      const server = connect(this.#target)
      this.#connections.set(client, server)
      client.on('data', (chunk) => {
        if (this.traffic !== 'vanishes') server.write(chunk)
      })
      server.on('data', (chunk) => {
        if (this.#answersToSwallow > 0) this.#answersToSwallow -= 1
        else if (this.traffic === 'flows') client.write(alterAnswer(chunk))
      })
      client.on('close', () => {
        if (this.traffic !== 'vanishes') server.destroy()
      })
      server.on('close', () => {
        if (this.traffic === 'flows') client.destroy()
      })
      // A reset is expected. The close that follows reaches the other side.
      client.on('error', () => {})
      server.on('error', () => {})
    })
  }

  /** Starts a proxy for the server of that URL. */
  static async before(serverUrl: string, options: TcpProxyOptions = {}): Promise<TcpProxy> {
    const proxy = new TcpProxy(new URL(serverUrl), options)
    proxy.#server.listen(0, '127.0.0.1')
    await once(proxy.#server, 'listening')
    return proxy
  }

  get port(): number {
    return portOf(this.#server)
  }

  /** Leads new connections to another server, as after a failover, and cuts existing ones. */
  leadTo(serverUrl: string): void {
    const { hostname, port } = new URL(serverUrl)
    this.#target = { host: hostname, port: Number(port) }
    this.cut()
  }

  /** Runs a statement in every session without its client's knowledge. */
  inject(statement: string): void {
    const text = Buffer.from(`${statement}\0`)
    const length = Buffer.alloc(4)
    length.writeInt32BE(text.length + 4)
    for (const server of this.#connections.values()) {
      this.#answersToSwallow += 1
      server.write(Buffer.concat([Buffer.from('Q'), length, text]))
    }
  }

  /** Resets every connection, in both directions. */
  cut(): void {
    for (const [client, server] of this.#connections) {
      client.resetAndDestroy()
      server.resetAndDestroy()
    }
    this.#connections.clear()
  }

  async close(): Promise<void> {
    this.cut()
    this.#server.close()
    await once(this.#server, 'close')
  }
}
