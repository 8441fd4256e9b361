/** Options of `expect.poll(read, POLL_OPTIONS)`: a timeout that is long enough for a busy machine. */
export const POLL_OPTIONS = { timeout: 60_000, interval: 20 }
