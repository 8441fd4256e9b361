/** Who acts, and with what. */
export interface Acting<C> {
  readonly worker: number
  readonly chosen: readonly C[]
}

export interface BeliefPick {
  readonly worker: number
  readonly picks: readonly number[]
  /** Another worker shows them as its own. */
  readonly foreign: boolean
}

/** What each worker believes to hold, right or wrong: nobody tells it that a lease was lost. Only a crash makes it forget. */
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
   * Claims of this worker, or of the next one that has any that suit: mostly such as are live, now and then such as are not.
   * Undefined when nobody believes in anything.
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

/** Of the numbers 0 to 6 that are drawn for a pick. */
const MOSTLY = 5
