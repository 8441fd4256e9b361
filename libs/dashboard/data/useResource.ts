import { useEffect, useMemo } from 'preact/hooks'
import { signal, type ReadonlySignal } from '@preact/signals'
import { atMostEvery, pause } from './clock.js'
import { problemOf, type ShownProblem } from './client.js'
import type { ServerEvent } from './sse.js'
import { onServerEvent } from './stream.js'

/** What a page knows of something on the server. A value that is being refreshed stays: nothing jumps, nothing flashes. */
interface Resource<T> {
  readonly value: T | undefined
  /** Set beside a value: that value is old, and this is why. */
  readonly problem: ShownProblem | undefined
  readonly isLoading: boolean
}

export interface ResourceHandle<T> {
  readonly state: ReadonlySignal<Resource<T>>
  readonly refresh: () => void
}

interface ResourceOptions<T> {
  /** What identifies the question; a new one forgets the old answer. */
  readonly key: string
  readonly load: (signal: AbortSignal) => Promise<T>
  /** Which events mean that the answer may have changed. @default every one */
  readonly concerns?: (event: ServerEvent) => boolean
  /** For what no event tells of: ask again this often. */
  readonly everyMs?: number
  /** Whether a value needs no further poll. @default never */
  readonly isFinal?: (value: T) => boolean
}

/** A refresh that events ask for: at most this often, however many payments move. */
const REFRESH_EVERY_MS = 1_000

export function useResource<T>({ key, load, concerns, everyMs, isFinal }: ResourceOptions<T>): ResourceHandle<T> {
  const resource = useMemo(() => createResource(load), [key])
  useEffect(() => {
    resource.refresh()
    const left = new AbortController()
    const throttled = atMostEvery(REFRESH_EVERY_MS, resource.refresh)
    const forget = onServerEvent((event) => {
      if (event.type === 'reconnected' || concerns === undefined || concerns(event)) throttled.ask()
    })
    const poll = () => {
      const { value } = resource.state.peek()
      if (value === undefined || isFinal?.(value) !== true) resource.refresh()
    }
    if (everyMs !== undefined) void askEvery(everyMs, poll, left.signal)
    return () => {
      left.abort()
      forget()
      throttled.stop()
      resource.stop()
    }
  }, [resource])
  return resource
}

/** Not while nobody looks. */
async function askEvery(everyMs: number, poll: () => void, left: AbortSignal): Promise<void> {
  for (;;) {
    await pause(everyMs, left)
    if (left.aborted) return
    if (document.visibilityState === 'visible') poll()
  }
}

function createResource<T>(load: (signal: AbortSignal) => Promise<T>) {
  const state = signal<Resource<T>>({ value: undefined, problem: undefined, isLoading: true })
  let current: AbortController | undefined
  // An answer that comes after its question was replaced, or after the page was left, is dropped.
  const refresh = async () => {
    current?.abort()
    const controller = new AbortController()
    current = controller
    state.value = { ...state.peek(), isLoading: true }
    try {
      const value = await load(controller.signal)
      if (!controller.signal.aborted) state.value = { value, problem: undefined, isLoading: false }
    } catch (error) {
      if (controller.signal.aborted) return
      state.value = { value: state.peek().value, problem: problemOf(error), isLoading: false }
    }
  }
  return { state, refresh: () => void refresh(), stop: () => current?.abort() }
}
