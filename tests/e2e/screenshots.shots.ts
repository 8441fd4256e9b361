import { mkdirSync, readdirSync, rmSync, statSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { freezeDispatch } from '../../libs/outbox/index.js'
import { DASHBOARD_VARIANTS, DASHBOARD_PAGES } from '../support/dashboardPages.js'
import { seedDashboardData } from '../support/dashboardData.js'
import { DashboardFixture } from '../support/dashboardFixture.js'
import { apiRolesOf } from '../support/httpFixture.js'

/** Folder of the pictures in docs/reference/screenshots.md, taken from a real server and database in a real browser. */
const folder = fileURLToPath(new URL('../../docs/dashboard/', import.meta.url))
/** Maximum size of a picture. Pages full of text are the largest. */
const BYTES_MAX = 192 * 1_024

let empty: DashboardFixture
let busy: DashboardFixture
beforeAll(async () => {
  empty = await DashboardFixture.set()
  busy = await DashboardFixture.set({
    api: { readDatabases: async () => DATABASES, readStatusSnapshot: async () => ({ alerts: ALERTS }) },
  })
})
afterAll(async () => {
  await empty.close()
  await busy.close()
})

const DATABASE = { schema: 'symphony', state: 'up' as const, serverVersion: '18.4' }
const SILENT = { pendingCount: null, oldestPendingAgeSeconds: null, heldCount: null, serverVersion: null }
const DATABASES = [
  { ...DATABASE, name: 'payments', pendingCount: '27', oldestPendingAgeSeconds: 2_412, heldCount: '3' },
  { ...DATABASE, name: 'tenant-blue', pendingCount: '4', oldestPendingAgeSeconds: 6, heldCount: '0' },
  { ...DATABASE, ...SILENT, name: 'tenant-red', state: 'down' as const },
]
const ALERTS = [
  {
    name: 'SymphonyExpiredLeases',
    state: 'firing' as const,
    severity: 'critical' as const,
    summary: 'Workers died or hung with leased payments, and no worker has taken these over for three minutes.',
    firstLook: 'Does a worker run (each includes lease repair)? What do its log lines say?',
    remedy: 'Start a worker or lease repair.',
    value: 1,
    since: new Date(Date.now() - 240_000).toISOString(),
    forSeconds: 180,
  },
]

/** Elements that appear last on a page. A picture is taken after they appear. */
const SETTLED: Readonly<Record<string, readonly string[]>> = {
  overview: ['.throughput canvas', 'section[aria-label^=Workers] td'],
  rail: ['.throughput canvas', 'section[aria-label="Time at the rail"] canvas'],
  payment: ['[data-ledger]'],
}

test('each dashboard page is captured on each screen and in each colour scheme', async () => {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const { faultyPayment } = await seedDashboardData(busy.db)
  const token = await busy.tokenOf('pavel')
  for (const { name: variant, ...options } of DASHBOARD_VARIANTS) {
    const first = await empty.open(undefined, options)
    await first.page.getByText('No payments yet').waitFor()
    await first.page.screenshot({ path: `${folder}first-${variant}.png` })
    await first.page.context().close()
    const { page, goTo, browserErrors } = await busy.open(token, options)
    for (const { name, path } of DASHBOARD_PAGES) {
      if (name === 'dispatch') continue
      await goTo(path(faultyPayment))
      for (const settled of SETTLED[name] ?? []) await page.locator(settled).first().waitFor()
      await page.screenshot({ path: `${folder}${name}-${variant}.png` })
    }
    expect(browserErrors()).toEqual([])
    await page.context().close()
  }
  // The Dispatch page is shown frozen. It comes last, because a freeze marks every pending item.
  const { control } = await apiRolesOf(busy.db)
  await freezeDispatch(
    control({ owner: 'olga', apiKey: null }),
    'the snapshot of 03:00 was restored, workers were down',
  )
  for (const { name: variant, ...options } of DASHBOARD_VARIANTS) {
    const { page, goTo } = await busy.open(token, options)
    await goTo('dispatch')
    await page.getByRole('heading', { name: 'Before lifting' }).waitFor()
    await page.screenshot({ path: `${folder}dispatch-${variant}.png` })
    await page.context().close()
  }
  for (const name of readdirSync(folder)) expect([name, statSync(folder + name).size < BYTES_MAX]).toEqual([name, true])
})
