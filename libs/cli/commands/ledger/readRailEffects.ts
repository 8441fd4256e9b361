import type { RailEffect } from '../../../ledger/index.js'
import { readBook } from '../../../rails/index.js'

/** The rail's book as the auditor takes it: one entry for each time that money moved. */
export async function readRailEffects(bookFile: string): Promise<readonly RailEffect[]> {
  const effects: RailEffect[] = []
  for (const { reference, railReference, count } of (await readBook(bookFile)).values()) {
    for (let time = 0; time < count; time += 1) effects.push({ reference, railReference })
  }
  return effects
}
