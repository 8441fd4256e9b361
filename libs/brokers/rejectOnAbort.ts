/**
 * Returns the result of `work`, or rejects with `abortedError()` when the signal aborts. Clients of brokers take no signal: the
 * work continues in the background, and its result is ignored.
 */
export async function rejectOnAbort<Value>(
  work: Promise<Value>,
  signal: AbortSignal,
  abortedError: () => Error,
): Promise<Value> {
  const ended = new AbortController()
  const aborted = new Promise<never>((_, reject) => {
    if (signal.aborted) reject(abortedError())
    else signal.addEventListener('abort', () => reject(abortedError()), { signal: ended.signal })
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    ended.abort()
  }
}
