import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { boundedInteger } from '../core/index.js'
import { directClientConfig, directConnectFailure, disconnect, locate } from './connect.js'
import { DatabaseError } from './errors.js'
import type { ConnectionTarget, ResolvedOptions } from './options.js'
import { quoteIdentifier } from './Queryable.js'
import { setRole } from './roles.js'
import { toDatabaseError } from './toDatabaseError.js'

/**
 * Handles a notification. Any role with a connection can write its payload, so treat it as a hint to query, never as
 * data.
 */
export type NotificationHandler = (untrustedPayload: string) => void

export interface ListenOptions {
  /**
   * Called when the connection is lost and when it is restored. Notifications in between were missed, so query the
   * tables at once on `listening`.
   */
  readonly onStateChange?: (state: ListenState) => void
  /** Interval between two checks of the connection. @default 15000 */
  readonly heartbeatIntervalMs?: number
  /** Maximum wait for an answer before the connection counts as dead. @default 5000 */
  readonly heartbeatTimeoutMs?: number
  /** Maximum delay between two attempts to reconnect. @default 10000 */
  readonly reconnectDelayMaxMs?: number
}

export type ListenState =
  | { readonly state: 'listening' }
  /** `error` is the cause: the connection broke, or an attempt to reconnect failed. */
  | { readonly state: 'lost'; readonly error: DatabaseError }

export interface Listener {
  /** Stops listening. May be called twice. */
  close(): Promise<void>
}

const BOUNDS = {
  heartbeatIntervalMs: { min: 10, max: 300_000 },
  heartbeatTimeoutMs: { min: 10, max: 60_000 },
  reconnectDelayMaxMs: { min: 10, max: 300_000 },
}

const RECONNECT_DELAY_FIRST_MS = 100

/** Checks that the session still listens on the channel. A session that does not would get no notifications. */
const HEARTBEAT = 'SELECT 1 FROM pg_catalog.pg_listening_channels() AS channel WHERE channel = $1'

/**
 * Listens on its own connection until closed. A lost NOTIFY only delays workers, so this function reconnects for ever
 * and does not throw after the first success. Rejects if the first attempt fails.
 *
 * Its timers only check the connection, so they are here and not in libs/worker.
 */
export async function listen(
  target: ConnectionTarget,
  options: ResolvedOptions,
  subscription: Subscription,
): Promise<Listener> {
  const listener = new ReconnectingListener(target, options, subscription)
  await listener.start()
  return listener
}

interface Subscription extends ListenOptions {
  readonly role: string
  readonly channel: string
  readonly handler: NotificationHandler
}

interface ListenConnection {
  readonly client: Client
  /**
   * Signal that aborts when the connection is lost, with the error as its reason. Not a promise: each heartbeat would
   * leave a reaction on it for as long as the connection lives.
   */
  readonly lost: AbortSignal
}

class ReconnectingListener implements Listener {
  readonly #target: ConnectionTarget
  readonly #options: ResolvedOptions
  readonly #subscription: Subscription
  readonly #heartbeatIntervalMs: number
  readonly #heartbeatTimeoutMs: number
  readonly #reconnectDelayMaxMs: number
  readonly #closing = new AbortController()
  #running: Promise<void> = Promise.resolve()

  constructor(target: ConnectionTarget, options: ResolvedOptions, subscription: Subscription) {
    this.#target = target
    this.#options = options
    this.#subscription = subscription
    const { heartbeatIntervalMs = 15_000, heartbeatTimeoutMs = 5_000, reconnectDelayMaxMs = 10_000 } = subscription
    this.#heartbeatIntervalMs = boundedInteger('heartbeatIntervalMs', heartbeatIntervalMs, BOUNDS.heartbeatIntervalMs)
    this.#heartbeatTimeoutMs = boundedInteger('heartbeatTimeoutMs', heartbeatTimeoutMs, BOUNDS.heartbeatTimeoutMs)
    this.#reconnectDelayMaxMs = boundedInteger('reconnectDelayMaxMs', reconnectDelayMaxMs, BOUNDS.reconnectDelayMaxMs)
  }

  async start(): Promise<void> {
    this.#running = this.#run(await this.#connect())
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#running
  }

  async #run(first: ListenConnection): Promise<void> {
    let connection: ListenConnection | undefined = first
    while (connection !== undefined) {
      const error = await this.#holdUntilLost(connection)
      if (error !== undefined) this.#report({ state: 'lost', error })
      await disconnect(connection.client)
      if (error === undefined) return
      connection = await this.#reconnect()
      if (connection !== undefined) this.#report({ state: 'listening' })
    }
  }

  /** Waits until the connection is lost and returns the reason, or returns undefined after `close()`. */
  async #holdUntilLost({ client, lost }: ListenConnection): Promise<DatabaseError | undefined> {
    const ended = AbortSignal.any([this.#closing.signal, lost])
    for (;;) {
      await this.#pause(this.#heartbeatIntervalMs, ended)
      if (this.#closing.signal.aborted) return undefined
      if (lost.aborted) return toDatabaseError(lost.reason, { phase: 'uncommitted' })
      try {
        const { rows } = await client.query(HEARTBEAT, [this.#subscription.channel])
        if (rows.length === 0) return stoppedListening()
      } catch (failure) {
        return toDatabaseError(failure, { phase: 'uncommitted' })
      }
    }
  }

  async #reconnect(): Promise<ListenConnection | undefined> {
    for (let delayMs = RECONNECT_DELAY_FIRST_MS; ; delayMs *= 2) {
      // A part of the delay is random, so that many workers do not reconnect at the same moment.
      await this.#pause(Math.min(delayMs, this.#reconnectDelayMaxMs) * (0.5 + Math.random() / 2))
      if (this.#closing.signal.aborted) return undefined
      try {
        return await this.#connect()
      } catch (error) {
        this.#report({ state: 'lost', error: directConnectFailure(error, this.#target) })
      }
    }
  }

  async #connect(): Promise<ListenConnection> {
    const { role, channel, handler } = this.#subscription
    const client = new Client({
      ...(await locate(directClientConfig(this.#target, this.#options), this.#target)),
      query_timeout: this.#heartbeatTimeoutMs,
    })
    const loss = new AbortController()
    client.on('error', (error) => loss.abort(error))
    client.on('end', () => loss.abort(new Error('the server closed the connection')))
    client.on('notification', (notification) => {
      if (notification.channel === channel) runOutsideDriver(() => handler(notification.payload ?? ''))
    })
    // `close()` does not wait for a server that may never answer.
    const cut = () => client.connection.stream.destroy()
    this.#closing.signal.addEventListener('abort', cut)
    try {
      await client.connect()
      await setRole(client, { role, login: this.#target.url.user, timeoutMs: this.#options.connectTimeoutMs })
      await client.query(`LISTEN ${quoteIdentifier(channel)}`)
      return { client, lost: loss.signal }
    } catch (error) {
      await disconnect(client)
      throw directConnectFailure(error, this.#target)
    } finally {
      this.#closing.signal.removeEventListener('abort', cut)
    }
  }

  #report(state: ListenState): void {
    const { onStateChange } = this.#subscription
    if (onStateChange !== undefined && !this.#closing.signal.aborted) runOutsideDriver(() => onStateChange(state))
  }

  async #pause(ms: number, signal = this.#closing.signal): Promise<void> {
    await sleep(ms, undefined, { signal }).catch(() => {})
  }
}

/**
 * Runs a callback outside the driver. An exception of the callback becomes an uncaught exception and does not corrupt
 * the driver's state.
 */
function runOutsideDriver(callback: () => void): void {
  queueMicrotask(callback)
}

function stoppedListening(): DatabaseError {
  return new DatabaseError('LISTEN_LOST', 'the session no longer listens', { disposition: 'retry' })
}
