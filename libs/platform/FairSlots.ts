interface Waiter {
  readonly name: string
  readonly enter: () => void
}

/**
 * Limits the number of databases that are served at once, first come, first served. Workers of one database share its
 * slot while no other database waits. Once a database waits, later callers queue behind it. So a database waits only
 * for the callers ahead of it, however much work the others have.
 */
export class FairSlots {
  readonly #size: number
  readonly #onLeft: (name: string) => void
  readonly #working = new Map<string, number>()
  #waiting: Waiter[] = []

  /** @param onLeft called when the last worker of a database has left, before another database gets the slot */
  constructor(size: number, onLeft: (name: string) => void = () => {}) {
    this.#size = size
    this.#onLeft = onLeft
  }

  get working(): number {
    return this.#working.size
  }

  get waiting(): number {
    return this.#waiting.length
  }

  /** Waits for a slot of this database. Returns its release function; undefined if the signal aborted first. */
  async acquire(name: string, signal: AbortSignal): Promise<(() => void) | undefined> {
    if (this.#waiting.length > 0 || !this.#hasSlotFor(name)) {
      const entered = await this.#wait(name, signal)
      if (!entered) return undefined
    } else this.#enter(name)
    return () => this.#leave(name)
  }

  #wait(name: string, signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const giveUp = () => {
        this.#waiting = this.#waiting.filter((one) => one !== waiter)
        resolve(false)
        // Callers behind this one may have waited only for it, so they may enter now.
        this.#admit()
      }
      const waiter: Waiter = {
        name,
        enter: () => {
          signal.removeEventListener('abort', giveUp)
          this.#enter(name)
          resolve(true)
        },
      }
      if (signal.aborted) return resolve(false)
      this.#waiting.push(waiter)
      signal.addEventListener('abort', giveUp, { once: true })
    })
  }

  #hasSlotFor(name: string): boolean {
    return this.#working.has(name) || this.#working.size < this.#size
  }

  #enter(name: string): void {
    this.#working.set(name, (this.#working.get(name) ?? 0) + 1)
  }

  #leave(name: string): void {
    const others = (this.#working.get(name) ?? 0) - 1
    if (others > 0) {
      this.#working.set(name, others)
      return
    }
    this.#working.delete(name)
    this.#onLeft(name)
    this.#admit()
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next !== undefined && this.#hasSlotFor(next.name); next = this.#waiting[0]) {
      this.#waiting.shift()
      next.enter()
    }
  }
}
