/** Whose turn it is. */
interface Waiter {
  readonly name: string
  readonly enter: () => void
}

/**
 * How many databases may be worked on at once, and in which order they come. Several workers of one database share its turn
 * while nobody else is waiting; as soon as somebody is, whoever comes is put behind them. So no database waits longer than
 * the turns of those before it, however much work the others have.
 */
export class Turns {
  readonly #size: number
  readonly #onLeft: (name: string) => void
  readonly #working = new Map<string, number>()
  #waiting: Waiter[] = []

  /** @param onLeft the last worker of a database has left, before anybody takes its place */
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

  /** Waits for the turn of this database; the returned function ends it. Undefined: the signal came first. */
  async take(name: string, signal: AbortSignal): Promise<(() => void) | undefined> {
    if (this.#waiting.length > 0 || !this.#hasRoomFor(name)) {
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
        // Who was behind may have been waiting for this one only.
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

  #hasRoomFor(name: string): boolean {
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
    for (let next = this.#waiting[0]; next !== undefined && this.#hasRoomFor(next.name); next = this.#waiting[0]) {
      this.#waiting.shift()
      next.enter()
    }
  }
}
