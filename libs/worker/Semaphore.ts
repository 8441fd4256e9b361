import { AppError } from '../core/index.js'

/** A number of things that may happen at once. Counts only; who waits, and for what, is the caller's affair. */
export class BoundedSlots {
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

  take(): void {
    if (this.#taken >= this.size) throw new AppError('SLOTS_EXCEEDED', `all ${this.size} slots are taken`)
    this.#taken += 1
  }

  give(): void {
    if (this.#taken <= 0) throw new AppError('SLOTS_EXCEEDED', 'a slot was given back that nobody had taken')
    this.#taken -= 1
  }
}
