import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'

/** A way to a server that a test can freeze, cut or count bytes on. Frozen, it is a network that swallows everything. */
export class TcpProxy {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #frozen = false

  private constructor(host: string, port: number) {
    this.#server = createServer((near) => {
      const far = connect(port, host)
      for (const [from, to] of [
        [near, far],
        [far, near],
      ] as const) {
        this.#sockets.add(from)
        from.on('data', (chunk) => {
          if (!this.#frozen) to.write(chunk)
        })
        from.on('close', () => {
          this.#sockets.delete(from)
          if (!this.#frozen) to.destroy()
        })
        // A reset is how this ends; the other side is told by the close that follows.
        from.on('error', () => {})
      }
    })
  }

  /** Stands before the server of that URL. */
  static async before(serverUrl: string): Promise<TcpProxy> {
    const { hostname, port } = new URL(serverUrl)
    const proxy = new TcpProxy(hostname, Number(port))
    proxy.#server.listen(0, '127.0.0.1')
    await once(proxy.#server, 'listening')
    return proxy
  }

  get port(): number {
    const address = this.#server.address()
    if (address === null || typeof address === 'string') throw new Error('the proxy is closed')
    return (address satisfies AddressInfo).port
  }

  /** From now on nothing arrives, in either direction, and nobody is told. */
  freeze(): void {
    this.#frozen = true
  }

  thaw(): void {
    this.#frozen = false
  }

  /** Resets every connection. */
  cut(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }

  async close(): Promise<void> {
    this.cut()
    this.#server.close()
    await once(this.#server, 'close')
  }
}
