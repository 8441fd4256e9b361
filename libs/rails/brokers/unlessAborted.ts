/**
 * The end of `work`, or the error of `givenUp` as soon as the signal aborts. Clients of brokers take no signal: the work
 * goes on behind, and how it ends is then nobody's concern.
 */
export function unlessAborted<Value>(work: Promise<Value>, signal: AbortSignal, givenUp: () => Error): Promise<Value> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(givenUp())
    const ended = () => signal.removeEventListener('abort', abort)
    signal.addEventListener('abort', abort)
    if (signal.aborted) abort()
    work.then(
      (value) => {
        ended()
        resolve(value)
      },
      (error: unknown) => {
        ended()
        reject(error)
      },
    )
  })
}
