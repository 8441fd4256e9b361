import { guardListener } from './guardListener.js'

/**
 * Tells typed events to listeners, in the order in which they subscribed. Listeners are isolated: one that throws or rejects
 * reaches neither the emitter's caller nor another listener (see `guardListener`).
 */
export class Emitter<Event> {
  #listeners: readonly ((event: Event) => void)[] = []

  /** Subscribes a listener. Returns a function that unsubscribes it. */
  on(listener: (event: Event) => unknown): () => void {
    const guarded = guardListener(listener)
    this.#listeners = [...this.#listeners, guarded]
    return () => {
      this.#listeners = this.#listeners.filter((one) => one !== guarded)
    }
  }

  emit(event: Event): void {
    for (const listener of this.#listeners) listener(event)
  }
}
