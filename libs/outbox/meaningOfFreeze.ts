import type { FreezeCause } from './types.js'

/** What a freeze means, for whoever has to decide. */
export function meaningOfFreeze(cause: FreezeCause): string {
  return MEANINGS[cause]
}

const MEANINGS: Readonly<Record<FreezeCause, string>> = {
  ANOTHER_SERVER:
    'The data is on another server than before: a restored dump, a copy, or an upgrade that made a new one.',
  ANOTHER_DATABASE: 'The data is in another database than before: a copy, or a dump restored beside it.',
  LOWER_TIMELINE: 'The server is on an earlier timeline than before: an old primary, or an older backup.',
  NEW_TIMELINE:
    'A standby was promoted, or a backup was recovered, and it is not certain that everything had reached it.',
  LOST_COMMITS: 'A worker remembers what the database does not: it is an earlier state of itself.',
  OPERATOR: 'A person froze it.',
}
