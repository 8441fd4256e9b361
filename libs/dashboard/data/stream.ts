import { signal } from '@preact/signals'
import { pause, readClock } from './clock.js'
import { RequestError, send } from './client.js'
import { EventReader, type ServerEvent } from './sse.js'

/** `off`: this token may not watch. The pages still work, each asked for anew now and then. */
type LiveState = 'connecting' | 'live' | 'reconnecting' | 'off'

export const liveState = signal<LiveState>('connecting')

/** When the server last said that it had read the database; at first, when this page was opened. */
export const lookedAtMs = signal(readClock())

type Listener = (event: ServerEvent) => void
const listeners = new Set<Listener>()

/** Told of each event, and of the pseudo event `reconnected`, after which whatever is shown may be old. */
export function onServerEvent(listener: Listener): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** Keeps one stream open until the signal aborts: reads it to its end, waits a little longer each time, opens it again. */
export async function keepStreamOpen(stop: AbortSignal): Promise<void> {
  liveState.value = 'connecting'
  for (let failures = 0; !stop.aborted; failures += 1) {
    try {
      const response = await send('/v1/stream', { signal: stop, headers: { accept: 'text/event-stream' } })
      if (liveState.peek() === 'reconnecting') tell({ type: 'reconnected', data: '', id: undefined })
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

/** Until the server ends it, or has said nothing for so long that nobody can be there: it sends a heartbeat every ten seconds. */
async function readEvents(response: Response): Promise<void> {
  const reader = new EventReader()
  const decoder = new TextDecoder()
  const source = response.body?.getReader()
  if (source === undefined) return
  for (;;) {
    const heard = new AbortController()
    const silence = pause(SILENCE_MS, heard.signal).then(() => ({ done: true, value: undefined }))
    const { done, value } = await Promise.race([source.read(), silence])
    heard.abort()
    if (done) return source.cancel()
    for (const event of reader.read(decoder.decode(value, { stream: true }))) {
      if (event.type === 'looked') lookedAtMs.value = readClock()
      else tell(event)
    }
  }
}

const SILENCE_MS = 35_000

function tell(event: ServerEvent): void {
  for (const listener of listeners) listener(event)
}

/** Half a second, doubled up to ten, and spread: a server that comes back must not meet all its watchers at once. */
function waitMs(failures: number): number {
  return Math.min(10_000, 500 * 2 ** failures) * (0.75 + Math.random() / 2)
}

const FINAL_STATUSES = new Set([401, 403, 404])
