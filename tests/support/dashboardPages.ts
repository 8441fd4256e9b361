import type { Page } from 'playwright-core'
import { accessibilityDefects } from './accessibility.js'
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
export const SCREENS: readonly Screen[] = [
  { width: 390, height: 844 },
  { width: 1024, height: 768 },
  { width: 1440, height: 900 },
]

interface Screen {
  readonly width: number
  readonly height: number
}

/**
 * Returns the defects of every page. Skips the check by axe for content that is in `checked`, and adds new content to
 * it.
 */
export async function findPageDefects(open: OpenPage, payment: string, checked: Set<string>): Promise<string[]> {
  const { page, goTo } = open
  const defects: string[] = []
  for (const { name, path } of DASHBOARD_PAGES) {
    if (name === 'payment' && payment === '') continue
    await goTo(path(payment))
    const content = await page.locator('main').innerHTML()
    defects.push(...(await pageDefectsOf(page, name, { axe: checked.has(content) ? [] : ['light', 'dark'] })))
    checked.add(content)
  }
  return defects
}

/**
 * Returns the defects of the open page, as "page width scheme: defect". Axe checks the widest screen in these schemes.
 * The dark scheme changes colours only, which dashboardBuild.spec.ts checks, so there axe checks only the contrast.
 */
export async function pageDefectsOf(
  page: Page,
  name: string,
  { axe = ['light', 'dark'] }: { readonly axe?: readonly ('light' | 'dark')[] } = {},
): Promise<string[]> {
  const defects: string[] = []
  const report = (at: string, found: readonly string[]) =>
    defects.push(...found.map((defect) => `${name} ${at}: ${defect}`))
  await chooseScheme(page, 'light')
  for (const screen of SCREENS) report(`${screen.width} light`, await layoutDefectsOf(page, screen))
  for (const scheme of axe) {
    await chooseScheme(page, scheme)
    report(`1440 ${scheme}`, await accessibilityDefects(page, scheme === 'light' ? 'every' : 'contrast'))
  }
  return defects
}

async function chooseScheme(page: Page, colorScheme: 'light' | 'dark'): Promise<void> {
  await page.emulateMedia({ colorScheme })
  await page.locator(`:root[data-theme=${colorScheme}]`).waitFor()
}

/**
 * Finds a page wider than the screen, tables and lists with columns beyond their right edge (free text must wrap
 * instead), numbers and words wider than their box, names in the navigation that need two lines, and lists that scroll
 * beside a page that scrolls. Waits two frames, so that the layout has followed the screen.
 */
export async function layoutDefectsOf(page: Page, screen: Screen): Promise<string[]> {
  await page.setViewportSize(screen)
  return page.evaluate(`new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => {
    const { scrollWidth, scrollHeight } = document.documentElement
    const isTaller = scrollHeight > innerHeight
    const all = [...document.querySelectorAll('body *')]
    const scrolls = ({ scrollHeight, clientHeight }) => scrollHeight > clientHeight + 1
    const scrollers = all.filter((one) => scrolls(one) && /auto|scroll/.test(getComputedStyle(one).overflowY))
    const boxes = [...document.querySelectorAll('.figure, .figure-value, .count, .button, .state, .state-counts, h1, h2')]
    const spilled = boxes.filter(({ scrollWidth, clientWidth }) => clientWidth > 0 && scrollWidth > clientWidth + 1)
    const links = [...document.querySelectorAll('.side .nav a')]
    const broken = links.filter((one) => one.offsetHeight > parseFloat(getComputedStyle(one).minHeight))
    const cutOff = [...document.querySelectorAll('.table-wrap, .vlist-head')].filter((one) => one.scrollWidth > one.clientWidth)
    resolve([
      ...(scrollWidth > innerWidth ? [scrollWidth - innerWidth + ' pixels wider than the screen'] : []),
      ...(isTaller ? scrollers.map((one) => 'second scroll bar: ' + one.className) : []),
      ...spilled.map((one) => 'text beyond its box: ' + one.className + ' ' + one.textContent.slice(0, 40)),
      ...broken.map((one) => 'two lines: ' + one.textContent),
      ...cutOff.map((one) => 'cut off: ' + one.closest('[aria-label]').getAttribute('aria-label')),
    ])
  })))`)
}
