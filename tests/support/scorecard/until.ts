import { setTimeout as delay } from 'node:timers/promises'

export interface UntilOptions {
  /** Against a state that never comes, not against a machine that is busy. @default 120000 */
  readonly timeoutMs?: number
  /** @default 20 */
  readonly everyMs?: number
}

/** Looks until what it sees is there, and returns it. Rejects, naming what never came. */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined | false> | T | undefined | false,
  { timeoutMs = 120_000, everyMs = 20 }: UntilOptions = {},
): Promise<T> {
  const deadline = process.hrtime.bigint() + BigInt(timeoutMs) * 1_000_000n
  for (;;) {
    const seen = await look()
    if (seen !== undefined && seen !== false) return seen
    if (process.hrtime.bigint() > deadline) throw new Error(`${timeoutMs} ms passed, and still not: ${what}`)
    await delay(everyMs)
  }
}

/** Tries until it succeeds: for calls on a server that comes and goes. */
export async function insist<T>(what: string, attempt: () => Promise<T>, options: UntilOptions = {}): Promise<T> {
  let last: unknown
  const succeeded = await until(
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
