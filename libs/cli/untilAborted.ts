import { sleep } from '../worker/index.js'

/** A pending timer is what keeps the process alive; a signal alone would not. */
export async function untilAborted(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) await sleep(DAY_MS, signal)
}

const DAY_MS = 86_400_000
