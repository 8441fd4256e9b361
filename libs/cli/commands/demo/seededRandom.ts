import { createHash } from 'node:crypto'

/** Returns the next random number from 0 to below 1. The seed determines the sequence on every machine. */
export type Random = () => number

export function seededRandom(seed: string): Random {
  let count = 0
  return () => {
    count += 1
    const digest = createHash('sha256').update(`${count} ${seed}`).digest()
    return digest.readUIntBE(0, 6) / 2 ** 48
  }
}

/** Returns a whole number from min to max, both included. */
export function between(random: Random, min: number, max: number): number {
  return min + Math.floor(random() * (max - min + 1))
}
