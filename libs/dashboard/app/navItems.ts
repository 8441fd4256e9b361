import { boundTo } from '../data/me.js'
import type { IconName } from '../parts/Icon.js'

/** A page in the navigation. */
export interface NavItem {
  /** The first part of its address; empty for the overview. */
  readonly path: string
  readonly title: string
  /** For the narrow bar of a phone. */
  readonly shortTitle: string
  readonly icon: IconName
  /** Pressed after `g`. */
  readonly key: string
  /** In the bar of a phone; the others are behind "More". */
  readonly isMain: boolean
  /** Covers all participants, so hidden from a key that is bound to some. */
  readonly isShared: boolean
}

export const NAV_ITEMS: readonly NavItem[] = [
  navItem('', 'Overview', 'overview', 'o', true),
  navItem('payments', 'Payments', 'payments', 'p', true),
  { ...navItem('dlq', 'Dead letters', 'dead', 'd', true), shortTitle: 'Dead' },
  navItem('holds', 'Holds', 'held', 'h', true),
  { ...navItem('contradictions', 'Contradictions', 'warning', 'c', false), isShared: false },
  navItem('dispatch', 'Dispatch', 'dispatch', 'f', false),
  navItem('scheduler', 'Scheduler', 'scheduler', 's', false),
  navItem('inbox', 'Inbox', 'inbox', 'i', false),
  navItem('leases', 'Leases', 'leases', 'l', false),
  navItem('databases', 'Databases', 'databases', 'b', false),
]

/** Returns the pages that this token may read. */
export function visibleNavItems(): readonly NavItem[] {
  return boundTo() === null ? NAV_ITEMS : NAV_ITEMS.filter(({ isShared }) => !isShared)
}

function navItem(path: string, title: string, icon: IconName, key: string, isMain: boolean): NavItem {
  return { path, title, shortTitle: title, icon, key, isMain, isShared: !isMain }
}
