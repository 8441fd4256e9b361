import { setTimeout as delay } from 'node:timers/promises'

/** Paths of the API that a dashboard reads in turn. */
const PATHS = [
  '/v1/status',
  '/v1/outbox?limit=50',
  '/v1/outbox/counts',
  '/v1/workers',
  '/v1/alerts',
  '/v1/dlq?limit=50',
  '/v1/holds?limit=50',
  '/v1/jobs',
  '/v1/inbox?limit=50',
  '/v1/reconciliations?limit=50',
]
const POLL_MS = 500
const STREAMS_PER_ADDRESS = 3
const RECONNECT_MS = 1_000
const ANSWER_MS_MAX = 60_000

/** State of an address: during a fault, after a fault until the first answer, or undefined without a fault. */
type AddressState = 'fault' | 'recovering' | undefined

/** Clients of the dashboard: they follow the event stream and poll pages of each API process. */
export class DashboardClient {
  readonly #addresses: readonly string[]
  readonly #headers: Readonly<Record<string, string>>
  readonly #stop = new AbortController()
  readonly #states = new Map<string, AddressState>()
  #running: Promise<unknown> = Promise.resolve()
  answers = 0
  streamEvents = 0
  /** Requests that failed, and streams that ended, without a fault. */
  readonly failures: string[] = []

  constructor(addresses: readonly string[], key: string) {
    this.#addresses = addresses
    this.#headers = { authorization: `Bearer ${key}` }
  }

  start(): void {
    const loops = this.#addresses.flatMap((address) => [
      this.#poll(address),
      ...Array.from({ length: STREAMS_PER_ADDRESS }, () => this.#follow(address)),
    ])
    this.#running = Promise.all(loops)
    // `stop` reports the error.
    this.#running.catch(() => {})
  }

  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  /** Causes a fault. Until the first answer after it, requests to these addresses may fail. */
  async during(addresses: readonly string[], fault: () => Promise<void>): Promise<void> {
    for (const address of addresses) this.#states.set(address, 'fault')
    await fault()
    for (const address of addresses) this.#states.set(address, 'recovering')
  }

  async #poll(address: string): Promise<void> {
    for (let request = 0; !this.#stop.signal.aborted; request += 1) {
      const path = PATHS[request % PATHS.length] ?? ''
      const failure = await this.#ask(address, path)
      if (this.#stop.signal.aborted) return
      if (failure !== undefined) this.#report(address, `${path}: ${failure}`)
      else {
        this.answers += 1
        if (this.#states.get(address) === 'recovering') this.#states.set(address, undefined)
      }
      await this.#pause(POLL_MS)
    }
  }

  /** Returns the reason why a request failed, or undefined after a success. */
  async #ask(address: string, path: string): Promise<string | undefined> {
    const signal = AbortSignal.any([this.#stop.signal, AbortSignal.timeout(ANSWER_MS_MAX)])
    try {
      const response = await fetch(`${address}${path}`, { headers: this.#headers, signal })
      const text = await response.text()
      return response.status === 200 ? undefined : `${response.status} ${text.slice(0, 200)}`
    } catch (error) {
      return String(error)
    }
  }

  async #follow(address: string): Promise<void> {
    const decoder = new TextDecoder()
    while (!this.#stop.signal.aborted) {
      let end = 'the stream ended'
      try {
        const response = await fetch(`${address}/v1/stream`, { headers: this.#headers, signal: this.#stop.signal })
        if (response.status !== 200) end = `the stream was refused with ${response.status}`
        for await (const chunk of response.body ?? []) {
          this.streamEvents += decoder.decode(chunk, { stream: true }).split('event: ').length - 1
        }
      } catch (error) {
        end = `the stream was cut: ${String(error)}`
      }
      if (!this.#stop.signal.aborted) this.#report(address, end)
      await this.#pause(RECONNECT_MS)
    }
  }

  #report(address: string, failure: string): void {
    if (this.#states.get(address) === undefined) this.failures.push(failure)
  }

  async #pause(ms: number): Promise<void> {
    // The abort of `stop` ends the pause early.
    await delay(ms, undefined, { signal: this.#stop.signal }).catch(() => {})
  }
}
