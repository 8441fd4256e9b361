/** The pages of the dashboard, as the tests visit them and the documentation shows them. */
export interface DashboardPage {
  /** Of its screenshots: `overview-desktop.png`. */
  readonly name: string
  /** What follows `#/`. */
  readonly path: (payment: string) => string
  /** The heading by which one knows it; undefined for a page that is headed by what it shows. */
  readonly heading: string | undefined
}

export const DASHBOARD_PAGES: readonly DashboardPage[] = [
  { name: 'overview', path: () => '', heading: 'Overview' },
  { name: 'payments', path: () => 'payments', heading: 'Payments' },
  { name: 'payment', path: (payment) => `payments/${payment}`, heading: undefined },
  { name: 'dlq', path: () => 'dlq', heading: 'Dead letters' },
  { name: 'holds', path: () => 'holds', heading: 'Holds' },
  { name: 'contradictions', path: () => 'contradictions', heading: 'Contradictions' },
  { name: 'dispatch', path: () => 'dispatch', heading: 'Dispatch' },
  { name: 'scheduler', path: () => 'scheduler', heading: 'Scheduler' },
  { name: 'inbox', path: () => 'inbox', heading: 'Inbox' },
  { name: 'leases', path: () => 'leases', heading: 'Leases' },
  { name: 'databases', path: () => 'databases', heading: 'Databases' },
]

/** How each is shown. */
export const DASHBOARD_LOOKS = [
  { name: 'desktop', viewport: { width: 1200, height: 750 }, colorScheme: 'light' },
  { name: 'dark', viewport: { width: 1200, height: 750 }, colorScheme: 'dark' },
  { name: 'phone', viewport: { width: 390, height: 844 }, colorScheme: 'light', hasTouch: true, isMobile: true },
] as const
