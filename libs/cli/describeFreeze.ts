import type { DispatchEpoch, FreezeCause } from '../outbox/index.js'

/** What a freeze means, for whoever has to decide. */
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

const REMEDY =
  'Compare the rail’s book with this one (docs/operate/restore.md), then: symphony freeze lift --reason "…"'

/** A freeze in words, with what to do about it; nothing while dispatch is open. */
export function describeFreeze(epoch: DispatchEpoch | undefined): readonly string[] {
  if (epoch?.frozen !== true) return []
  const { frozenAt, freezeCause, freezeReason, frozenBy } = epoch
  return [
    `Dispatch is FROZEN since ${frozenAt?.toISOString()}: nothing is sent. Found by ${frozenBy}.`,
    `  ${freezeCause}: ${freezeReason}.`,
    `  ${freezeCause === null ? '' : MEANINGS[freezeCause]}`,
    `  ${describeMarks(epoch)}`,
    `  ${REMEDY}`,
  ]
}

function describeMarks({ markedAt, itemsMarked }: DispatchEpoch): string {
  if (markedAt === null) return 'What waits is not marked yet: a worker does it, or the lifting.'
  return `${itemsMarked} waiting payments were marked as of unknown outcome; the policy of each rail decides about them.`
}
