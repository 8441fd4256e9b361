import type { CDPSession } from 'playwright-core'
import { expect, onTestFinished, test } from 'vitest'
import type { WorkerHistory } from '../../libs/http/index.js'
import { enqueuePaymentOutboxBatch, heartbeatOutboxWorker, type OutboxInstruction } from '../../libs/outbox/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { DashboardFixture, visit } from '../support/dashboardFixture.js'
import { TOKEN } from '../support/httpFixture.js'
import { KillableWorker } from '../support/killableWorker.js'
import { buildInstruction, claim, claimOnly, complete, enqueue } from '../support/outboxItems.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { writeRailsFile } from '../support/railsFile.js'
import { projectLedger } from '../support/sealLedger.js'
import { makeTestFolder, removeTestFolder } from '../support/server.js'
import { TcpProxy } from '../support/tcpProxy.js'

const fixture = closeAfterAll(await DashboardFixture.set())

test('a page shows a broken event stream, reopens it and catches up on missed changes', async () => {
  const proxy = await TcpProxy.before(fixture.http.address)
  const { outboxId, railType } = await enqueue(fixture.db)
  const { page, goTo } = await visit(fixture.browser, `http://127.0.0.1:${proxy.port}/#token=${TOKEN}`)
  await goTo(`payments/${outboxId}`)
  const live = page.locator('.live:visible')
  await live.getByText('Live', { exact: true }).waitFor()

  proxy.refusing = true
  proxy.cut()
  await live.getByText('Reconnecting').waitFor()
  await complete(fixture.db, await claimOnly(fixture.db, railType), { state: 'DISPATCHED', railReference: 'RF-1' })

  proxy.refusing = false
  await live.getByText('Live', { exact: true }).waitFor()
  await page.locator('main h1 + [data-state=DISPATCHED]').waitFor()
  expect(await page.locator('.timeline').innerText()).toContain('RF-1')
  await page.context().close()
  await proxy.close()
})

test('the layout of the overview does not move when events change its numbers', async () => {
  const { page, goTo } = await fixture.open(undefined, { viewport: { width: 1440, height: 900 } })
  await goTo('')
  await page.locator('.throughput canvas').waitFor()
  const { railType } = await enqueue(fixture.db)
  const row = page.getByRole('region', { name: 'Rails' }).locator('tr', { hasText: railType })
  await row.waitFor()
  const pending = page.locator('.figure', { hasText: 'Pending' }).locator('.figure-value')
  const { rows } = await fixture.db.queryNoRole<{ items: number }>(
    'SELECT count(*)::int AS items FROM payment_outbox_pending',
  )
  let items = rows[0]!.items
  // The status that shows the row can count the queue before the commit of the payment.
  await expect.poll(() => pending.innerText()).toBe(String(items))
  for (const viewport of [
    { width: 1440, height: 900 },
    { width: 390, height: 844 },
  ]) {
    await page.setViewportSize(viewport)
    await page.evaluate(`new Promise((resolve) => setTimeout(() => {
      globalThis.shifts = []
      new PerformanceObserver((list) => shifts.push(...list.getEntries())).observe({ type: 'layout-shift' })
      resolve()
    }, 500))`)
    for (let more = 1; more <= 3; more += 1) {
      await enqueue(fixture.db, { railType })
      items += 1
      await expect.poll(() => pending.innerText()).toBe(String(items))
    }
    const moved = `shifts.map(({ value, sources }) => value + ' ' + sources.map(({ node }) => node?.className).join())`
    expect([viewport.width, await page.evaluate(moved)]).toEqual([viewport.width, []])
  }
  await page.context().close()
})

test('the payment list shows a new state without a reload when another process completes an item', async () => {
  const { page, goTo } = await fixture.open()
  await goTo('payments')
  const { instructionId, railType } = await enqueue(fixture.db)
  const row = page.locator('.vlist-row', { hasText: instructionId })
  await row.locator('[data-state=DUE]').waitFor()
  await complete(fixture.db, await claimOnly(fixture.db, railType), { state: 'DISPATCHED', railReference: 'RF-2' })
  await row.locator('[data-state=DISPATCHED]').waitFor()
  await expect.poll(() => row.innerText()).toContain('RF-2')
  await page.context().close()
})

function some(count: number, batch: number): OutboxInstruction[] {
  return Array.from({ length: count }, () => buildInstruction({ railType: 'sepa', participantId: `p-${batch}` }))
}

test('a list of 10,000 payments draws only visible rows, and an event redraws only its row', async () => {
  const ingest = fixture.db.as('symphony_ingest')
  // The items of each claim below get their own milliseconds. Before PostgreSQL 18, ids of one millisecond have no order.
  for (const count of [1, 150]) {
    await enqueuePaymentOutboxBatch(ingest, some(count, 0))
    await fixture.db.queryNoRole('SELECT pg_sleep(0.005)')
  }
  await enqueuePaymentOutboxBatch(ingest, some(849, 0))
  for (let batch = 1; batch < 10; batch += 1) await enqueuePaymentOutboxBatch(ingest, some(1_000, batch))
  const { page, goTo } = await fixture.open()
  await goTo('payments?rail=sepa')
  const inspector = await page.context().newCDPSession(page)
  // Measures the CPU time of the page's thread, which does not grow on a busy machine.
  await inspector.send('Performance.enable', { timeDomain: 'threadTicks' })
  const loaded: Loaded = await page.evaluate(LOAD_ALL)
  const before = await workMs(inspector)
  const scrolled: Scrolled = await page.evaluate(SCROLL)
  const workPerFrameMs = Math.round(((await workMs(inspector)) - before) / scrolled.frames)
  process.stdout.write(`10,000 payments, flung through: ${JSON.stringify({ ...scrolled, workPerFrameMs })}\n`)
  expect(loaded.text).toBe('10,000 payments')
  const rowsMax = Math.max(loaded.rowsMax, scrolled.rowsMax)
  expect(rowsMax).toBeGreaterThan(10)
  expect(rowsMax).toBeLessThan(80)
  // The last row is the first enqueued item, which is also claimed first.
  const last = page.locator('.vlist-row[aria-rowindex="10001"]')
  await last.locator('[data-state=DUE]').waitFor()
  await page.evaluate(WATCH)
  await claim(fixture.db, 'sepa', { batchSize: 1 })
  await last.locator('[data-state=LEASED]').waitFor()
  expect(await page.evaluate('touched.rows.size')).toBe(1)
  expect(await page.evaluate('touched.changes')).toBeLessThanOrEqual(CHANGES_PER_EVENT_MAX)
  // 150 items do not fit on the screen, and only visible rows are drawn.
  await claim(fixture.db, 'sepa', { batchSize: 150 })
  await page.locator('.vlist-row[aria-rowindex="9999"] [data-state=LEASED]').waitFor()
  expect(await page.evaluate('touched.rows.size')).toBeLessThanOrEqual(rowsMax)
  await page.context().close()
})

/** Maximum number of DOM changes for a new state tag: its class, text, icon and explanation. */
const CHANGES_PER_EVENT_MAX = 10

/**
 * Records which rows change, and how often: added or removed elements, and attributes. Relative times change text only,
 * so they are not recorded.
 */
const WATCH = `{
  globalThis.touched = { rows: new Set(), changes: 0 }
  new MutationObserver((records) => {
    for (const { target, addedNodes, removedNodes } of records) {
      touched.changes += 1
      const row = [target, ...addedNodes, ...removedNodes].find((node) => node.closest?.('.vlist-row') ?? false)
      touched.rows.add(row?.closest('.vlist-row').getAttribute('aria-rowindex') ?? 'the list')
    }
  }).observe(document.querySelector('.vlist'), { subtree: true, childList: true, attributes: true })
}`

async function workMs(inspector: CDPSession): Promise<number> {
  const { metrics } = await inspector.send('Performance.getMetrics')
  return 1_000 * (metrics.find(({ name }) => name === 'TaskDuration')?.value ?? Number.NaN)
}

interface Loaded {
  readonly text: string
  readonly rowsMax: number
}

/** Scrolls to the end until the list has loaded all items. */
const LOAD_ALL = `new Promise((resolve) => {
  const scroller = document.querySelector('.vlist-scroll')
  const foot = document.querySelector('.vlist-foot')
  let rowsMax = 0
  const step = () => {
    rowsMax = Math.max(rowsMax, scroller.querySelectorAll('.vlist-row').length)
    scroller.scrollTop = scroller.scrollHeight
    if (!foot.textContent.includes('End of list')) return requestAnimationFrame(step)
    resolve({ text: foot.firstElementChild.textContent, rowsMax })
  }
  requestAnimationFrame(step)
})`

interface Scrolled {
  readonly rowsMax: number
  readonly frames: number
  readonly framesLate: number
  readonly longTasks: number
  readonly longestFrameMs: number
}

/** Scrolls from top to end in 60 frames, each with rows that were never drawn before. */
const SCROLL = `new Promise((resolve) => {
  const scroller = document.querySelector('.vlist-scroll')
  let longTasks = 0
  new PerformanceObserver((list) => (longTasks += list.getEntries().length)).observe({ type: 'longtask' })
  let rowsMax = 0, frames = 0, framesLate = 0, longestFrameMs = 0, last = performance.now()
  scroller.scrollTop = 0
  const step = (now) => {
    const took = now - last
    last = now
    frames += 1
    if (took > 34) framesLate += 1
    longestFrameMs = Math.max(longestFrameMs, Math.round(took))
    rowsMax = Math.max(rowsMax, scroller.querySelectorAll('.vlist-row').length)
    scroller.scrollTop = (scroller.scrollHeight * frames) / 60
    if (frames < 60) requestAnimationFrame(step)
    else resolve({ rowsMax, frames, framesLate, longTasks, longestFrameMs })
  }
  requestAnimationFrame(step)
})`

test('breaker history and throughput of a worker killed by SIGKILL stay on the page of its rail', async () => {
  const { db, http } = fixture
  const folder = await makeTestFolder()
  onTestFinished(() => removeTestFolder(folder))
  const railsFile = await writeRailsFile(
    folder,
    `type: 'failing', onUnknown: 'resend', dispatch: ({ payload }) => {
       if (payload.unanswered) throw new Error('no answer')
       return { outcome: 'success', reference: 'paid' }
     }`,
  )
  const { url } = await db.createLogin('killed', { roles: ['symphony_executor', 'symphony_readonly'] })
  const workerId = 'killed-worker'
  const worker = new KillableWorker(db, { url, workerId, railsFile })
  onTestFinished(() => void worker.child.kill('SIGKILL'))
  await worker.atWork()
  const pay = (payload: OutboxInstruction['payload'], count: number) =>
    enqueuePaymentOutboxBatch(
      db.as('symphony_ingest'),
      Array.from({ length: count }, () => buildInstruction({ railType: 'failing', payload })),
    )
  await pay({}, 3)
  const history = async (): Promise<WorkerHistory> =>
    JSON.parse(await (await http.call(`/v1/workers/history?rail=failing`)).text())
  const counted = async () => {
    await projectLedger(db)
    return (await history()).throughput.reduce((sum, { dispatched }) => sum + dispatched, 0)
  }
  await expect.poll(counted, POLL_OPTIONS).toBe(3)
  await pay({ unanswered: true }, 5)
  const first = async () => (await history()).breakerChanges.at(-1)
  await expect.poll(first, POLL_OPTIONS).toMatchObject({ workerId, from: 'closed', to: 'open' })
  await worker.kill()
  const before = (await history()).breakerChanges

  // A heartbeat deletes workers that were silent for a day. Their history stays.
  await db.queryNoRole(`UPDATE outbox_workers SET last_seen_at = now() - interval '25 hours'`)
  await heartbeatOutboxWorker(db.as('symphony_executor'), 'another')
  expect(JSON.parse(await (await http.call('/v1/workers')).text())).toMatchObject({
    workers: [{ workerId: 'another' }],
  })
  expect(await counted()).toBe(3)
  expect((await history()).breakerChanges).toEqual(before)
  const { page, goTo } = await fixture.open()
  for (const path of ['rails/failing', `workers/${workerId}`]) {
    await goTo(path)
    const changes = page.getByRole('region', { name: 'Breaker history' })
    await expect.poll(() => changes.innerText()).toMatch(/Closed\s+Open\s+failing\s+killed-worker/)
    await expect.poll(() => page.getByRole('region', { name: 'Throughput' }).innerText()).toMatch(/\s3\s+0\s+\d/)
  }
  await page.context().close()
})
