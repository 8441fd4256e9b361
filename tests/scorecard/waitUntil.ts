import { setTimeout as delay } from 'node:timers/promises'

export interface WaitOptions {
  /** Timeout that is long enough for a busy machine. @default 120000 */
  readonly timeoutMs?: number
  /** @default 20 */
  readonly everyMs?: number
}

/** Polls `read` until it returns a value, and returns that value. Rejects after the timeout and names `what`. */
export async function waitUntil<T>(
  what: string,
  read: () => Promise<T | undefined | false> | T | undefined | false,
  { timeoutMs = 120_000, everyMs = 20 }: WaitOptions = {},
): Promise<T> {
  const deadline = process.hrtime.bigint() + BigInt(timeoutMs) * 1_000_000n
  for (;;) {
    const seen = await read()
    if (seen !== undefined && seen !== false) return seen
    if (process.hrtime.bigint() > deadline) throw new Error(`${timeoutMs} ms passed, still waiting for: ${what}`)
    await delay(everyMs)
  }
}

/** Repeats a call until it succeeds, for a server that restarts. */
export async function retryUntilSuccess<T>(
  what: string,
  attempt: () => Promise<T>,
  options: WaitOptions = {},
): Promise<T> {
  let last: unknown
  const succeeded = await waitUntil(
    what,
    async () => {
      try {
        return { value: await attempt() }
      } catch (error) {
        last = error
        return undefined
      }
    },
    options,
  ).catch((cause: unknown) => {
    throw new Error(`${what} never succeeded: ${String(last)}`, { cause })
  })
  return succeeded.value
}
