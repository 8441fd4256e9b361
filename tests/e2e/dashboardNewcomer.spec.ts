import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { OutboxStore } from '../../libs/outbox/index.js'
import { closePages, launchBrowser } from '../support/browser.js'
import { spawnSymphony } from '../support/commandLine.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { visit } from '../support/dashboardFixture.js'
import { findPageDefects } from '../support/dashboardPages.js'
import { claimOnly, complete } from '../support/outboxItems.js'
import { makeTestFolder, removeTestFolder } from '../support/server.js'

let browser: Browser
let db: TestDatabase
beforeAll(async () => {
  ;[browser, db] = await Promise.all([launchBrowser(), createTestDatabase({ countBranches: false })])
})
afterAll(async () => {
  await closePages(browser)
  await db.drop()
})

/** Visits of all pages take long on a busy machine. */
const ALL_PAGES = { timeout: 300_000 }

/** Runs `symphony start` on the database of this file. Resolves with the printed address, which contains the token. */
async function start(): Promise<string> {
  const folder = await makeTestFolder()
  onTestFinished(() => removeTestFolder(folder))
  const running = spawnSymphony(['start', '--data-dir', join(folder, 'symphony'), '--port', '0'], {
    DATABASE_URL: db.url,
    SYMPHONY_SCHEMA: db.schema,
  })
  onTestFinished(async () => {
    running.child.kill('SIGTERM')
    expect((await running.ended).exitCode).toBe(0)
  })
  await expect.poll(running.stdout).toContain('symphony show')
  const token = await readFile(join(folder, 'symphony', 'access-token'), 'utf8')
  return `${/The dashboard: (\S+)/.exec(running.stdout())?.[1] ?? ''}/#token=${token.trim()}`
}

test('a newcomer opens the printed address, enqueues, watches and verifies a payment', ALL_PAGES, async () => {
  const address = await start()
  const open = await visit(browser, address)
  const { page, browserErrors, goTo } = open

  await page.getByRole('heading', { name: 'No payments yet' }).waitFor()
  expect(await page.locator('.story').innerText()).toMatch(/sends payments from your database to a payment rail/)
  expect(await page.locator('pre').innerText()).toMatch(/^curl -sS http:\/\/127\.0\.0\.1:\d+\/v1\/instructions/)
  // The page removes the token from the address bar, and a reload keeps the session.
  expect(page.url()).not.toContain('token')
  await page.reload()
  await page.getByRole('heading', { name: 'No payments yet' }).waitFor()
  const checked = new Set<string>()
  expect(await findPageDefects(open, '', checked)).toEqual([])
  await goTo('')

  await page.getByLabel('Amount').fill('19.99')
  await page.getByRole('button', { name: 'Enqueue the payment' }).click()
  await page.getByRole('region', { name: 'Your payment' }).locator('[data-state=DISPATCHED]').waitFor()

  await page.getByRole('link', { name: 'Open its timeline' }).click()
  await page.getByText('Attempt 1: dispatched').waitFor()
  await page.locator('[data-ledger=sound]').getByText('2 rows against their sealed blocks').waitFor()
  expect(await page.locator('.links').innerText()).toMatch(/identity\s+block \d+[^]*attempt 1\s+block \d+/)
  await page.getByRole('button', { name: 'Show the payload' }).click()
  expect(await page.getByRole('region', { name: 'Payload' }).locator('pre').innerText()).toContain('"19.99"')

  expect(await findPageDefects(open, page.url().split('/').at(-1) ?? '', checked)).toEqual([])

  // The overview is no longer empty and counts the payment.
  await goTo('')
  await expect
    .poll(() => page.locator('.figure', { hasText: 'Dispatched' }).locator('.figure-value').innerText())
    .toBe('1')
  // The number contains messages, and so does its share.
  const topic = 'notices'
  await new OutboxStore(db.database).enqueue({ topic, payload: {} })
  await complete(db, await claimOnly(db, topic), { state: 'FAILED', errorCode: 'REFUSED' })
  await expect.poll(() => page.locator('.figure', { hasText: 'Dispatched' }).innerText()).toContain('50.0 %, last hour')
  expect(browserErrors()).toEqual([])
})
