import { useEffect } from 'preact/hooks'
import { atMostEvery, pause } from './clock.js'
import { onServerEvent } from './stream.js'
import type { PagesHandle } from './usePages.js'

const REFRESH_EVERY_MS = 2_000
const ASK_EVERY_MS = 5_000

/**
 * Reads the first page of a list again after an event, and every few seconds. Does not do so after a further page was
 * loaded, or while `isAtBeginning` returns false, so that rows do not move while a person reads them.
 */
export function useFreshPages<T>(list: PagesHandle<T>, isAtBeginning: () => boolean = () => true): void {
  useEffect(() => {
    const left = new AbortController()
    const poll = () => {
      const { pages, isLoading } = list.state.peek()
      if (pages <= 1 && !isLoading && document.visibilityState === 'visible' && isAtBeginning()) list.poll()
    }
    const throttled = atMostEvery(REFRESH_EVERY_MS, poll)
    const unsubscribe = onServerEvent(({ type }) => {
      if (type !== 'status') throttled.ask()
    })
    void askEvery(poll, left.signal)
    return () => {
      left.abort()
      unsubscribe()
      throttled.stop()
    }
  }, [list])
}

async function askEvery(poll: () => void, left: AbortSignal): Promise<void> {
  for (;;) {
    await pause(ASK_EVERY_MS, left)
    if (left.aborted) return
    poll()
  }
}
