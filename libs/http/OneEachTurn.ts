/**
 * Lets work that takes long pass one piece at each turn of the event loop, in the order it came: what is short gets its turn in
 * between, however much of the other there is.
 */
export class OneEachTurn {
  readonly #waiting: (() => void)[] = []
  #isDue = false

  enter(work: () => void): void {
    this.#waiting.push(work)
    this.#schedule()
  }

  #schedule(): void {
    if (this.#isDue || this.#waiting.length === 0) return
    this.#isDue = true
    setImmediate(() => {
      this.#isDue = false
      const work = this.#waiting.shift()
      // Before it is done: what throws must not keep the others waiting.
      this.#schedule()
      work?.()
    })
  }
}
