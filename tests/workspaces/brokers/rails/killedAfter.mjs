/**
 * Wraps a rail so that its process kills itself after `publishedMax` publishes. The broker has confirmed the last
 * message, and the database does not know that.
 */
export function killedAfter(rail, publishedMax) {
  let published = 0
  return {
    ...rail,
    dispatch: async (...given) => {
      const answer = await rail.dispatch(...given)
      published += 1
      if (published === publishedMax) process.kill(process.pid, 'SIGKILL')
      // After the last allowed publish, confirmations of concurrent publishes are not returned.
      return published >= publishedMax ? new Promise(() => {}) : answer
    },
  }
}
