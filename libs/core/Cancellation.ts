/** What waiting code needs of a signal: the part of an `AbortSignal` that a `Cancellation` has too. */
export interface StopSignal {
  readonly aborted: boolean
  readonly reason: unknown
  addEventListener(type: 'abort', listener: () => void): void
  removeEventListener(type: 'abort', listener: () => void): void
}

/**
 * Something that can be told to stop. An `AbortController` whose signal is made only when somebody asks for it: a payment has
 * several things that could stop it, nearly always none of them does, and making and freeing signals costs more than the rest
 * of carrying it.
 */
export class Cancellation implements StopSignal {
  /** Made for the first listener: see above. */
  #listeners: Set<() => void> | undefined
  #controller: AbortController | undefined
  #aborted = false
  #reason: unknown

  get aborted(): boolean {
    return this.#aborted
  }

  get reason(): unknown {
    return this.#reason
  }

  /** For code that wants the real thing. The same each time. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#aborted) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }

  /** Once; a second reason changes nothing. */
  abort(reason: unknown): void {
    if (this.#aborted) return
    this.#aborted = true
    this.#reason = reason
    this.#controller?.abort(reason)
    for (const listener of this.#listeners ?? []) listener()
    this.#listeners = undefined
  }

  addEventListener(_type: 'abort', listener: () => void): void {
    if (this.#aborted) return
    this.#listeners ??= new Set()
    this.#listeners.add(listener)
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners?.delete(listener)
  }
}
