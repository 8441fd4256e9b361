import type { Worker } from '../worker/index.js'
import type { FleetWorker } from './Fleet.js'

/**
 * Any worker of the house, for a fleet: relayer, repair, inbox, scheduler. `isBusy` says by its counts whether there may be
 * more to do at once.
 */
export function fleetWorker<Counts>(
  name: string,
  worker: Pick<Worker<Counts>, 'runOnce' | 'stop'>,
  isBusy: (counts: Counts) => boolean,
  everyMs?: number,
): FleetWorker {
  return {
    name,
    ...(everyMs === undefined ? {} : { everyMs }),
    run: async () => ({ again: isBusy(await worker.runOnce()) }),
    stop: () => worker.stop(),
  }
}
