import { useEffect, useMemo } from 'preact/hooks'
import { signal, type ReadonlySignal } from '@preact/signals'
import type { Workers } from '../../http/index.js'
import { readWorkers } from './api.js'
import { atMostEvery, pause } from './clock.js'
import { problemOf, type ShownProblem } from './client.js'
import type { ServerEvent } from './sse.js'
import { onServerEvent } from './stream.js'

/** Value from the server. The old value stays during a refresh, so that the page does not flicker. */
interface Resource<T> {
  readonly value: T | undefined
  /** Failure of the last refresh. A value beside it is outdated. */
  readonly problem: ShownProblem | undefined
  readonly isLoading: boolean
}

export interface ResourceHandle<T> {
  readonly state: ReadonlySignal<Resource<T>>
  /** Loads again for a person. Aborts a request in progress, whose answer may be older than the person's action. */
  readonly refresh: () => void
}

interface ResourceOptions<T> {
  /** Identifies the resource; a new key discards the old value. */
  readonly key: string
  readonly load: (signal: AbortSignal) => Promise<T>
  /** Returns whether the value may have changed after an event. @default every event */
  readonly concerns?: (event: ServerEvent) => boolean
  /** Poll interval, for changes without an event. */
  readonly everyMs?: number
  /** Returns whether a value needs no further poll. @default never */
  readonly isFinal?: (value: T) => boolean
}

/** Minimum interval between refreshes caused by events. */
const REFRESH_EVERY_MS = 1_000

/** Returns the workers with their reports. Each worker reports every ten seconds. */
export function useWorkers(): ResourceHandle<Workers> {
  return useResource({
    key: 'workers',
    load: readWorkers,
    concerns: ({ type }) => type === 'status',
    everyMs: 10_000,
  })
}

export function useResource<T>({ key, load, concerns, everyMs, isFinal }: ResourceOptions<T>): ResourceHandle<T> {
  const resource = useMemo(() => createResource(load), [key])
  useEffect(() => {
    resource.refresh()
    const left = new AbortController()
    const throttled = atMostEvery(REFRESH_EVERY_MS, resource.refreshAfterCurrent)
    const unsubscribe = onServerEvent((event) => {
      if (event.type === 'reconnected' || concerns === undefined || concerns(event)) throttled.ask()
    })
    const poll = () => {
      const { value, isLoading } = resource.state.peek()
      if (!isLoading && (value === undefined || isFinal?.(value) !== true)) resource.refresh()
    }
    if (everyMs !== undefined) void askEvery(everyMs, poll, left.signal)
    return () => {
      left.abort()
      unsubscribe()
      throttled.stop()
      resource.stop()
    }
  }, [resource])
  return resource
}

/** Polls while the page is visible. */
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
  /** Whether to load again after the current request, because its answer may be older than a change. */
  let isOutdated = false
  // A newer request aborts the current one and drops its answer. So does leaving the page.
  const refresh = async () => {
    current?.abort()
    const controller = new AbortController()
    current = controller
    isOutdated = false
    state.value = { ...state.peek(), isLoading: true }
    try {
      const value = await load(controller.signal)
      if (!controller.signal.aborted) state.value = { value, problem: undefined, isLoading: false }
    } catch (error) {
      if (controller.signal.aborted) return
      state.value = { value: state.peek().value, problem: problemOf(error), isLoading: false }
    }
    if (isOutdated && !controller.signal.aborted) void refresh()
  }
  // Does not abort the current request: the server would run its queries to the end, and a slow value never load.
  const refreshAfterCurrent = () => {
    if (state.peek().isLoading) isOutdated = true
    else void refresh()
  }
  return { state, refresh: () => void refresh(), refreshAfterCurrent, stop: () => current?.abort() }
}
