import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import { Client } from 'pg'
import { portOf } from './portOf.js'

/**
 * A pooler with one server connection, like PgBouncer with `ignore_startup_parameters = options`. It drops the startup
 * options, sends its own process id, and passes the server connection unchanged to the next client. `npm run debian --
 * pgbouncer` runs the same test with PgBouncer.
 */
export class Pooler {
  readonly #server: Server
  readonly #pooled: Client
  #client: Socket | undefined

  private constructor(pooled: Client) {
    this.#pooled = pooled
    const { stream } = pooled.connection
    // The session is open. From now on its bytes belong to the clients.
    stream.removeAllListeners('data')
    stream.on('data', (chunk: Buffer) => this.#client?.write(chunk))
    this.#server = createServer((client) => {
      client.on('error', () => {})
      client.once('data', () => {
        this.#client = client
        client.write(GREETING)
        client.on('data', (chunk) => {
          if (chunk[0] === TERMINATE) client.end()
          else stream.write(chunk)
        })
      })
    })
  }

  static async before(serverUrl: string): Promise<Pooler> {
    const pooled = new Client(serverUrl)
    // The test closes the connection without a Terminate message.
    pooled.on('error', () => {})
    await pooled.connect()
    const pooler = new Pooler(pooled)
    pooler.#server.listen(0, '127.0.0.1')
    await once(pooler.#server, 'listening')
    return pooler
  }

  get port(): number {
    return portOf(this.#server)
  }

  close(): void {
    this.#client?.destroy()
    this.#server.close()
    this.#pooled.connection.stream.destroy()
  }
}

const TERMINATE = 'X'.codePointAt(0)

/** Greeting of a server: AuthenticationOk, BackendKeyData with the process id 1, ReadyForQuery. */
const GREETING = Buffer.from('5200000008000000004b0000000c00000001000000005a0000000549', 'hex')
