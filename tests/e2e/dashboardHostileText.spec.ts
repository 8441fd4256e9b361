import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { enqueueInboxMessages, failInboxMessages } from '../../libs/inbox/index.js'
import { acquireLease } from '../../libs/lease/index.js'
import {
  approveOutboxLimit,
  claimOutboxBatch,
  completeOutboxAttempts,
  enqueuePaymentOutboxBatch,
  heartbeatOutboxWorker,
  noteOutboxItem,
  pauseOutbox,
  placeOutboxHold,
  proposeOutboxLimit,
  recordLateOutcome,
  redriveOutboxItem,
  resolveOutboxHold,
  type ClaimedItem,
  type OutboxInstruction,
} from '../../libs/outbox/index.js'
import { closeReconciliationFinding } from '../../libs/reconciliation/index.js'
import { createOrUpdateJob, scheduleTimer } from '../../libs/scheduler/index.js'
import { commitSlice } from '../support/commitSlice.js'
import { DashboardFixture, visit as openPage, type OpenPage } from '../support/dashboardFixture.js'
import { rowHashes } from '../support/fingerprint.js'
import { apiRolesOf } from '../support/httpFixture.js'
import { hostileTexts } from '../support/hostileTexts.js'
import { claimOf } from '../support/inboxMessages.js'
import { makeDueAndClaim } from '../support/outboxItems.js'
import { startRailServer } from '../support/railServer.js'
import { projectLedger } from '../support/sealLedger.js'
import { reconcileLines } from '../support/statements.js'

const HOSTILE_TEXTS = hostileTexts(Number(process.env['SYMPHONY_TEST_SCRIPTS_FROM'] ?? commitSlice(4) * 50))
/** Its rail has every worker, and its worker every rail. */
const [FIRST = ''] = HOSTILE_TEXTS

let fixture: DashboardFixture
let visit: OpenPage
beforeAll(async () => {
  fixture = await DashboardFixture.set({
    api: {
      readDatabases: async () =>
        HOSTILE_TEXTS.map((text) => ({ ...DATABASE, name: text, schema: text, serverVersion: text })),
      readStatusSnapshot: async () => ({
        alerts: HOSTILE_TEXTS.map((text) => ({ ...ALERT, name: text, summary: text, firstLook: text, remedy: text })),
      }),
    },
  })
  await storeHostileTexts(fixture)
  // The browser ignores the content security policy, because the page must be safe without it.
  visit = await fixture.open(undefined, { bypassCSP: true, viewport: { width: 1200, height: 20_000 } })
})
afterAll(() => fixture.close())

const DATABASE = { state: 'up' as const, pendingCount: '0', oldestPendingAgeSeconds: 0, heldCount: '0' }
const ALERT = {
  state: 'firing' as const,
  severity: 'warning' as const,
  value: 1,
  since: '2026-01-01T00:00:00Z',
  forSeconds: 0,
}
const OLGA = '<b>olga</b>'

/** Stores every text in every field that a caller can fill and the dashboard shows. */
async function storeHostileTexts({ db }: DashboardFixture): Promise<void> {
  const ingest = db.as('symphony_ingest')
  const executor = db.as('symphony_executor')
  const control = db.as('symphony_control')
  const { control: controlOf } = await apiRolesOf(db)
  const person = controlOf({ owner: OLGA, apiKey: null })
  const other = controlOf({ owner: 'pavel', apiKey: null })
  const instructions = HOSTILE_TEXTS.flatMap((text) => KINDS.map((kind) => instructionOf(text, kind)))
  await enqueuePaymentOutboxBatch(ingest, instructions)
  const items = await claimOutboxBatch(executor, 1_000, OLGA, 600, { rails: [...HOSTILE_TEXTS] })
  const textOf = new Map(items.map((item) => [item.outboxId, item.railType]))
  await completeOutboxAttempts(
    executor,
    OLGA,
    items.map(({ outboxId, leaseToken, instructionId }) => {
      const text = textOf.get(outboxId) ?? ''
      const isHeld = instructionId.endsWith('~held')
      const codes = { railReference: text, railCode: text, errorCode: text.slice(0, 60), errorMessage: text }
      return { outboxId, leaseToken, state: isHeld ? 'RETRYABLE' : 'FAILED', ...codes }
    }),
  )
  const held = new Map<string, ClaimedItem>()
  for (const item of items) {
    const { outboxId, instructionId, railType: text } = item
    if (instructionId.endsWith('~failed')) await redriveOutboxItem(person, outboxId, text)
    else if (instructionId.endsWith('~contradicted')) {
      await recordLateOutcome(executor, OLGA, { ...item, state: 'DISPATCHED', railReference: text })
    } else {
      held.set(text, item)
      await placeOutboxHold(person, outboxId, text)
      await noteOutboxItem(person, outboxId, text, text)
      await resolveOutboxHold(person, outboxId, 'DISPATCHED', text, text)
    }
  }
  for (const text of HOSTILE_TEXTS) {
    await pauseOutbox(person, 'rail', text, text)
    const rails = text === FIRST ? HOSTILE_TEXTS : [FIRST, text]
    await heartbeatOutboxWorker(executor, text, {
      rails: rails.map((railType) => ({ railType, breaker: 'open', calls: 1 })),
    })
    const rule = { kind: 'count', limit: '5', windowSeconds: 3_600, railType: text, participantId: text } as const
    await approveOutboxLimit(other, await proposeOutboxLimit(person, text, rule, text))
    await proposeOutboxLimit(person, `${text}~`, rule, text)
    const entry = { account: text.slice(0, 64), amount: '1.00', currency: 'EUR', bookedOn: '2026-11-16' }
    const { findings } = await reconcileLines(person, text, [
      { ...entry, bankReference: text, reference: `${held.get(text)?.outboxId} ${text}` },
      { ...entry, bankReference: `${text}~`, reference: text },
    ])
    for (const { kind, findingId } of findings) {
      if (kind === 'unknown_entry' && findingId !== null) await closeReconciliationFinding(person, findingId, text)
    }
    await createOrUpdateJob(control, { name: text, cron: '@yearly', topic: text, payload: {} })
    await scheduleTimer(ingest, { topic: text, payload: {}, dueAt: new Date('2100-01-01T00:00:00Z') })
    await acquireLease(executor, { resource: text, owner: text, durationMs: 600_000 })
  }
  await enqueueInboxMessages(
    ingest,
    HOSTILE_TEXTS.map((text) => ({ source: 'hostile', messageId: text, topic: text, payload: {} })),
  )
  for (const claim of await claimOf(db, { source: 'hostile' })) {
    await failInboxMessages(executor, [{ ...claim, error: claim.messageId }], 'worker-1')
  }
}

/** Endings of the ids of the payments that each text gets. */
const KINDS = ['~failed', '~held', '~contradicted']

function instructionOf(text: string, kind: string): OutboxInstruction {
  const name = `${text}${kind}`
  return { instructionId: name, idempotencyKey: name, participantId: text, railType: text, payload: { [text]: text } }
}

/** Finds elements that the dashboard never creates. They can only come from a stored text that was parsed as HTML. */
const MADE_OF_TEXT = `[...document.querySelectorAll(
  '#app :is(script, img, image, iframe, math, base, meta, link, isindex, animate, object, embed, video, audio, style, form[action], marquee, details:not(:has(> summary.quiet)), b:not(.legend b, .composition b)), ' +
  '#app [onload], #app [onerror], #app [onbegin], #app [onpageshow], #app [onpointerover], #app [onfocus], #app [ontoggle], #app a:not([href^="#/"], .skip)'
)].map((element) => element.outerHTML.slice(0, 200))`

async function shownTexts(page: Page): Promise<string> {
  expect(await page.evaluate(MADE_OF_TEXT)).toEqual([])
  return page.locator('main').innerText()
}

test.each([
  ['payments', 'payments'],
  ['dead letters', 'dlq'],
  ['holds', 'holds'],
  ['pauses', 'dispatch'],
  ['jobs and timers', 'scheduler'],
  ['the inbox', 'inbox?state=dead'],
  ['leases', 'leases'],
  ['databases', 'databases'],
  ['rails, workers and alerts', ''],
  ['the workers of a rail', `rails/${encodeURIComponent(FIRST)}`],
  ['the rails of a worker', `workers/${encodeURIComponent(FIRST)}`],
  ['contradictions', 'contradictions'],
  ['limits', 'limits'],
  ['open findings and runs', 'reconciliation'],
  ['closed findings', 'reconciliation?state=closed'],
])('scripts stored in every field of %s are shown as text', async (_what, path) => {
  const { page, goTo, browserErrors } = visit
  expect(HOSTILE_TEXTS.length).toBe(50)
  await goTo(path)
  await expect.poll(() => missingTexts(page)).toEqual([])
  expect(browserErrors()).toEqual([])
})

async function missingTexts(page: Page): Promise<string[]> {
  const seen = squeezed(await shownTexts(page))
  return HOSTILE_TEXTS.filter((text) => !seen.includes(squeezed(text)))
}

function squeezed(text: string): string {
  return text.replaceAll(/\s+/g, '')
}

/** Per payment, below the ceiling of 20. */
const ATTEMPTS = 18

test('scripts in the attempts of three payments of a rail, and in a payload, are shown as text', async () => {
  const { db } = fixture
  const { page, goTo, browserErrors } = visit
  await db.queryNoRole('DELETE FROM outbox_pauses WHERE name = $1', [FIRST])
  for (let from = 0; from < HOSTILE_TEXTS.length; from += ATTEMPTS) {
    const texts = HOSTILE_TEXTS.slice(from, from + ATTEMPTS)
    const [item] = await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), [instructionOf(FIRST, `~${from}`)])
    if (item === undefined) throw new Error('the payment was not stored')
    for (const text of texts) {
      const { leaseToken, outboxId } = await makeDueAndClaim(db, { ...item, railType: FIRST }, { workerId: text })
      const codes = { railReference: text, railCode: text, errorCode: text.slice(0, 60), errorMessage: text }
      await completeOutboxAttempts(db.as('symphony_executor'), text, [
        { outboxId, leaseToken, state: 'RETRYABLE', ...codes },
      ])
    }
    await projectLedger(db)
    await goTo(`payments/${item.outboxId}`)
    await page.getByRole('button', { name: 'Show the payload' }).click()
    const seen = squeezed(await shownTexts(page))
    expect(texts.filter((text) => !seen.includes(squeezed(text)))).toEqual([])
    expect(squeezed(await page.locator('pre').innerText())).toBe(squeezed(JSON.stringify({ [FIRST]: FIRST })))
    expect(await page.locator('[data-ledger=sound] .state', { hasText: 'Verified' }).count()).toBe(1)
  }
  await goTo(`rails/${encodeURIComponent(FIRST)}`)
  const errors = page.getByRole('region', { name: 'Errors', exact: true })
  // Lists only the most frequent codes.
  const shownCodes = async () => {
    const seen = squeezed(await errors.innerText())
    return HOSTILE_TEXTS.filter((text) => seen.includes(squeezed(text.slice(0, 60)))).length
  }
  await expect.poll(shownCodes).toBeGreaterThanOrEqual(20)
  expect(await page.evaluate(MADE_OF_TEXT)).toEqual([])
  expect(browserErrors()).toEqual([])
})

test('a page of another origin cannot change data or read a response', async () => {
  const { db, http, browser } = fixture
  const actions = http.routes.filter(({ method, access }) => method !== 'GET' && access !== 'open')
  const attempts = actions.map(({ method, path }) => ({
    method,
    address: `${http.address}${path.replaceAll(/\{\w+\}/g, '01981f0e-0000-7000-8000-000000000000')}`,
  }))
  const evil = await startRailServer((_, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>elsewhere</title>')
  })
  const before = await rowHashes(db)
  try {
    const { page } = await openPage(browser, evil.url)
    const answers = await page.evaluate(`Promise.all(${JSON.stringify(attempts)}.map(async ({ method, address }) => {
      const form = Object.assign(document.createElement('form'), { method: 'POST', action: address, target: 'into', enctype: 'text/plain' })
      form.append(Object.assign(document.createElement('input'), { name: '{"reason":"', value: '"}' }))
      document.body.append(Object.assign(document.createElement('iframe'), { name: 'into' }), form)
      form.submit()
      const simple = await fetch(address, { method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}' }).then((a) => a.type, () => 'refused')
      const full = await fetch(address, { method, credentials: 'include', headers: { 'content-type': 'application/json' }, body: '{}' })
        .then((a) => 'read ' + a.status, () => 'refused')
      return simple + ' ' + full
    }))`)
    // The page cannot read the 401 of the no-cors request. The JSON request fails its preflight and is never sent.
    expect(new Set(JSON.parse(JSON.stringify(answers)))).toEqual(new Set(['refused refused']))
    expect(actions.length).toBeGreaterThanOrEqual(15)
    const refused = http
      .logged()
      .split('\n')
      .filter((line) => line.includes('"POST"') && line.includes('401'))
    expect(refused.length).toBeGreaterThanOrEqual(actions.length)
    expect(await rowHashes(db)).toEqual(before)
  } finally {
    await evil.close()
  }
})

test('the content security policy stops scripts that are injected into the page in six ways', async () => {
  const { page, browserErrors } = await fixture.open()
  await page.locator('main h1').waitFor()
  const ran = await page.evaluate(`(async () => {
    globalThis.ran = []
    const attempts = {
      inline: () => document.body.append(Object.assign(document.createElement('script'), { textContent: 'ran.push("inline")' })),
      foreign: () => document.body.append(Object.assign(document.createElement('script'), { src: 'data:text/javascript,ran.push("foreign")' })),
      handler: () => document.body.insertAdjacentHTML('beforeend', '<img src=x onerror="ran.push(\\'handler\\')">'),
      address: () => { const a = Object.assign(document.createElement('a'), { href: 'javascript:ran.push("address")' }); document.body.append(a); a.click() },
      text: () => setTimeout('ran.push("text")', 0),
      frame: () => document.body.append(Object.assign(document.createElement('iframe'), { srcdoc: '<script>parent.ran.push("frame")</scr' + 'ipt>' })),
    }
    for (const open of Object.values(attempts)) { try { open() } catch { /* refused at once */ } }
    await new Promise((done) => setTimeout(done, 300))
    return ran
  })()`)
  expect(ran).toEqual([])
  expect(browserErrors().filter((text) => text.includes('Content Security Policy')).length).toBeGreaterThan(3)
})
