/**
 * Interface of every worker. `runOnce` does one round and is the method that tests call. `start` repeats it in a loop. `stop`
 * waits, within a bound, for running work; it may be called twice, and before `start`.
 */
export interface Worker<Counts> {
  start(): Promise<void>
  stop(): Promise<void>
  runOnce(): Promise<Counts>
}
