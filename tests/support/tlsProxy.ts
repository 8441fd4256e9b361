import { once } from 'node:events'
import { connect, createServer, type Server } from 'node:net'
import { pipeline } from 'node:stream'
import { TLSSocket } from 'node:tls'
import type { Certificate } from './certificate.js'
import { portOf } from './portOf.js'

/**
 * Imitates a PostgreSQL server with TLS. It accepts the request for TLS, presents the certificate, and forwards to the
 * server of that URL. Without a certificate it declines, like a server without TLS.
 */
export class TlsProxy {
  readonly #server: Server

  private constructor(host: string, port: number, certificate: Certificate | undefined) {
    this.#server = createServer((near) => {
      // A client that refuses the certificate closes the connection.
      near.on('error', () => {})
      near.once('data', () => {
        if (certificate === undefined) {
          near.end('N')
          return
        }
        near.write('S')
        const { cert, key } = certificate
        const inside = new TLSSocket(near, { isServer: true, cert, key })
        inside.on('error', () => {})
        const far = connect(port, host)
        pipeline(inside, far, inside, () => near.destroy())
      })
    })
  }

  static async before(serverUrl: string, certificate?: Certificate): Promise<TlsProxy> {
    const { hostname, port } = new URL(serverUrl)
    const proxy = new TlsProxy(hostname, Number(port), certificate)
    proxy.#server.listen(0, 'localhost')
    await once(proxy.#server, 'listening')
    return proxy
  }

  get port(): number {
    return portOf(this.#server)
  }

  async close(): Promise<void> {
    this.#server.close()
    await once(this.#server, 'close')
  }
}
