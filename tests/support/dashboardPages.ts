/** A dashboard page for tests and documentation. */
export interface DashboardPage {
  /** Name in screenshots: `overview-desktop.png`. */
  readonly name: string
  /** Address after `#/`. */
  readonly path: (payment: string) => string
  /** Heading of the page. Undefined for a page whose heading depends on its content. */
  readonly heading: string | undefined
}

export const DASHBOARD_PAGES: readonly DashboardPage[] = [
  { name: 'overview', path: () => '', heading: 'Overview' },
  { name: 'payments', path: () => 'payments', heading: 'Payments' },
  { name: 'payment', path: (payment) => `payments/${payment}`, heading: undefined },
  { name: 'dlq', path: () => 'dlq', heading: 'Dead letters' },
  { name: 'holds', path: () => 'holds', heading: 'Holds' },
  { name: 'contradictions', path: () => 'contradictions', heading: 'Contradictions' },
  { name: 'limits', path: () => 'limits', heading: 'Limits' },
  { name: 'reconciliation', path: () => 'reconciliation', heading: 'Reconciliation' },
  { name: 'dispatch', path: () => 'dispatch', heading: 'Dispatch' },
  { name: 'scheduler', path: () => 'scheduler', heading: 'Scheduler' },
  { name: 'inbox', path: () => 'inbox', heading: 'Inbox' },
  { name: 'leases', path: () => 'leases', heading: 'Leases' },
  { name: 'databases', path: () => 'databases', heading: 'Databases' },
]

/** Screens and colours of the tests and screenshots. */
export const DASHBOARD_VARIANTS = [
  { name: 'desktop', viewport: { width: 1200, height: 750 }, colorScheme: 'light' },
  { name: 'dark', viewport: { width: 1200, height: 750 }, colorScheme: 'dark' },
  { name: 'phone', viewport: { width: 390, height: 844 }, colorScheme: 'light', hasTouch: true, isMobile: true },
] as const
