import { expect, onTestFinished, test } from 'vitest'
import { deploy } from '../../libs/deployment/index.js'
import { claimOutboxBatch, completeOutboxAttempt, enqueuePaymentOutbox } from '../../libs/outbox/index.js'
import { openDatabase } from '../../libs/db/index.js'
import { closePages, launchBrowser } from '../support/browser.js'
import { spawnSymphony } from '../support/commandLine.js'
import { visit } from '../support/dashboardFixture.js'
import { killServer } from '../support/killServer.js'
import { buildInstruction, WORKER } from '../support/outboxItems.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { startPrivateServer } from '../support/server.js'

const TOKEN = 'token-of-the-stale-test'
/** Maximum time from the end of PostgreSQL to the warning on the page. */
const SAID_WITHIN_MS = 5_000

test(
  'a page reports within 5 s that PostgreSQL is unreachable, and shows nothing in green',
  { timeout: 240_000 },
  async () => {
    const server = await startPrivateServer()
    onTestFinished(() => server.remove())
    await deploy({ url: server.url, schema: 'symphony' })
    await oneDispatchedPayment(server.url)
    const api = spawnSymphony(['api', '--port', '0'], {
      DATABASE_URL: server.url,
      SYMPHONY_ACCESS_TOKEN: TOKEN,
      SYMPHONY_LOG_LEVEL: 'silent',
    })
    onTestFinished(async () => {
      api.child.kill('SIGTERM')
      await api.ended
    })
    await expect.poll(api.stdout, POLL_OPTIONS).toMatch(/The API listens on http:\S+\.\n/)
    const address = /http:\S+(?=\.\n)/.exec(api.stdout())?.[0] ?? ''
    const browser = await launchBrowser()
    onTestFinished(() => closePages(browser))
    const { page, goTo } = await visit(browser, `${address}/#token=${TOKEN}`)
    const live = page.locator('.live:visible')
    await live.getByText('Live', { exact: true }).waitFor()
    await page.getByText('No alerts firing').waitFor()
    await page.locator('.throughput canvas').waitFor()
    expect(await page.evaluate(GREEN)).not.toEqual([])

    await killServer(server)
    const diedAt = performance.now()
    const note = page.getByRole('alert').filter({ hasText: 'stale since' })
    await note.waitFor()
    expect(performance.now() - diedAt).toBeLessThan(SAID_WITHIN_MS)
    expect(await note.innerText()).toMatch(/stale since \d\d:\d\d:\d\d[^]*The database could not be read/)
    await live.getByText('Stale', { exact: true }).waitFor()
    expect(await page.getByText('No alerts firing').count()).toBe(0)
    // The chart is redrawn in its stale colours.
    await expect.poll(() => page.evaluate(GREEN), POLL_OPTIONS).toEqual([])
    await goTo('payments')
    await note.waitFor()
    expect(await page.evaluate(GREEN)).toEqual([])

    const again = await server.restart()
    onTestFinished(() => again.stop())
    await note.waitFor({ state: 'detached' })
    await live.getByText('Live', { exact: true }).waitFor()
    await goTo('')
    await page.getByText('No alerts firing').waitFor()
  },
)

async function oneDispatchedPayment(url: string): Promise<void> {
  const database = openDatabase({ url, schema: 'symphony' })
  const executor = database.as('symphony_executor')
  const instruction = buildInstruction()
  await enqueuePaymentOutbox(database.as('symphony_ingest'), instruction)
  const [lease] = await claimOutboxBatch(executor, 1, WORKER, 60)
  await completeOutboxAttempt(executor, WORKER, {
    outboxId: lease?.outboxId ?? '',
    leaseToken: lease?.leaseToken ?? '',
    state: 'DISPATCHED',
    railReference: 'RF-1',
  })
  await database.close()
}

/** Finds everything drawn in green: elements by computed colour, canvases by pixel. */
const GREEN = `(() => {
  const isGreen = (r, g, b, a) => a > 40 && g > r + 25 && g > b + 10
  const found = []
  for (const element of document.querySelectorAll('body *')) {
    const box = element.getBoundingClientRect()
    if (box.width === 0 || box.height === 0) continue
    const style = getComputedStyle(element)
    for (const name of ['color', 'backgroundColor', 'borderTopColor', 'borderLeftColor', 'fill', 'stroke']) {
      const [r, g, b, a = 1] = (style[name].match(/[\\d.]+/g) ?? []).map(Number)
      if (style[name].startsWith('rgb') && isGreen(r, g, b, a * 255)) found.push(element.className + ' ' + name)
    }
    if (element instanceof HTMLCanvasElement && element.width > 0 && element.height > 0) {
      const { data } = element.getContext('2d').getImageData(0, 0, element.width, element.height)
      for (let at = 0; at < data.length; at += 4) {
        if (!isGreen(data[at], data[at + 1], data[at + 2], data[at + 3])) continue
        found.push('canvas')
        break
      }
    }
  }
  return found
})()`
