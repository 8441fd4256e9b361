import { boundTo } from '../data/me.js'
import type { GlyphName } from '../parts/Glyph.js'

/** The pages, in the order of the navigation. */
export interface Place {
  /** The first part of its address; empty for the overview. */
  readonly path: string
  readonly title: string
  /** For the narrow bar of a phone. */
  readonly shortTitle: string
  readonly glyph: GlyphName
  /** Pressed after `g`. */
  readonly key: string
  /** In the bar of a phone; the others are behind "More". */
  readonly isMain: boolean
  /** About all participants alike, so not for a key that is bound to some of them. */
  readonly isShared: boolean
}

export const PLACES: readonly Place[] = [
  place('', 'Overview', 'overview', 'o', true),
  place('payments', 'Payments', 'payments', 'p', true),
  { ...place('dlq', 'Dead letters', 'dead', 'd', true), shortTitle: 'Dead' },
  place('holds', 'Holds', 'held', 'h', true),
  { ...place('contradictions', 'Contradictions', 'warning', 'c', false), isShared: false },
  place('dispatch', 'Dispatch', 'dispatch', 'f', false),
  place('scheduler', 'Scheduler', 'scheduler', 's', false),
  place('inbox', 'Inbox', 'inbox', 'i', false),
  place('leases', 'Leases', 'leases', 'l', false),
  place('databases', 'Databases', 'databases', 'b', false),
]

/** Those that this token can look at. */
export function placesInSight(): readonly Place[] {
  return boundTo() === null ? PLACES : PLACES.filter(({ isShared }) => !isShared)
}

function place(path: string, title: string, glyph: GlyphName, key: string, isMain: boolean): Place {
  return { path, title, shortTitle: title, glyph, key, isMain, isShared: !isMain }
}
