/**
 * Set of state texts, stored as 64-bit hashes with the step that led to each, in about 20 bytes per text. Two texts
 * with the same hash count as one. With five million texts, the chance of such a pair is below one in a million.
 */
export class StateSet {
  #table = new Int32Array(1 << 16).fill(-1)
  #high = new Uint32Array(1 << 15)
  #low = new Uint32Array(1 << 15)
  #parent = new Int32Array(1 << 15)
  #step = new Uint8Array(1 << 15)
  #size = 0

  get size(): number {
    return this.#size
  }

  /** Adds a text. Returns its number, or -1 if the set already has it. */
  add(text: string, parent: number, step: number): number {
    let high = 0x9747b28c
    let low = 0x811c9dc5
    for (let index = 0; index < text.length; index += 1) {
      const code = text.codePointAt(index)!
      low = Math.imul(low ^ code, 0x01000193)
      high = Math.imul((high ^ code) + (high >>> 15), 0x85ebca6b)
    }
    low = mix(low)
    high = mix(high)
    const mask = this.#table.length - 1
    let place = (low ^ Math.imul(high, 0x9e3779b1)) & mask
    for (let found = this.#table[place]!; found !== -1; found = this.#table[place]!) {
      if (this.#low[found] === low && this.#high[found] === high) return -1
      place = (place + 1) & mask
    }
    if (this.#size === this.#low.length) this.#grow()
    const number = this.#size
    this.#size += 1
    this.#table[place] = number
    this.#low[number] = low
    this.#high[number] = high
    this.#parent[number] = parent
    this.#step[number] = step
    if (this.#size * 2 > this.#table.length) this.#spread()
    return number
  }

  /** Returns the steps that led to a text, in order, and the number of the text at which they start. */
  pathTo(number: number): { readonly root: number; readonly steps: readonly number[] } {
    const steps: number[] = []
    let at = number
    for (; this.#parent[at]! !== -1; at = this.#parent[at]!) steps.push(this.#step[at]!)
    return { root: at, steps: steps.toReversed() }
  }

  #grow(): void {
    this.#high = enlarge(this.#high, new Uint32Array(this.#high.length * 2))
    this.#low = enlarge(this.#low, new Uint32Array(this.#low.length * 2))
    this.#parent = enlarge(this.#parent, new Int32Array(this.#parent.length * 2))
    this.#step = enlarge(this.#step, new Uint8Array(this.#step.length * 2))
  }

  #spread(): void {
    const table = new Int32Array(this.#table.length * 2).fill(-1)
    const mask = table.length - 1
    for (let number = 0; number < this.#size; number += 1) {
      let place = (this.#low[number]! ^ Math.imul(this.#high[number]!, 0x9e3779b1)) & mask
      while (table[place] !== -1) place = (place + 1) & mask
      table[place] = number
    }
    this.#table = table
  }
}

/** Finishes a 32-bit hash, so that every bit of the text affects every bit of the hash. */
function mix(hash: number): number {
  let mixed = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}

function enlarge<A extends Uint32Array | Int32Array | Uint8Array>(from: A, to: A): A {
  to.set(from)
  return to
}
