/** Aborts when whoever holds the other end of standard input is gone: how a child ends with a parent that was killed. */
export function stdinClosed(): AbortSignal {
  const closed = new AbortController()
  process.stdin.once('close', () => closed.abort()).once('error', () => closed.abort())
  process.stdin.resume()
  return closed.signal
}
