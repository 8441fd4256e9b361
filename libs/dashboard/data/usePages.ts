import { useEffect, useMemo } from 'preact/hooks'
import { signal, type ReadonlySignal } from '@preact/signals'
import { problemOf, type ShownProblem } from './client.js'

/** A list that is read page by page, as far as somebody scrolls. */
interface PagedList<T> {
  readonly rows: readonly T[]
  /** Undefined: nothing was read yet. Null: that was all. */
  readonly next: string | null | undefined
  readonly problem: ShownProblem | undefined
  readonly isLoading: boolean
  readonly pages: number
}

export interface PagesHandle<T> {
  readonly state: ReadonlySignal<PagedList<T>>
  /** From the beginning again; what is shown stays until the answer is there. */
  readonly refresh: () => void
  readonly more: () => void
  /** Changes what is shown, as an event told. */
  readonly patch: (change: (row: T) => T) => void
}

interface Page<T> {
  readonly items: readonly T[]
  readonly next: string | null
}

/** @param key what identifies the question; a new one forgets the old answer */
export function usePages<T>(
  key: string,
  load: (cursor: string | undefined, signal: AbortSignal) => Promise<Page<T>>,
): PagesHandle<T> {
  const list = useMemo(() => createPages(load), [key])
  useEffect(() => {
    list.refresh()
    return list.stop
  }, [list])
  return list
}

function createPages<T>(load: (cursor: string | undefined, signal: AbortSignal) => Promise<Page<T>>) {
  const state = signal<PagedList<T>>({ rows: [], next: undefined, problem: undefined, isLoading: true, pages: 0 })
  let current: AbortController | undefined
  const read = async (cursor: string | undefined) => {
    current?.abort()
    const controller = new AbortController()
    current = controller
    state.value = { ...state.peek(), isLoading: true }
    try {
      const page = await load(cursor, controller.signal)
      if (controller.signal.aborted) return
      const before = cursor === undefined ? { rows: [], pages: 0 } : state.peek()
      state.value = {
        rows: [...before.rows, ...page.items],
        next: page.next,
        problem: undefined,
        isLoading: false,
        pages: before.pages + 1,
      }
    } catch (error) {
      if (!controller.signal.aborted) state.value = { ...state.peek(), problem: problemOf(error), isLoading: false }
    }
  }
  return {
    state,
    refresh: () => void read(undefined),
    more: () => {
      const { next, isLoading, problem } = state.peek()
      // After a problem only a person asks again: a list that asks by itself would not stop.
      if (!isLoading && problem === undefined && typeof next === 'string') void read(next)
    },
    patch: (change: (row: T) => T) => (state.value = { ...state.peek(), rows: state.peek().rows.map(change) }),
    stop: () => current?.abort(),
  }
}
