import type { Page } from 'playwright-core'
import type { OpenPage } from './dashboardFixture.js'

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
  { name: 'rail', path: () => 'rails/swift?range=24h', heading: 'swift' },
  { name: 'worker', path: () => 'workers/pay-worker-1%3A4121%3A7c1f', heading: 'pay-worker-1:4121:7c1f' },
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

/** Screens on which every page must fit. */
const SCREENS = [
  { width: 390, height: 844 },
  { width: 1024, height: 768 },
  { width: 1440, height: 900 },
]

/** Returns each page that does not fit a screen, as "page width scheme: defect". */
export async function findLayoutDefects(open: OpenPage, payment: string): Promise<string[]> {
  const defects: string[] = []
  for (const { name, path } of DASHBOARD_PAGES) {
    if (name === 'payment' && payment === '') continue
    await open.goTo(path(payment))
    defects.push(...(await layoutDefectsOf(open.page, name, ['light'])))
  }
  return defects
}

/** Returns the defects of the open page on each screen. */
export async function layoutDefectsOf(
  page: Page,
  name: string,
  schemes: readonly ('light' | 'dark')[],
): Promise<string[]> {
  const defects: string[] = []
  for (const colorScheme of schemes) {
    await page.emulateMedia({ colorScheme })
    for (const screen of SCREENS) {
      await page.setViewportSize(screen)
      const found = await findDefects(page)
      defects.push(...found.map((defect) => `${name} ${screen.width} ${colorScheme}: ${defect}`))
    }
  }
  return defects
}

/**
 * Finds a page wider than the screen, tables and lists with columns beyond their right edge (free text must wrap
 * instead), numbers and words wider than their box, and lists that scroll beside a page that scrolls. Waits two frames,
 * so that the layout has followed the screen.
 */
async function findDefects(page: Page): Promise<string[]> {
  return page.evaluate(`new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => {
    const { scrollWidth, scrollHeight } = document.documentElement
    const isTaller = scrollHeight > innerHeight
    const all = [...document.querySelectorAll('body *')]
    const scrolls = ({ scrollHeight, clientHeight }) => scrollHeight > clientHeight + 1
    const scrollers = all.filter((one) => scrolls(one) && /auto|scroll/.test(getComputedStyle(one).overflowY))
    const boxes = [...document.querySelectorAll('.figure, .figure-value, .count, .button, .state, .state-counts, h1, h2')]
    const spilled = boxes.filter(({ scrollWidth, clientWidth }) => clientWidth > 0 && scrollWidth > clientWidth + 1)
    const cutOff = [...document.querySelectorAll('.table-wrap, .vlist-head')].filter((one) => one.scrollWidth > one.clientWidth)
    resolve([
      ...(scrollWidth > innerWidth ? [scrollWidth - innerWidth + ' pixels wider than the screen'] : []),
      ...(isTaller ? scrollers.map((one) => 'second scroll bar: ' + one.className) : []),
      ...spilled.map((one) => 'text beyond its box: ' + one.className + ' ' + one.textContent.slice(0, 40)),
      ...cutOff.map((one) => 'cut off: ' + one.closest('[aria-label]').getAttribute('aria-label')),
    ])
  })))`)
}
