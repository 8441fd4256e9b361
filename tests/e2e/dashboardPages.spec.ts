import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { beforeAll, expect, test } from 'vitest'
import { placeOutboxHold, resolveOutboxHold } from '../../libs/outbox/index.js'
import { accessibilityDefects } from '../support/accessibility.js'
import { closeAfterAll } from '../support/afterAll.js'
import {
  DASHBOARD_VARIANTS,
  DASHBOARD_PAGES,
  layoutDefectsOf,
  pageDefectsOf,
  SCREENS,
  type DashboardPage,
} from '../support/dashboardPages.js'
import { seedDashboardData, type DashboardData } from '../support/dashboardData.js'
import { DashboardFixture, visit, type OpenPage } from '../support/dashboardFixture.js'
import { apiRolesOf } from '../support/httpFixture.js'
import { layoutShiftsBy } from '../support/layoutShifts.js'
import { MILLION_PAYMENTS } from '../support/millionPayments.js'

const fixture = closeAfterAll(await DashboardFixture.set())
let data: DashboardData
/** A page for several tests, because opening one takes longer than most tests. */
let shared: OpenPage
/** Messages of every kind in the console of the shared page. */
const messages: string[] = []
beforeAll(async () => {
  data = await seedDashboardData(fixture.db)
  shared = await fixture.open()
  shared.page.on('console', (message) => messages.push(message.text()))
})

const [, , PHONE] = DASHBOARD_VARIANTS

/** Number of pixels by which the page is wider than the screen. */
const SIDEWAYS = 'Math.max(0, document.documentElement.scrollWidth - innerWidth)'

/** Opens a dashboard page and waits until it shows that it is live. */
async function goToPage({ page, goTo }: OpenPage, { path, heading }: DashboardPage): Promise<void> {
  await goTo(path(data.faultyPayment))
  if (heading !== undefined) await page.getByRole('heading', { name: heading, level: 1 }).waitFor()
  await page.getByText('Live', { exact: true }).locator('visible=true').waitFor()
}

/** Returns all dashboard pages, and the page of the payment that `holdOrRelease` changes. */
function livePages(): readonly DashboardPage[] {
  return [
    ...DASHBOARD_PAGES,
    { name: 'changed payment', path: () => `payments/${data.duePayment}`, heading: undefined },
  ]
}

/** Selects what new content moves down: a new hold is a new row, and the history of a payment grows. */
const BELOW_NEW_CONTENT: Readonly<Record<string, string>> = { holds: 'tbody', 'changed payment': '.grid *' }

/** Visits of all pages take long on a busy machine. */
const ALL_PAGES = { timeout: 300_000 }

let isHeld = false
/** Holds a payment, or releases it, and waits until the open page shows the number of holds. */
async function holdOrRelease({ page }: OpenPage): Promise<void> {
  const badge = page.locator('.count.held').locator('visible=true')
  const before = await badge.innerText()
  const { control } = await apiRolesOf(fixture.db)
  const olga = control({ owner: 'olga', apiKey: null })
  if (isHeld) await resolveOutboxHold(olga, data.duePayment, 'RETRY', 'The name is right')
  else await placeOutboxHold(olga, data.duePayment, 'The name is under review')
  isHeld = !isHeld
  await expect.poll(() => badge.innerText()).not.toBe(before)
}

function shiftsOf(open: OpenPage, name: string): Promise<string[]> {
  return layoutShiftsBy(open.page, () => holdOrRelease(open), BELOW_NEW_CONTENT[name] ?? 'time')
}

test(
  'every page is accessible in light and dark and fits 390 to 1440 px; events shift no layout',
  ALL_PAGES,
  async () => {
    const { page, browserErrors } = shared
    await page.setViewportSize({ width: 1440, height: 900 })
    for (const one of livePages()) {
      const { name } = one
      await goToPage(shared, one)
      const shifts = await shiftsOf(shared, name)
      const defects = await pageDefectsOf(page, name)
      expect({ name, shifts, defects }).toEqual({ name, shifts: [], defects: [] })
    }
    await page.emulateMedia({ colorScheme: 'light' })
    expect([...browserErrors(), ...messages]).toEqual([])
  },
)

test('every page fits a phone and has controls at least 44 px high; events shift no layout', ALL_PAGES, async () => {
  const phone = await fixture.open(undefined, PHONE)
  const { page, browserErrors } = phone
  for (const one of livePages()) {
    const { name } = one
    await page.setViewportSize(PHONE.viewport)
    await goToPage(phone, one)
    const shifts = await shiftsOf(phone, name)
    // The phone layout changes the navigation of every page in the same way, so one page is enough.
    const defects = name === 'overview' ? await accessibilityDefects(page) : []
    await page.setViewportSize({ width: 360, height: 640 })
    const sideways = await page.evaluate(SIDEWAYS)
    const small =
      await page.evaluate(`[...document.querySelectorAll('button, label.check, input:not([type=checkbox]), select, nav a, summary, .composition a')]
      .map((element) => [element.textContent || element.getAttribute('aria-label'), element.getBoundingClientRect()])
      .filter(([, { width, height }]) => width > 0 && height < 44)
      .map(([text, { height }]) => text + ' ' + height)`)
    const expected = { name, shifts: [], defects: [], sideways: 0, small: [] }
    expect({ name, shifts, defects, sideways, small }).toEqual(expected)
  }
  await page.getByRole('button', { name: 'More' }).click()
  await page.getByRole('dialog').getByRole('link', { name: 'Leases' }).click()
  await page.getByRole('heading', { name: 'Leases', level: 1 }).waitFor()
  expect(browserErrors()).toEqual([])
  await page.context().close()
})

test('a phone folds list filters into a button; wider screens show at least two per line', async () => {
  const { page, browserErrors, goTo } = shared
  await page.setViewportSize(PHONE.viewport)
  await goTo('payments')
  await page.locator('.vlist-row').first().waitFor()
  const filters = page.getByRole('button', { name: /^Filters/ })
  const rail = page.getByLabel('Rail', { exact: true })
  expect([await filters.getAttribute('aria-expanded'), await rail.isVisible()]).toEqual(['false', false])
  expect(await page.evaluate(ROWS_IN_SIGHT)).toBeGreaterThanOrEqual(6)
  // The touch target of the checkbox ends where the link begins.
  const [box, link] = [page.locator('.vlist-row label').first(), page.locator('.vlist-row a').first()]
  const [target, text] = [(await box.boundingBox())!, (await link.boundingBox())!]
  expect(Math.abs(text.x - target.x - target.width)).toBeLessThan(4)
  await filters.click()
  await rail.selectOption('swift')
  await page.getByLabel('Created: range of time').selectOption('24h')
  await expect.poll(() => filters.innerText()).toBe('Filters (2)')
  for (const screen of SCREENS) expect([screen, await layoutDefectsOf(page, screen)]).toEqual([screen, []])
  for (const path of ['payments', 'payments?currency=EUR', 'holds', 'dlq']) {
    await goTo(path)
    for (const width of [1024, 1200, 1440]) {
      await page.setViewportSize({ width, height: 900 })
      const lines: number[] = await page.evaluate(FIELDS_PER_LINE)
      expect({ path, width, alone: lines.filter((fields) => fields === 1) }).toEqual({ path, width, alone: [] })
      expect(await filters.isVisible()).toBe(false)
      expect({ path, width, cut: width > 1024 ? await page.evaluate(CUT_TEXTS) : [] }).toEqual({ path, width, cut: [] })
    }
  }
  expect(browserErrors()).toEqual([])
})

const ROWS_IN_SIGHT = `(() => {
  const { bottom } = document.querySelector('.vlist-scroll').getBoundingClientRect()
  return [...document.querySelectorAll('.vlist-row')].filter((row) => row.getBoundingClientRect().bottom <= bottom).length
})()`

/** Finds cells of amount and destination whose text is cut off, and ids that wrap to several lines. */
const CUT_TEXTS = `[
  ...[...document.querySelectorAll('.vlist-row > :nth-child(3)')].filter((one) => one.scrollWidth > one.clientWidth),
  ...[...document.querySelectorAll('td:first-child > a')].filter((one) => one.getClientRects().length > 1),
].map((one) => one.textContent)`

const FIELDS_PER_LINE = `Object.values(Object.groupBy(
  document.querySelectorAll('.filters .input'),
  (field) => Math.round(field.getBoundingClientRect().top),
)).map((line) => line.length)`

test('charts show 1 h to 30 d per rail or participant, and dragging narrows the range', async () => {
  const { page, browserErrors, goTo } = shared
  await page.setViewportSize({ width: 1440, height: 900 })
  await goTo('rails/swift')
  const chart = page.getByRole('img', { name: /^Outcomes per/ })
  const label = () => chart.getAttribute('aria-label')
  const dispatched = async () => Number(/([\d,]+) dispatched/.exec((await label()) ?? '')?.[1]?.replaceAll(',', ''))
  const totals: number[] = []
  for (const [title, grain] of [
    ['1 h', 'minute, last hour'],
    ['24 h', 'quarter-hour, last 24 hours'],
    ['7 d', 'hour, last 7 days'],
    ['30 d', 'hour, last 30 days'],
  ] as const) {
    await page.getByRole('button', { name: title, exact: true }).click()
    await expect.poll(label).toContain(`Outcomes per ${grain}: `)
    totals.push(await dispatched())
  }
  expect(totals).toEqual(totals.toSorted((one, other) => one - other))
  expect(new Set(totals).size).toBe(4)
  expect(await label()).toMatch(/outcome unknown, .* failed, .* held, .* returned, .* cancelled$/)
  // Drags over a part of the chart.
  const box = (await chart.locator('.u-over').boundingBox())!
  await page.mouse.move(box.x + box.width / 4, box.y + 50)
  await page.mouse.down()
  await page.mouse.move(box.x + box.width / 2, box.y + 60, { steps: 4 })
  await page.mouse.up()
  await expect.poll(() => page.url()).toMatch(/from=\d{4}-.*&to=\d{4}-/)
  await expect.poll(dispatched).toBeLessThan(totals[3]!)
  // A reload keeps the range, because the address contains it. The keyboard can enter another range.
  await page.reload()
  await expect.poll(dispatched).toBeLessThan(totals[3]!)
  await page.getByText('Other range').click()
  await page.getByLabel('From').fill('2026-01-01T00:00')
  await page.getByLabel('To', { exact: true }).fill('2026-01-02T00:00')
  await page.getByRole('button', { name: 'Show', exact: true }).click()
  await expect.poll(dispatched).toBe(0)
  await page.getByRole('button', { name: '24 h', exact: true }).click()
  await expect.poll(label).toContain('Outcomes per quarter-hour, last 24 hours: ')
  // The exact total of the last 24 hours changes when a quarter-hour ends.
  await expect.poll(dispatched).toBeGreaterThan(totals[0]!)
  expect(await dispatched()).toBeLessThan(totals[2]!)
  await page.getByLabel('Participant').fill('nobody')
  await expect.poll(dispatched).toBe(0)
  // Checks the other sections on the page of a rail.
  await page
    .getByRole('img', { name: /^Time at the rail per quarter-hour/ })
    .locator('canvas')
    .waitFor()
  const regionText = (name: string) => () => page.getByRole('region', { name, exact: true }).innerText()
  await expect.poll(regionText('Errors')).toMatch(/RAIL_TIMEOUT\s+\d/)
  await expect.poll(regionText('Circuit breakers')).toMatch(/pay-worker-2[^]*Closed/)
  await expect.poll(regionText('Breaker history')).toMatch(/Closed\s+Open\s+swift\s+pay-worker-1/)
  // The three figures are sums over three workers.
  await expect.poll(regionText('Throughput')).toMatch(/\s120\s+6\s+9/)
  await expect.poll(regionText('Limits')).toContain('No limit applies')
  await page.getByRole('link', { name: 'pay-worker-1:4121:7c1f' }).first().click()
  await page.getByRole('heading', { name: 'pay-worker-1:4121:7c1f', level: 1 }).waitFor()
  await expect.poll(regionText('Rails')).toMatch(/swift\s+Open/)
  await expect.poll(regionText('Throughput')).toMatch(/\s40\s+2\s+3/)
  expect(browserErrors()).toEqual([])
})

test('charts are drawn even if the language of the browser is no valid locale, as under LANG=C', async () => {
  const { page, browserErrors, goTo } = shared
  await page.addInitScript(`Object.defineProperty(Navigator.prototype, 'language', { get: () => 'en-US@posix' })`)
  await page.reload()
  await goTo('/')
  expect(await page.evaluate('navigator.language')).toMatch(/^en(-US@posix)?$/)
  await page.locator('.throughput canvas').waitFor()
  expect(browserErrors()).toEqual([])
})

test('the keyboard reaches every page, the search, lists, the shortcuts and the content', async () => {
  const { page, browserErrors, goTo } = shared
  await goTo('')
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  await page.keyboard.press('?')
  const sheet = page.getByRole('dialog', { name: 'Shortcuts' })
  const listed = (name: string) => sheet.locator(name).allInnerTexts()
  const [keys, titles] = [await listed('dt'), await listed('dd')]
  await page.keyboard.press('Escape')
  await sheet.waitFor({ state: 'detached' })
  const pages = keys.flatMap((key, index) => (/^g\s*\w$/.test(key) ? [[key.slice(-1), titles[index] ?? '']] : []))
  // Counts the pages of the navigation. The pages of one payment, rail and worker have no shortcut.
  expect(pages.length).toBe(DASHBOARD_PAGES.length - 3)
  for (const [key = '', heading = ''] of pages) {
    await page.keyboard.press('g')
    await page.keyboard.press(key)
    await page.getByRole('heading', { name: heading, level: 1 }).waitFor()
  }
  // j and k also move between the rows of a table.
  await page.keyboard.press('g')
  await page.keyboard.press('d')
  await page.locator('tbody tr').nth(1).waitFor()
  for (const key of ['j', 'j']) await page.keyboard.press(key)
  expect(
    await page.evaluate(`[...document.querySelectorAll('tbody tr')].indexOf(document.activeElement.closest('tr'))`),
  ).toBe(1)
  // Escape leaves any field.
  await page.getByLabel('Participant').focus()
  await page.keyboard.press('Escape')
  expect(await page.evaluate('document.activeElement.tagName')).toBe('BODY')
  // j and k work without a click into the list.
  await page.keyboard.press('g')
  await page.keyboard.press('p')
  await page.locator('.vlist-row a').nth(1).waitFor()
  const focused = () => page.evaluate(`[...document.querySelectorAll('.vlist-row a')].indexOf(document.activeElement)`)
  const visited: unknown[] = []
  for (const key of ['j', 'j', 'k']) {
    await page.keyboard.press(key)
    visited.push(await focused())
  }
  expect(visited).toEqual([0, 1, 0])
  await page.keyboard.press('/')
  await page.getByRole('searchbox').waitFor()
  await page.keyboard.type('invoice-2026-48001')
  await expect.poll(() => page.locator('.vlist-row').count()).toBe(1)
  expect(page.url()).toContain('q=invoice-2026-48001')
  await page.keyboard.press('Escape')
  await page.locator('.vlist-scroll').focus()
  await page.keyboard.press('j')
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'invoice-2026-48001' }).waitFor()
  const theme = () => page.evaluate('document.documentElement.dataset.theme')
  expect(await theme()).toBe('light')
  await page.keyboard.press('t')
  expect(await theme()).toBe('dark')
  await page.reload()
  expect(await theme()).toBe('dark')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Enter')
  expect(await page.evaluate('document.activeElement.id')).toBe('main')
  expect(browserErrors()).toEqual([])
})

test('the content security policy of the dashboard stops an injected script', async () => {
  const { headers } = await fetch(fixture.http.address)
  const policy = headers.get('content-security-policy') ?? ''
  expect(policy).toMatch(/default-src 'self'/)
  expect(policy).not.toMatch(/unsafe|\*|http:/)
  const { page, browserErrors, goTo } = shared
  await goTo('')
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  await page.evaluate(`(() => {
    const script = document.createElement('script')
    script.textContent = 'globalThis.hacked = true'
    document.body.append(script)
  })()`)
  expect(await page.evaluate('globalThis.hacked')).toBeUndefined()
  expect(browserErrors().join()).toMatch(/Content Security Policy/)
})

test('a refused token leads to the sign-in form with an error; sign-out removes the token', async () => {
  const { page } = await visit(fixture.browser, `${fixture.http.address}/#token=wrong`)
  await page.getByRole('alert').getByText('Not accepted').waitFor()
  expect(await accessibilityDefects(page)).toEqual([])
  await page.getByLabel('Access token').fill(await fixture.tokenOf('wendy'))
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByLabel('Access token').waitFor()
  expect(await page.evaluate('sessionStorage.length')).toBe(0)
  await page.context().close()
})

test('/docs finds an operation, marks optional fields and sends the request with a token', async () => {
  const phone = { viewport: { width: 390, height: 844 }, colorScheme: 'dark' } as const
  const { page, browserErrors } = await visit(fixture.browser, `${fixture.http.address}/docs`, phone)
  const search = page.getByRole('searchbox', { name: 'Search operations' })
  await page.getByText(/^(\d+) of \1 operations$/).waitFor()
  await search.fill('get caller')
  await page.getByText(/^1 of \d+ operations$/).waitFor()
  await page.getByText('Identity of the caller').click()
  const send = page.getByRole('button', { name: 'Send' })
  const answer = page.getByRole('form').getByRole('status')
  await send.click()
  await answer.getByText('UNAUTHENTICATED').waitFor()
  await page.getByLabel('Access token').fill(await fixture.tokenOf('olga'))
  await send.click()
  await answer.getByText('"owner": "olga"').waitFor()
  // The token is in no storage and no address.
  expect(await page.evaluate('[localStorage.length + sessionStorage.length, document.cookie]')).toEqual([0, ''])
  expect(page.url()).toBe(`${fixture.http.address}/docs`)

  await search.fill('post /v1/instructions')
  await page.getByText('Accepts one payment, and').click()
  const fields = page.getByRole('table', { name: 'Fields of the request' })
  expect(await fields.getByRole('row', { name: /^railType/ }).innerText()).toContain('required')
  expect(await fields.getByRole('row', { name: /^instructionId/ }).innerText()).toContain('optional')
  const form = page.getByRole('form', { name: 'Try POST /v1/instructions', exact: true })
  await form.getByLabel('idempotency-key').fill('from-docs')
  await form.getByRole('button').click()
  const body = await form.getByLabel('Body').inputValue()
  expect(body).toContain('railType')
  // The form sends no request that changes data before the person checks the box.
  expect(await form.getByRole('status').innerText()).toBe('')
  await form.getByRole('checkbox').check()
  await form.getByRole('button').click()
  await form.getByRole('status').getByText(/^201 /).waitFor()
  expect(await accessibilityDefects(page)).toEqual([])
  expect(await page.evaluate(SIDEWAYS)).toBe(0)
  expect(browserErrors().filter((text) => !text.includes('401'))).toEqual([])
  await page.context().close()
})

test('an error of the server is shown with code and request id, and can be retried', async () => {
  const { page, goTo } = shared
  await goTo('payments/00000000-0000-0000-0000-000000000000')
  const note = page.getByRole('alert')
  expect(await note.innerText()).toMatch(/NOT_FOUND[^]*request [0-9a-f-]{36}/)
  const [again] = await Promise.all([
    page.waitForRequest(/00000000-0000-0000-0000-000000000000$/),
    note.getByRole('button', { name: 'Try again' }).click(),
  ])
  expect((await again.response())?.status()).toBe(404)
})

test('every page is accessible and fits 390, 1024 and 1440 pixels with 1,000,000 payments', ALL_PAGES, async () => {
  const { page, browserErrors, goTo } = shared
  await goTo('')
  const before = messages.length + browserErrors().length
  const defects: string[] = []
  await page.addInitScript(MILLION_PAYMENTS)
  // An earlier test chose a theme, which would not follow the scheme of the system.
  await page.evaluate('localStorage.clear()')
  await page.reload()
  for (const one of DASHBOARD_PAGES) {
    const { name } = one
    await goToPage(shared, one)
    if (name === 'overview') await page.locator('.figure-value', { hasText: /^1M$/ }).first().waitFor()
    if (name === 'payments') await page.locator('.state-counts', { hasText: 'Held 999,999' }).waitFor()
    if (name === 'holds') await page.locator('tbody tr').nth(24).waitFor()
    if (name === 'leases') await page.locator('tbody tr').nth(99).waitFor()
    // The number of payments changes no colour, and the first test checked the dark scheme.
    defects.push(...(await pageDefectsOf(page, name, { axe: ['light'] })))
  }
  expect(defects).toEqual([])
  expect(messages.length + browserErrors().length).toBe(before)
})

test('docs/reference/screenshots.md shows one screenshot of each page in each variant', () => {
  const docs = fileURLToPath(new URL('../../docs', import.meta.url))
  const shown = [...DASHBOARD_PAGES.map(({ name }) => name), 'first'].flatMap((page) =>
    DASHBOARD_VARIANTS.map((variant) => `${page}-${variant.name}.png`),
  )
  const text = readFileSync(`${docs}/reference/screenshots.md`, 'utf8')
  const linked = [...text.matchAll(/\.\.\/dashboard\/([\w-]+\.png)/g)].map(([, name = '']) => name)
  expect(linked.toSorted()).toEqual(shown.toSorted())
  expect(readdirSync(`${docs}/dashboard`).toSorted()).toEqual(shown.toSorted())
})
