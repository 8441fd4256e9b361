import { beforeAll, expect, test } from 'vitest'
import { placeOutboxHold, resolveOutboxHold } from '../../libs/outbox/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { DashboardFixture, type OpenPage } from '../support/dashboardFixture.js'
import { gate } from '../support/gate.js'
import { enqueue } from '../support/outboxItems.js'
import { createPerson, enqueueHeld, type Person } from '../support/outboxPeople.js'

const fixture = closeAfterAll(await DashboardFixture.set())
let olga: OpenPage
let pavel: Person
beforeAll(async () => {
  olga = await fixture.open(await fixture.tokenOf('olga'))
  pavel = await createPerson(fixture.db, 'pavel')
})

test('the dialog of a bulk action stays until the person closes it if the list becomes empty', async () => {
  const railType = 'rail-that-becomes-empty'
  const items = [await enqueueHeld(fixture.db, pavel, { railType }), await enqueueHeld(fixture.db, pavel, { railType })]
  const { page, goTo } = olga
  // The second request waits until the list is empty.
  const empty = gate()
  const requested: string[] = []
  await page.route('**/v1/holds/*/resolve', async (route) => {
    requested.push(route.request().url())
    if (requested.length === 2) await empty.opened
    await route.continue()
  })
  await goTo(`holds?rail=${railType}`)
  await page.getByRole('checkbox', { name: /^Select all / }).check()
  await page.getByRole('button', { name: 'Release 2', exact: true }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Reason').fill('as agreed with the bank')
  await dialog.getByRole('button', { name: 'Release 2 payments' }).click()
  await expect.poll(() => requested.length).toBe(2)
  const { outboxId: second } = items.find(({ outboxId }) => requested[1]!.includes(outboxId))!
  await resolveOutboxHold(pavel.control, second, 'RETRY', 'pavel was first', null)
  await page.getByText('No matches').waitFor()
  expect(await dialog.innerText()).toContain('1 of 2 done.')
  empty.open()
  await dialog.getByRole('alert').getByText('1 of 2 was refused.').waitFor()
  await page.keyboard.press('Enter')
  await dialog.waitFor({ state: 'detached' })
  await page.unroute('**/v1/holds/*/resolve')
  // The dialog does not open again with the next row.
  const { instructionId } = await enqueueHeld(fixture.db, pavel, { railType })
  await page.getByRole('row', { name: instructionId }).waitFor()
  expect(await dialog.count()).toBe(0)
})

test('a poll does not repeat a request in progress, so a panel with slow answers loads', async () => {
  const { outboxId } = await enqueue(fixture.db)
  const { page } = await fixture.open(await fixture.tokenOf('rosa'))
  await page.clock.install()
  const answered = gate()
  let requests = 0
  await page.route('**/proof', async (route) => {
    requests += 1
    await answered.opened
    await route.continue()
  })
  await page.evaluate(`location.hash = '#/payments/${outboxId}'`)
  await expect.poll(() => requests).toBe(1)
  // The panel polls every two seconds, and the page every ten.
  const polled = page.waitForRequest(`**/v1/outbox/${outboxId}`)
  await page.clock.runFor(10_000)
  await polled
  expect(requests).toBe(1)
  answered.open()
  await page.getByRole('region', { name: 'Ledger' }).getByText('1 row is in no block yet').waitFor()
  await page.context().close()
})

test('a change during a request repeats the request once, after its answer', async () => {
  const { outboxId, railType } = await enqueue(fixture.db)
  const { page, goTo } = await fixture.open()
  await page.clock.install()
  await goTo(`payments?rail=${railType}`)
  const row = page.locator('.vlist-row')
  await row.locator('[data-state=DUE]').waitFor()
  // Stops the polls. Only an event changes the row then.
  await page.evaluate(`Object.defineProperty(document, 'visibilityState', { get: () => 'hidden' })`)
  const answered = gate()
  let requests = 0
  await page.route('**/v1/outbox/counts?*', async (route) => {
    requests += 1
    await answered.opened
    await route.continue()
  })
  await placeOutboxHold(pavel.control, outboxId, 'please wait')
  await row.locator('[data-state=HELD]').waitFor()
  // The minimum interval between requests because of events.
  await page.clock.runFor(1_000)
  await expect.poll(() => requests).toBe(1)
  await resolveOutboxHold(pavel.control, outboxId, 'RETRY', 'go on', null)
  await row.locator('[data-state=DUE]').waitFor()
  await page.clock.runFor(1_000)
  // Requests arrive in order: a repeated one would arrive before this one.
  await page.evaluate(`fetch('/')`)
  expect(requests).toBe(1)
  answered.open()
  await expect.poll(() => requests).toBe(2)
  await page.context().close()
})

test('a page reads its payment again after an action, also while a poll waits for its answer', async () => {
  const { outboxId } = await enqueue(fixture.db)
  const { page, goTo } = await fixture.open(await fixture.tokenOf('rosa'))
  await page.clock.install()
  await goTo(`payments/${outboxId}`)
  const answered = gate()
  let requests = 0
  await page.route(`**/v1/outbox/${outboxId}`, async (route) => {
    requests += 1
    if (requests === 1) await answered.opened
    await route.continue()
  })
  await page.clock.runFor(10_000)
  await expect.poll(() => requests).toBe(1)
  await page.getByRole('button', { name: 'Hold', exact: true }).click()
  await page.getByLabel('Reason').fill('the customer called')
  await page.getByRole('button', { name: 'Place the hold' }).click()
  await page.locator('main h1 + [data-state=HELD]').waitFor()
  answered.open()
  await page.context().close()
})

test('a poll of a list with a rare filter reads one page; an action searches further pages', async () => {
  const { railType, instructionId } = await enqueue(fixture.db)
  const { page, goTo } = await fixture.open(await fixture.tokenOf('rosa'))
  await page.clock.install()
  // The payment is on the second page.
  const requests = { first: 0, second: 0 }
  await page.route('**/v1/outbox?*', async (route) => {
    const url = new URL(route.request().url())
    const isFirst = !url.searchParams.has('cursor')
    requests[isFirst ? 'first' : 'second'] += 1
    if (isFirst) return route.fulfill({ json: { items: [], next: 'second' } })
    url.searchParams.delete('cursor')
    return route.continue({ url: url.href })
  })
  await goTo(`payments?rail=${railType}`)
  const row = page.locator('.vlist-row', { hasText: instructionId })
  await row.waitFor()
  // A poll follows only after the answer to the one before.
  for (const polls of [1, 2, 3]) {
    await page.clock.runFor(5_000)
    await expect.poll(() => requests.first).toBeGreaterThan(polls)
  }
  expect(requests.second).toBe(1)
  expect([await row.count(), await page.getByRole('alert').count()]).toEqual([1, 0])
  await row.getByRole('checkbox').check()
  await page.getByRole('button', { name: 'Hold 1', exact: true }).click()
  await page.getByLabel('Reason').fill('the customer called')
  await page.getByRole('button', { name: 'Hold 1 payment' }).click()
  await row.locator('[data-state=HELD]').waitFor()
  await expect.poll(() => requests.second).toBe(2)
  await page.context().close()
})
