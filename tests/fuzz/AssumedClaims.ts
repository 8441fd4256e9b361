/** A worker and the claims that it presents. */
export interface Acting<C> {
  readonly worker: number
  readonly chosen: readonly C[]
}

export interface ClaimPick {
  readonly worker: number
  readonly picks: readonly number[]
  /** Whether the next worker presents the claims as its own. */
  readonly foreign: boolean
}

/**
 * Claims that each worker believes to hold, live or lost. A worker does not learn that it lost a claim; only a crash
 * clears its list.
 */
export class AssumedClaims<C> {
  readonly #byWorker: C[][]

  constructor(workers: number) {
    this.#byWorker = Array.from({ length: workers }, () => [])
  }

  add(worker: number, claim: C): void {
    this.#byWorker[worker]!.push(claim)
  }

  clear(worker: number): void {
    this.#byWorker[worker] = []
  }

  /**
   * Picks claims for which `suits` is true, of this worker or of the next worker that has some. Most are live, some are
   * lost. Returns undefined if no worker has one.
   */
  pick(
    pick: ClaimPick,
    isLive: (worker: number, claim: C) => boolean,
    suits: (claim: C) => boolean = () => true,
  ): Acting<C> | undefined {
    const count = this.#byWorker.length
    const workers = Array.from({ length: count }, (_, index) => (pick.worker + index) % count)
    const worker = workers.find((candidate) => this.#byWorker[candidate]!.some(suits))
    if (worker === undefined) return undefined
    const assumed = this.#byWorker[worker]!.filter(suits)
    const live = assumed.filter((claim) => isLive(worker, claim))
    const stale = assumed.filter((claim) => !live.includes(claim))
    const chosen = pick.picks.map((number) => {
      const preferred = number < MOSTLY ? live : stale
      const among = preferred.length > 0 ? preferred : assumed
      return among[number % among.length]!
    })
    return { worker: pick.foreign ? (worker + 1) % count : worker, chosen }
  }
}

/** Picks are numbers from 0 to 6. A pick below this number prefers a live claim, any other a lost claim. */
const MOSTLY = 5
