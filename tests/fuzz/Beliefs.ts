/** A worker and the claims that it acts on. */
export interface Acting<C> {
  readonly worker: number
  readonly chosen: readonly C[]
}

export interface BeliefPick {
  readonly worker: number
  readonly picks: readonly number[]
  /** Whether another worker presents them as its own. */
  readonly foreign: boolean
}

/**
 * Claims that each worker believes to hold, rightly or not. A lost lease is not reported to it; only a crash clears the
 * list.
 */
export class Beliefs<C> {
  readonly #byWorker: C[][]

  constructor(workers: number) {
    this.#byWorker = Array.from({ length: workers }, () => [])
  }

  add(worker: number, claim: C): void {
    this.#byWorker[worker]!.push(claim)
  }

  forget(worker: number): void {
    this.#byWorker[worker] = []
  }

  /**
   * Picks claims of this worker, or of the next one with suitable ones. Most are live, some are stale. Returns
   * undefined if no worker has any.
   */
  pick(
    pick: BeliefPick,
    isLive: (worker: number, claim: C) => boolean,
    suits: (claim: C) => boolean = () => true,
  ): Acting<C> | undefined {
    const count = this.#byWorker.length
    const workers = Array.from({ length: count }, (_, index) => (pick.worker + index) % count)
    const worker = workers.find((candidate) => this.#byWorker[candidate]!.some(suits))
    if (worker === undefined) return undefined
    const believed = this.#byWorker[worker]!.filter(suits)
    const live = believed.filter((claim) => isLive(worker, claim))
    const stale = believed.filter((claim) => !live.includes(claim))
    const chosen = pick.picks.map((number) => {
      const preferred = number < MOSTLY ? live : stale
      const among = preferred.length > 0 ? preferred : believed
      return among[number % among.length]!
    })
    return { worker: pick.foreign ? (worker + 1) % count : worker, chosen }
  }
}

/** Picks are numbers from 0 to 6. Below this number, live claims are preferred. */
const MOSTLY = 5
