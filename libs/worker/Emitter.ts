import { redact } from '../core/index.js'

/**
 * Sends typed events to listeners, in the order of their subscription. Listeners are isolated: an error of one reaches
 * neither the emitter's caller nor another listener (see `guardListener`).
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

/**
 * Combines listeners into one that neither throws nor rejects. A worker emits events between a claim and a completion.
 * At that point an error of a metric or log listener would lose a lease or an outcome. The first error of each listener
 * becomes a process warning; later ones are dropped.
 */
export function guardListener<Event>(
  ...listeners: readonly (((event: Event) => unknown) | undefined)[]
): (event: Event) => void {
  const guarded = listeners.flatMap((listener) => (listener === undefined ? [] : [guard(listener)]))
  const [only] = guarded
  if (guarded.length === 1 && only !== undefined) return only
  return (event) => {
    for (const listener of guarded) listener(event)
  }
}

function guard<Event>(listener: (event: Event) => unknown): (event: Event) => void {
  let hasWarned = false
  const onError = (error: unknown): void => {
    if (hasWarned) return
    hasWarned = true
    process.emitWarning(`A listener of Symphony's events failed: ${describe(error)}. The work continues without it.`, {
      code: 'SYMPHONY_LISTENER_FAILED',
    })
  }
  return (event) => {
    try {
      const returned = listener(event)
      if (typeof returned === 'object' && returned !== null) Promise.resolve(returned).catch(onError)
    } catch (error) {
      onError(error)
    }
  }
}

function describe(error: unknown): string {
  try {
    return redact(String(error), DESCRIPTION_LENGTH_MAX)
  } catch {
    return 'an unreadable error'
  }
}

const DESCRIPTION_LENGTH_MAX = 200
