import { signal } from '@preact/signals'
import { pause, readClock } from './clock.js'
import { RequestError, send } from './client.js'
import { EventReader, type ServerEvent } from './sse.js'

/** State of the event stream. `off`: the credential may not open the stream, so the pages poll. */
type LiveState = 'connecting' | 'live' | 'reconnecting' | 'off'

export const liveState = signal<LiveState>('connecting')

/** Time at which the server last reported a read of the database; initially the time at which the page was opened. */
export const lookedAtMs = signal(readClock())

type Listener = (event: ServerEvent) => void
const listeners = new Set<Listener>()

/**
 * Subscribes to events. The pseudo-event `reconnected` means that events may have been missed, so shown data may be
 * old.
 */
export function onServerEvent(listener: Listener): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** Keeps one stream open until the signal aborts. Reconnects with a growing delay. */
export async function keepStreamOpen(stop: AbortSignal): Promise<void> {
  liveState.value = 'connecting'
  for (let failures = 0; !stop.aborted; failures += 1) {
    try {
      const response = await send('/v1/stream', { signal: stop, headers: { accept: 'text/event-stream' } })
      if (liveState.peek() === 'reconnecting') notifyListeners({ type: 'reconnected', data: '', id: undefined })
      liveState.value = 'live'
      failures = 0
      await readEvents(response)
    } catch (error) {
      if (stop.aborted) return
      if (error instanceof RequestError && FINAL_STATUSES.has(error.problem.status)) {
        liveState.value = 'off'
        return
      }
    }
    liveState.value = 'reconnecting'
    await pause(waitMs(failures), stop)
  }
}

/**
 * Reads until the server ends the stream, or sends nothing for 35 s. The server sends an event about every second, or a
 * heartbeat about every 10 s while its database does not answer.
 */
async function readEvents(response: Response): Promise<void> {
  const reader = new EventReader()
  const decoder = new TextDecoder()
  const source = response.body?.getReader()
  if (source === undefined) return
  for (;;) {
    const received = new AbortController()
    const silence = pause(SILENCE_MS, received.signal).then(() => ({ done: true, value: undefined }))
    const { done, value } = await Promise.race([source.read(), silence])
    received.abort()
    if (done) return source.cancel()
    for (const event of reader.read(decoder.decode(value, { stream: true }))) {
      if (event.type === 'looked') lookedAtMs.value = readClock()
      else notifyListeners(event)
    }
  }
}

const SILENCE_MS = 35_000

function notifyListeners(event: ServerEvent): void {
  for (const listener of listeners) listener(event)
}

/**
 * Returns 0.5 s, doubled per failure up to 10 s, with jitter, so that pages do not reconnect to a restarted server all
 * at once.
 */
function waitMs(failures: number): number {
  return Math.min(10_000, 500 * 2 ** failures) * (0.75 + Math.random() / 2)
}

const FINAL_STATUSES = new Set([401, 403, 404])
