import { SymphonyError } from '../core/index.js'

/** Counts slots in use against a maximum. It does not queue: a caller checks `free` first. */
export class Semaphore {
  readonly size: number
  #taken = 0

  constructor(size: number) {
    this.size = size
  }

  get taken(): number {
    return this.#taken
  }

  get free(): number {
    return this.size - this.#taken
  }

  acquire(): void {
    if (this.#taken >= this.size) throw new SymphonyError('SLOTS_EXCEEDED', `all ${this.size} slots are taken`)
    this.#taken += 1
  }

  release(): void {
    if (this.#taken <= 0) throw new SymphonyError('SLOTS_EXCEEDED', 'release() without a matching acquire()')
    this.#taken -= 1
  }
}
