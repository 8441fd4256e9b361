import { useEffect, useMemo } from 'preact/hooks'
import { signal, type ReadonlySignal } from '@preact/signals'
import { problemOf, type ShownProblem } from './client.js'

interface PagedList<T> {
  readonly rows: readonly T[]
  /** Cursor of the next page; undefined before the first page is read, null after the last. */
  readonly next: string | null | undefined
  readonly problem: ShownProblem | undefined
  readonly isLoading: boolean
  readonly pages: number
}

export interface PagesHandle<T> {
  readonly state: ReadonlySignal<PagedList<T>>
  /** Loads the first page that has items again. The rows stay until the answer arrives. */
  readonly refresh: () => void
  /** Loads the first page again, and no other. The rows stay if it is empty but not the last. */
  readonly poll: () => void
  readonly more: () => void
  readonly patch: (change: (row: T) => T) => void
}

interface Page<T> {
  readonly items: readonly T[]
  readonly next: string | null
}

/** @param key identifies the list; a new key discards the old rows */
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
  const read = async (cursor: string | undefined, isPoll = false) => {
    current?.abort()
    const controller = new AbortController()
    current = controller
    state.value = { ...state.peek(), isLoading: true }
    try {
      let page = await load(cursor, controller.signal)
      // Pages of a rare state may be empty although a next page exists. Loads on until a page has items. A poll does so
      // only if no page was read before, because it would scan a large ledger every few seconds.
      if (!isPoll || state.peek().next === undefined) {
        while (page.items.length === 0 && page.next !== null) page = await load(page.next, controller.signal)
      }
      if (controller.signal.aborted) return
      if (page.items.length === 0 && page.next !== null) {
        state.value = { ...state.peek(), problem: undefined, isLoading: false }
        return
      }
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
    poll: () => void read(undefined, true),
    more: () => {
      const { next, isLoading, problem } = state.peek()
      // After a problem only the reader can retry, because automatic retries would not stop.
      if (!isLoading && problem === undefined && typeof next === 'string') void read(next)
    },
    patch: (change: (row: T) => T) => (state.value = { ...state.peek(), rows: state.peek().rows.map(change) }),
    stop: () => current?.abort(),
  }
}
