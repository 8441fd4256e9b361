import { effect, signal } from '@preact/signals'
import { pause, readClock } from './clock.js'
import { liveState, lookedAtMs } from './stream.js'

/**
 * Time of the last successful read of the database, set only when that time is too long ago; null while the data is
 * fresh.
 */
export const staleSince = signal<string | null>(null)

/**
 * Time without an event `looked` after which data is stale. The server sends this event after each read of the
 * database, once per second.
 */
const STALE_AFTER_MS = 3_500
const CHECKED_EVERY_MS = 500

/**
 * Sets `staleSince` when the events `looked` stop, because every fault of database, server or network stops them.
 * Without a stream no events are expected, and each page reports its own failed requests.
 */
export async function watchFreshness(stop: AbortSignal): Promise<void> {
  lookedAtMs.value = readClock()
  const update = () => {
    const isStale = liveState.peek() !== 'off' && readClock() - lookedAtMs.value > STALE_AFTER_MS
    staleSince.value = isStale ? new Date(lookedAtMs.value).toISOString() : null
  }
  const unsubscribe = effect(update)
  while (!stop.aborted) {
    update()
    await pause(CHECKED_EVERY_MS, stop)
  }
  unsubscribe()
  staleSince.value = null
}
