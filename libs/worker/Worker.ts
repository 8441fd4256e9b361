/**
 * The anatomy of every worker. `runOnce` holds all the work and is what tests call; `start` puts it in a loop; `stop` waits,
 * within a bound, for the work in hand. `stop` is safe twice, and safe before `start`.
 */
export interface Worker<Counts> {
  start(): Promise<void>
  stop(): Promise<void>
  runOnce(): Promise<Counts>
}
