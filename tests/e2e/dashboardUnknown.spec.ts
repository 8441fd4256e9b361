import { beforeAll, expect, test } from 'vitest'
import { closeAfterAll } from '../support/afterAll.js'
import { DashboardFixture, type OpenPage } from '../support/dashboardFixture.js'
import { claimOnly, complete, enqueue, makeDueAndClaim, type Enqueued } from '../support/outboxItems.js'
import { projectLedger } from '../support/sealLedger.js'

/** Tests that the dashboard shows a timed-out call as an unknown outcome, not as a failure or a retry. */

const fixture = closeAfterAll(await DashboardFixture.set())
let timedOut: Enqueued
let inquired: Enqueued
let olga: OpenPage
beforeAll(async () => {
  timedOut = await enqueue(fixture.db, { railType: 'hold-bank' })
  await complete(fixture.db, await claimOnly(fixture.db, 'hold-bank'), {
    state: 'RETRYABLE',
    errorCode: 'RAIL_TIMEOUT',
    outcomeUnknown: true,
    holdReason: 'OUTCOME_UNKNOWN',
  })
  inquired = await enqueue(fixture.db, { railType: 'inquire-bank' })
  await complete(fixture.db, await claimOnly(fixture.db, 'inquire-bank'), { state: 'RETRYABLE', outcomeUnknown: true })
  await complete(fixture.db, await makeDueAndClaim(fixture.db, inquired), {
    state: 'DISPATCHED',
    railReference: 'RF-1',
    action: 'inquired',
    latencyMs: 0,
  })
  const refused = await enqueue(fixture.db, { railType: 'busy-bank' })
  await complete(fixture.db, await claimOnly(fixture.db, refused.railType), { state: 'RETRYABLE', errorCode: 'BUSY' })
  await projectLedger(fixture.db)
  olga = await fixture.open(await fixture.tokenOf('olga'))
})

test('the timeline shows a timed-out call as an unknown outcome, never as a retry', async () => {
  const { page, goTo } = olga
  await goTo(`payments/${timedOut.outboxId}`)
  const attempt = page.locator('.timeline li', { hasText: 'Attempt 1: outcome unknown' })
  await attempt.waitFor()
  expect(await attempt.getAttribute('class')).toContain('tone-unknown')
  expect(await attempt.innerText()).toContain('The rail may have paid')
  expect(await page.locator('main').innerText()).not.toMatch(/tries again|will be tried again/i)
  expect(await page.locator('main header [data-state=OUTCOME_UNKNOWN]').count()).toBe(1)
  expect(await page.locator('.timeline .now [data-state=OUTCOME_UNKNOWN]').count()).toBe(1)
})

test('the timeline shows “Nothing was sent” for an attempt that an inquiry completed', async () => {
  const { page, goTo } = olga
  await goTo(`payments/${inquired.outboxId}`)
  const attempt = page.locator('.timeline li', { hasText: 'Attempt 2' })
  await attempt.waitFor()
  expect(await attempt.innerText()).toMatch(/Nothing was sent: the rail was asked[^]*inquired[^]*inquiry took/)
})

test('tile, chart, error table and payment list show unknown outcomes separately from retries', async () => {
  const { page, goTo } = olga
  await goTo('')
  const tile = page.locator('.figure', { hasText: 'Unknown' })
  await expect.poll(() => tile.innerText()).toMatch(/Unknown\s+1\s+may be paid/)
  expect(await tile.getAttribute('class')).toContain('tone-unknown')
  await expect.poll(() => page.locator('.layer-unknown').innerText()).toMatch(/Outcome unknown\s*2/)
  expect(await page.locator('.layer-retryable').innerText()).toMatch(/Retryable\s*1/)
  const wrong = page.locator('tr', { hasText: 'RAIL_TIMEOUT' })
  expect(await wrong.locator('[data-state=OUTCOME_UNKNOWN]').count()).toBe(1)
  expect(await page.locator('tr', { hasText: 'BUSY' }).locator('[data-state=RETRYABLE]').count()).toBe(1)
  await goTo('payments')
  const row = page.locator('.vlist-row', { hasText: timedOut.instructionId })
  const tag = row.locator('[data-state=OUTCOME_UNKNOWN]')
  await tag.waitFor()
  expect(
    await row
      .getByRole('cell')
      .nth(1)
      .evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth),
  ).toBe(0)
})

test('the Holds page and its dialog mark an unknown outcome with its own tag, not as a warning', async () => {
  const { page, goTo } = olga
  await goTo('holds')
  const row = page.getByRole('row', { name: timedOut.instructionId })
  const tag = row.locator('[data-state=OUTCOME_UNKNOWN]')
  expect(await tag.getAttribute('class')).toContain('tone-unknown')
  expect(await row.locator('.tone-warn').count()).toBe(0)
  await row.getByRole('button', { name: 'Resolve' }).click()
  const dialog = page.getByRole('dialog')
  expect(await dialog.locator('[data-state=OUTCOME_UNKNOWN]').first().innerText()).toBe('Outcome unknown')
  await dialog.getByText('The rail may have paid, but no answer confirms it.').first().waitFor()
})
