import type { Link } from './chain.js'
import type { ChainSubjects } from './LedgerSource.js'
import { linkDefect } from './verifyLinks.js'

/**
 * Follows chains from link to link while rows pass in the order in which they were written, so that most of them need not be read
 * a second time. It acquits, and never condemns: a chain with anything odd about it, or of which the beginning was forgotten, is
 * suspected, and is then read by itself and judged link by link.
 */
export class OpenChains {
  readonly #chainsMax: number
  /** By subject, the last link of each chain that may go on. An item's chain ends; that of its events never says so. */
  readonly #items = new Map<string, Last>()
  readonly #events = new Map<string, Last>()
  readonly #suspectedItems = new Set<string>()
  readonly #suspectedEvents = new Set<string>()

  /** @param chainsMax how many are remembered, and how many may be suspected, before all are read again */
  constructor(chainsMax: number) {
    this.#chainsMax = chainsMax
  }

  see(link: Link): void {
    const { kind, subject, number, rowHash, ends } = link
    const isEvent = kind === 'event'
    const chains = isEvent ? this.#events : this.#items
    const before = chains.get(subject)
    if (kind === 'identity' ? before !== undefined : linkDefect(link, before) !== undefined) {
      // One too many is enough to know that there are too many.
      const suspected = isEvent ? this.#suspectedEvents : this.#suspectedItems
      if (!this.areTooMany) suspected.add(subject)
    }
    // Behind all others, so that the one forgotten first is the one that has been still for longest.
    if (before !== undefined) chains.delete(subject)
    // What follows the end has nothing before it, and is suspected for that.
    if (ends) return
    chains.set(subject, { number, rowHash })
    if (chains.size > this.#chainsMax) forgetHalf(chains)
  }

  get areTooMany(): boolean {
    return this.#suspectedItems.size + this.#suspectedEvents.size > this.#chainsMax
  }

  /** In a set order, so that two reports of one ledger say the same. */
  get suspects(): ChainSubjects {
    return {
      items: new Set([...this.#suspectedItems].toSorted()),
      events: new Set([...this.#suspectedEvents].toSorted()),
    }
  }
}

type Last = Pick<Link, 'number' | 'rowHash'>

/** The older half at once: to look for the oldest one by one, a Map passes over all that were removed before it. */
function forgetHalf(chains: Map<string, Last>): void {
  const kept = chains.size / 2
  for (const subject of chains.keys()) {
    if (chains.size <= kept) return
    chains.delete(subject)
  }
}
