/**
 * The end of `work`, or the error of `givenUp` as soon as the signal aborts. Clients of brokers take no signal: the work
 * goes on behind, and how it ends is then nobody's concern.
 */
export async function unlessAborted<Value>(
  work: Promise<Value>,
  signal: AbortSignal,
  givenUp: () => Error,
): Promise<Value> {
  const ended = new AbortController()
  const aborted = new Promise<never>((_, reject) => {
    if (signal.aborted) reject(givenUp())
    else signal.addEventListener('abort', () => reject(givenUp()), { signal: ended.signal })
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    ended.abort()
  }
}
