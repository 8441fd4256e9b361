/**
 * The rail, in a process that dies as `kill -9` ends it once so many messages were published, in the moment between the
 * broker's answer and the relayer's: the broker knows, and the database does not.
 */
export function killedAfter(rail, publishedMax) {
  let published = 0
  return {
    ...rail,
    dispatch: async (...given) => {
      const answer = await rail.dispatch(...given)
      published += 1
      if (published === publishedMax) process.kill(process.pid, 'SIGKILL')
      // What was answered after that is not told either.
      return published >= publishedMax ? new Promise(() => {}) : answer
    },
  }
}
