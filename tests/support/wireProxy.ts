import { once } from 'node:events'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { portOf } from './portOf.js'
import { WireMessages, WireSession, type Direction, type WirePlace } from './wireMessages.js'

/**
 * Fault at a byte: both connections are closed (`end`) or reset (`reset`), nothing more passes and neither side gets an
 * error (`freeze`), or traffic continues after a delay.
 */
export type WireFault = 'end' | 'reset' | 'freeze' | { readonly delayMs: number }

export interface ArmedFault {
  readonly direction: Direction
  /** Number of bytes of that direction that pass after `arm` and before the fault. */
  readonly afterBytes: number
  readonly fault: WireFault
}

export interface WireTally {
  /** Number of bytes that passed since `arm`. */
  readonly passed: Readonly<Record<Direction, number>>
  /** Position of the fault. Undefined if its byte was never reached. */
  readonly faultAt: WirePlace | undefined
}

/** A proxy for PostgreSQL that fails at a chosen byte and names the protocol message of that byte. */
export class WireProxy {
  readonly #server: Server
  readonly #connections = new Set<WireConnection>()
  #armed: ArmedFault | undefined
  #passed: Record<Direction, number> = { toServer: 0, toClient: 0 }
  #faultAt: WirePlace | undefined

  private constructor(target: URL) {
    this.#server = createServer((client) => {
      const server = connect(Number(target.port), target.hostname)
      const connection = new WireConnection(client, server, (direction, chunk) => this.#inspect(direction, chunk))
      this.#connections.add(connection)
      void connection.closed.then(() => this.#connections.delete(connection))
    })
  }

  static async before(serverUrl: string): Promise<WireProxy> {
    const proxy = new WireProxy(new URL(serverUrl))
    proxy.#server.listen(0, '127.0.0.1')
    await once(proxy.#server, 'listening')
    return proxy
  }

  get port(): number {
    return portOf(this.#server)
  }

  get connections(): number {
    return this.#connections.size
  }

  /** Counts bytes from now on. Causes the given fault once, at its byte. */
  arm(armed?: ArmedFault): void {
    this.#armed = armed
    this.#passed = { toServer: 0, toClient: 0 }
    this.#faultAt = undefined
  }

  disarm(): WireTally {
    this.#armed = undefined
    return { passed: { ...this.#passed }, faultAt: this.#faultAt }
  }

  /** Resets all connections, including frozen ones. */
  cutAll(): void {
    for (const connection of this.#connections) connection.cut('reset')
  }

  async close(): Promise<void> {
    this.cutAll()
    this.#server.close()
    await once(this.#server, 'close')
  }

  /** Returns how much of this chunk passes before the fault. Undefined if all of it passes. */
  #inspect(direction: Direction, chunk: Buffer): FaultPoint | undefined {
    const passed = this.#passed[direction]
    const armed = this.#armed
    if (armed === undefined || armed.direction !== direction || passed + chunk.length <= armed.afterBytes) {
      this.#passed[direction] += chunk.length
      return undefined
    }
    const passing = armed.afterBytes - passed
    this.#passed[direction] += passing
    this.#armed = undefined
    return { passing, fault: armed.fault, onFault: (place) => (this.#faultAt = place) }
  }
}

interface FaultPoint {
  readonly passing: number
  readonly fault: WireFault
  readonly onFault: (place: WirePlace) => void
}

class WireConnection {
  readonly closed: Promise<unknown>
  readonly #client: Socket
  readonly #server: Socket
  readonly #inspect: (direction: Direction, chunk: Buffer) => FaultPoint | undefined
  readonly #messages: Readonly<Record<Direction, WireMessages>>
  #frozen = false
  /**
   * Resolves when all delayed chunks of a direction have passed. Later chunks are chained to it, so that their order
   * stays.
   */
  #behind: Record<Direction, Promise<void>> = { toServer: Promise.resolve(), toClient: Promise.resolve() }
  #delayed: Record<Direction, boolean> = { toServer: false, toClient: false }

  constructor(
    client: Socket,
    server: Socket,
    inspect: (direction: Direction, chunk: Buffer) => FaultPoint | undefined,
  ) {
    this.#client = client
    this.#server = server
    this.#inspect = inspect
    const session = new WireSession()
    this.#messages = {
      toServer: new WireMessages('toServer', session),
      toClient: new WireMessages('toClient', session),
    }
    for (const socket of [client, server]) {
      socket.setNoDelay(true)
      // A reset is expected. The close that follows reaches the other side.
      socket.on('error', () => {})
    }
    client.on('data', (chunk) => this.#forward('toServer', chunk))
    server.on('data', (chunk) => this.#forward('toClient', chunk))
    // A frozen connection does not forward a close.
    client.on('close', () => this.#frozen || server.destroy())
    server.on('close', () => this.#frozen || client.destroy())
    this.closed = Promise.all([client, server].map((socket) => new Promise((resolve) => socket.once('close', resolve))))
  }

  cut(how: 'end' | 'reset'): void {
    this.#frozen = false
    for (const socket of [this.#client, this.#server]) {
      if (how === 'reset') socket.resetAndDestroy()
      else socket.destroySoon()
    }
  }

  #forward(direction: Direction, chunk: Buffer): void {
    if (this.#delayed[direction]) {
      this.#behind[direction] = this.#behind[direction].then(() => this.#forwardNow(direction, chunk))
    } else this.#forwardNow(direction, chunk)
  }

  #forwardNow(direction: Direction, chunk: Buffer): void {
    if (this.#frozen) return
    const faultPoint = this.#inspect(direction, chunk)
    const passing = faultPoint === undefined ? chunk : chunk.subarray(0, faultPoint.passing)
    this.#messages[direction].read(passing)
    const target = direction === 'toServer' ? this.#server : this.#client
    if (passing.length > 0) target.write(passing)
    if (faultPoint === undefined) return
    faultPoint.onFault(this.#messages[direction].place)
    this.#armed(direction, faultPoint.fault, chunk.subarray(faultPoint.passing))
  }

  #armed(direction: Direction, fault: WireFault, rest: Buffer): void {
    if (fault === 'freeze') this.#frozen = true
    else if (typeof fault === 'string') this.cut(fault)
    else {
      this.#behind[direction] = this.#forwardAfter(fault.delayMs, direction, rest)
    }
  }

  async #forwardAfter(ms: number, direction: Direction, rest: Buffer): Promise<void> {
    this.#delayed[direction] = true
    await delay(ms)
    this.#delayed[direction] = false
    this.#forwardNow(direction, rest)
  }
}
