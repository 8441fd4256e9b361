import { boundTo } from '../data/me.js'
import type { IconName } from '../parts/Icon.js'

export interface NavItem {
  /** First part of the address; empty for the overview. */
  readonly path: string
  readonly title: string
  readonly shortTitle: string
  readonly icon: IconName
  /** Letter that opens the page when typed after `g`. */
  readonly key: string
  /** Whether the navigation bar on a phone shows the page. The button "More" opens the other pages. */
  readonly isMain: boolean
  /** Whether the page covers all participants. A key restricted to some participants does not see it. */
  readonly isShared: boolean
}

export const NAV_ITEMS: readonly NavItem[] = [
  navItem('', 'Overview', 'overview', 'o', true),
  navItem('payments', 'Payments', 'payments', 'p', true),
  { ...navItem('dlq', 'Dead letters', 'dead', 'd', true), shortTitle: 'Dead' },
  navItem('holds', 'Holds', 'held', 'h', true),
  { ...navItem('contradictions', 'Contradictions', 'warning', 'c', false), isShared: false },
  navItem('limits', 'Limits', 'limits', 'm', false),
  navItem('reconciliation', 'Reconciliation', 'reconciliation', 'r', false),
  navItem('dispatch', 'Dispatch', 'dispatch', 'f', false),
  navItem('scheduler', 'Scheduler', 'scheduler', 's', false),
  navItem('inbox', 'Inbox', 'inbox', 'i', false),
  navItem('leases', 'Leases', 'leases', 'l', false),
  navItem('databases', 'Databases', 'databases', 'b', false),
]

/** Returns the pages that the signed-in credential may read. */
export function visibleNavItems(): readonly NavItem[] {
  return boundTo() === null ? NAV_ITEMS : NAV_ITEMS.filter(({ isShared }) => !isShared)
}

function navItem(path: string, title: string, icon: IconName, key: string, isMain: boolean): NavItem {
  return { path, title, shortTitle: title, icon, key, isMain, isShared: !isMain }
}
