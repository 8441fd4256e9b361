import { useEffect, useMemo } from 'preact/hooks'
import { signal, type ReadonlySignal } from '@preact/signals'
import { atMostEvery } from './clock.js'
import { problemOf, type ShownProblem } from './client.js'
import { onServerEvent } from './stream.js'

/** What a page knows of something on the server. A value that is being refreshed stays: nothing jumps, nothing flashes. */
export interface Resource<T> {
  readonly value: T | undefined
  /** Set beside a value: that value is old, and this is why. */
  readonly problem: ShownProblem | undefined
  readonly isLoading: boolean
}

export interface ResourceHandle<T> {
  readonly state: ReadonlySignal<Resource<T>>
  readonly refresh: () => void
}

/** A refresh that events ask for: at most this often, however many payments move. */
const REFRESH_EVERY_MS = 1_000

/**
 * Loads when the key changes, and again whenever the server says that something happened.
 * @param key what identifies the question; a new one forgets the old answer
 */
export function useResource<T>(key: string, load: (signal: AbortSignal) => Promise<T>): ResourceHandle<T> {
  const resource = useMemo(() => createResource(load), [key])
  useEffect(() => {
    resource.refresh()
    const throttled = atMostEvery(REFRESH_EVERY_MS, resource.refresh)
    const forget = onServerEvent(throttled.ask)
    return () => {
      forget()
      throttled.stop()
      resource.stop()
    }
  }, [resource])
  return resource
}

function createResource<T>(load: (signal: AbortSignal) => Promise<T>) {
  const state = signal<Resource<T>>({ value: undefined, problem: undefined, isLoading: true })
  let current: AbortController | undefined
  // An answer that comes after its question was replaced, or after the page was left, is dropped.
  const refresh = () => {
    current?.abort()
    const controller = new AbortController()
    current = controller
    state.value = { ...state.peek(), isLoading: true }
    load(controller.signal).then(
      (value) => {
        if (!controller.signal.aborted) state.value = { value, problem: undefined, isLoading: false }
      },
      (error: unknown) => {
        if (controller.signal.aborted) return
        state.value = { value: state.peek().value, problem: problemOf(error), isLoading: false }
      },
    )
  }
  return { state, refresh, stop: () => current?.abort() }
}
