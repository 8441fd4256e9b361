import { readFile } from 'node:fs/promises'
import type { Locator, Page } from 'playwright-core'
import { beforeAll, describe, expect, test } from 'vitest'
import type { Alert } from '../../libs/http/index.js'
import { failInboxMessages } from '../../libs/inbox/index.js'
import { LedgerProjector } from '../../libs/ledger/index.js'
import { ALERT_RULES } from '../../libs/observability/index.js'
import {
  cancelOutboxItem,
  declareOutboxRails,
  DestinationHash,
  DestinationHasher,
  freezeDispatch,
  liftDispatchFreeze,
  pauseOutbox,
  placeOutboxHold,
  readDispatchEpoch,
  readItems,
  resolveOutboxHold,
  withdrawOutboxProposal,
} from '../../libs/outbox/index.js'
import { maskPayloadText } from '../../libs/rails/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { DASHBOARD_PAGES } from '../support/dashboardPages.js'
import { DashboardFixture, type OpenPage } from '../support/dashboardFixture.js'
import { gate } from '../support/gate.js'
import { createKey, apiRolesOf } from '../support/httpFixture.js'
import { enqueuedAndClaimed, rowOf as rowOfMessage } from '../support/inboxMessages.js'
import {
  createContradiction,
  claim as claimOn,
  claimOnly,
  complete,
  enqueue,
  eventRows,
} from '../support/outboxItems.js'
import {
  createPerson,
  enqueueFailed,
  enqueuePaid,
  enqueueUnknown,
  propose as proposeBy,
} from '../support/outboxPeople.js'
import { createJob, createTimer } from '../support/scheduled.js'
import { sealLedger } from '../support/sealLedger.js'
import { statementOf } from '../support/statements.js'

/** Rail whose destination is masked. */
const MASKED_RAIL = 'rail-with-masked-destination'
const MASKED_FIELDS = [{ pointer: '/destination', keys: ['destination'], fieldClass: 'masked' as const }]

const destinationHash = new DestinationHash('a secret of thirty-two characters')
const fixture = closeAfterAll(
  await DashboardFixture.set({
    api: {
      readStatusSnapshot: async () => ({ alerts }),
      destinationHash,
      protection: {
        encrypt: async (_tx, instructions) => instructions,
        maskFor: async (_role, rail) => (text) => maskPayloadText(text, rail === MASKED_RAIL ? MASKED_FIELDS : []),
      },
    },
  }),
)
let olga: OpenPage
let pavel: OpenPage
/** Alerts that the server reports, set by the tests. */
let alerts: readonly Alert[] = []
beforeAll(async () => {
  await declareOutboxRails(fixture.db.as('symphony_executor'), [{ type: DECLARED, money: true, fields: [] }], 'w', {
    serving: true,
  })
  olga = await fixture.open(await fixture.tokenOf('olga'))
  pavel = await fixture.open(await fixture.tokenOf('pavel'))
})

async function stateOf(outboxId: string): Promise<string | undefined> {
  const [item] = await readItems(fixture.db.as('symphony_readonly'), { outboxId })
  return item?.state
}

/** Fills in the reason in the open dialog and presses its button. */
async function giveReason(page: Page, button: string, reason = 'as agreed with the bank'): Promise<void> {
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Reason').fill(reason)
  await dialog.getByRole('button', { name: button }).click()
  await dialog.waitFor({ state: 'detached' })
}

/** Selects every row of the list and presses a button of the bar above it. */
async function actOnAll(page: Page, button: string): Promise<void> {
  await page.getByRole('checkbox', { name: /^Select all / }).check()
  await page.getByRole('button', { name: button, exact: true }).click()
}

function rowOf(page: Page, text: string): Locator {
  return page.getByRole('row', { name: text })
}

const DECLARED = 'rail-that-a-worker-declared'
/** A rail reference of 243 characters without a space; 255 are allowed. */
const LONG_REFERENCE = `RF-${'4711'.repeat(60)}`
/** Text about the approval of a payment that a person enters. */
const APPROVERS = 'Another person must approve it, or two above a limit that asks for two.'
const PAYLOAD = { amount: '12.50', currency: 'EUR', destination: 'DE89370400440532013000' }

describe('the dashboard', () => {
  test('preselects no decision in the resolve dialog, and submits nothing until one is chosen', async () => {
    const { instructionId } = await enqueueUnknown(fixture.db)
    const { page, goTo } = olga
    await goTo('holds')
    await rowOf(page, instructionId).getByRole('button', { name: 'Resolve' }).click()
    const dialog = page.getByRole('dialog')
    expect(await dialog.getByRole('radio', { checked: true }).count()).toBe(0)
    expect(await dialog.getByRole('button', { name: 'Choose a decision' }).isDisabled()).toBe(true)
    await dialog.getByLabel('Reason').fill('typed before anything was chosen')
    await page.keyboard.press('Control+Enter')
    for (const [choice, button] of [
      ['Send it again', 'Propose: send again'],
      ['It was paid', 'Propose: it was paid'],
      ['It was not paid and will not be', 'Propose: it was not paid'],
    ] as const) {
      await dialog.getByRole('radio', { name: choice }).check()
      await dialog.getByRole('button', { name: button, exact: true }).waitFor()
    }
    await page.keyboard.press('Escape')
    expect(await rowOf(page, instructionId).locator('.proposal').count()).toBe(0)
  })

  test('lets one person hold, annotate and retry a payment with a known outcome', async () => {
    const { outboxId, instructionId } = await enqueue(fixture.db)
    const { page, goTo } = olga
    await goTo(`payments/${outboxId}`)
    await page.getByRole('button', { name: 'Hold', exact: true }).click()
    await giveReason(page, 'Place the hold', 'the customer called')
    expect(await page.getByRole('status').innerText()).toMatch(/ is held\.$/)
    await page.locator('main h1 + [data-state=HELD]').waitFor()
    expect(await page.locator('.timeline').innerText()).toMatch(/olga[^]*the customer called/)
    await page.getByRole('button', { name: 'Add a note' }).click()
    await page.getByLabel('Note', { exact: true }).fill('asked the bank')
    await page.getByLabel('Assigned to').fill('pavel')
    await page.getByRole('button', { name: 'Add the note' }).click()
    await page.locator('.facts', { hasText: /Assigned to\s*pavel/ }).waitFor()
    expect(await page.locator('.timeline').innerText()).toMatch(/Note[^]*asked the bank/)
    await goTo('holds')
    expect(await rowOf(page, instructionId).innerText()).toMatch(/Assigned to pavel[^]*“asked the bank”/)
    await page.getByLabel('Assignee').fill('wendy')
    await rowOf(page, instructionId).waitFor({ state: 'detached' })
    await page.getByLabel('Assignee').fill('pavel')
    await rowOf(page, instructionId).waitFor()
    expect(page.url()).toContain('assignee=pavel')
    await goTo(`payments/${outboxId}`)
    await page.getByRole('button', { name: 'Resolve the hold' }).click()
    await page.getByRole('radio', { name: 'Send it again' }).check()
    await giveReason(page, 'Send it again now')
    await page.locator('main h1 + [data-state=DUE]').waitFor()
    expect(await stateOf(outboxId)).toBe('DUE')
  })

  test('lets one person cancel a payment before it is sent, and then offers no action', async () => {
    const { outboxId } = await enqueue(fixture.db)
    const { page, goTo } = olga
    await goTo(`payments/${outboxId}`)
    await page.getByRole('button', { name: 'Cancel', exact: true }).click()
    await giveReason(page, 'Cancel the payment', 'the order was cancelled')
    await page.locator('main h1 + [data-state=FAILED]').waitFor()
    expect(await page.locator('.timeline').innerText()).toMatch(/before it was sent[^]*the order was cancelled/)
    expect(await page.locator('main .actions').count()).toBe(0)
    expect(await stateOf(outboxId)).toBe('FAILED')
  })

  test('records a return in the currency of the payment, and refuses more than the paid amount', async () => {
    const { outboxId } = await enqueuePaid(fixture.db, { railType: DECLARED, payload: PAYLOAD })
    const { page, goTo } = olga
    await goTo(`payments/${outboxId}`)
    await page.getByRole('button', { name: 'Record a return' }).click()
    const dialog = page.getByRole('dialog')
    expect(await dialog.getByLabel('Currency').inputValue()).toBe('EUR')
    await dialog.getByLabel('Returned amount').fill('12.51')
    await dialog.getByLabel('Code of the rail').fill('AC04')
    await dialog.getByLabel('Reference of the return').fill('RT-17')
    await dialog.getByLabel('Date').fill('2026-01-31')
    await dialog.getByRole('button', { name: 'Record the return' }).click()
    expect(await dialog.getByRole('alert').innerText()).toContain('RETURN_EXCEEDS_PAYMENT')
    await dialog.getByLabel('Returned amount').fill('2.50')
    await dialog.getByRole('button', { name: 'Record the return' }).click()
    await dialog.waitFor({ state: 'detached' })
    await page.locator('main h1 ~ [data-state=RETURNED]').waitFor()
    expect(await page.locator('main h1 + [data-state=DISPATCHED]').count()).toBe(1)
    expect(await page.locator('.timeline').innerText()).toMatch(/olga[^]*AC04/)
    expect(await eventRows(fixture.db, outboxId)).toMatchObject([
      {
        event_type: 'RETURN_RECORDED',
        detail: { amount: '2.50', currency: 'EUR', reference: 'RT-17', occurred_at: '2026-01-31T00:00:00.000000Z' },
      },
    ])
  })

  test('offers no return to a key that may only read', async () => {
    const { outboxId } = await enqueuePaid(fixture.db)
    const { key } = await createKey(fixture.db, { owner: 'ruth', scopes: ['read'] })
    const reader = await fixture.open(key)
    await reader.goTo(`payments/${outboxId}`)
    await reader.page.locator('main h1 + [data-state=DISPATCHED]').waitFor()
    expect(await reader.page.locator('main .actions').count()).toBe(0)
    await reader.page.context().close()
  })

  test('resolves a hold with an unknown outcome only if a second person approves', async () => {
    const { outboxId, instructionId } = await enqueueUnknown(fixture.db, { railType: DECLARED, payload: PAYLOAD })
    const { page, goTo } = olga
    await goTo('holds')
    expect(await rowOf(page, instructionId).innerText()).toMatch(/12\.50 EUR\s+••••3000/)
    await rowOf(page, instructionId).getByRole('button', { name: 'Resolve' }).click()
    await page.getByRole('dialog').getByText('12.50 EUR to ••••3000').waitFor()
    await page.getByRole('radio', { name: 'It was paid' }).check()
    await page.getByLabel('The rail’s reference').fill(LONG_REFERENCE)
    await giveReason(page, 'Propose: it was paid')
    const proposal = rowOf(page, instructionId).locator('.proposal')
    await proposal.getByText('You proposed it, so another person must approve it').waitFor()
    await proposal.getByRole('button', { name: 'Approve' }).click()
    await page.getByRole('button', { name: 'Approve: it was paid' }).click()
    const refusal = page.getByRole('dialog').getByRole('alert')
    expect(await refusal.innerText()).toMatch(/second person[^]*SECOND_PERSON_REQUIRED[^]*request [0-9a-f-]{36}/)
    expect(await stateOf(outboxId)).toBe('HELD')

    await pavel.goTo('holds')
    await rowOf(pavel.page, instructionId).getByRole('button', { name: 'Approve' }).click()
    const dialogText = await pavel.page.getByRole('dialog').innerText()
    for (const word of [
      'It was paid',
      '12.50 EUR',
      '••••3000',
      outboxId,
      LONG_REFERENCE,
      'as agreed with the bank',
      'olga',
    ]) {
      expect(dialogText).toContain(word)
    }
    expect(dialogText).not.toContain(PAYLOAD.destination)
    // The body of the dialog is not wider than its frame, so the whole reference is visible.
    const body = pavel.page.getByRole('dialog').locator('.body')
    expect(await body.evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)).toBe(0)
    // The item stays held until the confirmation.
    expect(await stateOf(outboxId)).toBe('HELD')
    await pavel.page.getByRole('button', { name: 'Approve: it was paid' }).click()
    await rowOf(pavel.page, instructionId).waitFor({ state: 'detached' })
    expect(await stateOf(outboxId)).toBe('DISPATCHED')
    // The proposer's page updates without a reload.
    await page.keyboard.press('Escape')
    await rowOf(page, instructionId).waitFor({ state: 'detached' })
    await goTo(`payments/${outboxId}`)
    expect(await page.locator('.timeline').innerText()).toMatch(/proposed by\s*olga[^]*approved by\s*pavel/)
  })

  test('keeps a payment held when its proposal is withdrawn by the author or refused by another', async () => {
    const { outboxId, instructionId } = await enqueueUnknown(fixture.db)
    for (const [visitor, button, action] of [
      [olga, 'Withdraw', 'Withdraw it'],
      [pavel, 'Refuse', 'Refuse it'],
    ] as const) {
      await olga.goTo('holds')
      await rowOf(olga.page, instructionId).getByRole('button', { name: 'Resolve' }).click()
      await olga.page.getByRole('radio', { name: 'It was not paid and will not be' }).check()
      await giveReason(olga.page, 'Propose: it was not paid')
      await visitor.goTo('payments')
      await visitor.goTo('holds')
      await rowOf(visitor.page, instructionId).getByRole('button', { name: button }).click()
      await giveReason(visitor.page, action)
      await rowOf(visitor.page, instructionId).getByRole('button', { name: 'Resolve' }).waitFor()
    }
    expect(await stateOf(outboxId)).toBe('HELD')
  })

  test('closes an approval dialog when another proposal replaces the one it shows', async () => {
    const held = await enqueueUnknown(fixture.db)
    const failed = await enqueueFailed(fixture.db)
    const person = await createPerson(fixture.db, 'person-with-two-proposals')
    const { page, goTo } = pavel
    for (const [path, item, decision] of [
      ['holds', held, 'DISPATCHED'],
      ['dlq', failed, 'REDRIVE'],
    ] as const) {
      const first = await proposeBy(person, item.outboxId, decision, 'the first proposal')
      await goTo(path)
      await rowOf(page, item.instructionId).getByRole('button', { name: 'Approve' }).click()
      await page.getByRole('dialog').getByText('the first proposal').waitFor()
      await withdrawOutboxProposal(person.control, first, 'a mistake')
      await proposeBy(person, item.outboxId, decision, 'the second proposal')
      // Its event lets the page read the list again at once.
      await enqueue(fixture.db)
      await rowOf(page, item.instructionId).locator('.proposal > p', { hasText: 'the second proposal' }).waitFor()
      expect([path, await page.getByRole('dialog').count()]).toEqual([path, 0])
    }
  })

  test('lets two people redrive a failed payment, and links the items to each other', async () => {
    const { outboxId, instructionId } = await enqueueFailed(fixture.db)
    await olga.goTo('dlq')
    await rowOf(olga.page, instructionId).getByRole('button', { name: 'Redrive' }).click()
    await giveReason(olga.page, 'Propose the redrive')
    await rowOf(olga.page, instructionId).getByRole('button', { name: 'Approve' }).click()
    await olga.page.getByRole('button', { name: 'Approve: redrive' }).click()
    await olga.page.getByRole('dialog').getByText('SECOND_PERSON_REQUIRED').waitFor()
    await olga.page.keyboard.press('Escape')

    await pavel.goTo(`payments/${outboxId}`)
    await pavel.page.getByRole('button', { name: 'Approve' }).click()
    await pavel.page.getByRole('button', { name: 'Approve: redrive' }).click()
    await pavel.page.getByText('Redriven as', { exact: true }).waitFor()
    await pavel.page.locator('dt:text-is("Redriven as") + dd a').click()
    await pavel.page.locator('dt:text-is("Redrive of") + dd a').click()
    await expect.poll(() => pavel.page.url()).toContain(outboxId)
    expect(await stateOf(outboxId)).toBe('FAILED')
  })
})

test('one person proposes one decision and reason for several holds; another approves them all', async () => {
  const railType = 'rail-after-a-restore'
  const items = [await enqueueUnknown(fixture.db, { railType }), await enqueueUnknown(fixture.db, { railType })]
  const { page, goTo } = olga
  await goTo(`holds?rail=${railType}`)
  await actOnAll(page, 'Resolve 2')
  const dialog = page.getByRole('dialog')
  for (const { instructionId } of items) await dialog.getByText(instructionId).waitFor()
  expect(await dialog.getByRole('radio', { checked: true }).count()).toBe(0)
  expect(await dialog.getByRole('radio', { name: 'It was paid' }).count()).toBe(0)
  await dialog.getByRole('radio', { name: 'It was not paid and will not be' }).check()
  await giveReason(page, 'Propose: it was not paid (2)', 'not in the bank’s book')
  await expect.poll(() => page.locator('.proposal').count()).toBe(2)
  await pavel.goTo(`holds?rail=${railType}`)
  await actOnAll(pavel.page, 'Approve 2')
  await pavel.page.getByRole('dialog').getByRole('button', { name: 'Approve 2', exact: true }).click()
  await pavel.page.getByText('No matches').waitFor()
  for (const { outboxId } of items) expect(await stateOf(outboxId)).toBe('FAILED')
})

test('bulk dialogs list each held payment with hold reason, proposal and effect of the proposal', async () => {
  const railType = 'rail-of-two-decisions'
  await declareOutboxRails(fixture.db.as('symphony_executor'), [{ type: railType, money: true, fields: [] }], 'w', {
    serving: true,
  })
  const retried = await enqueueUnknown(fixture.db, { railType, payload: PAYLOAD })
  const ended = await enqueue(fixture.db, { railType, payload: PAYLOAD })
  const { control } = await apiRolesOf(fixture.db)
  await placeOutboxHold(control({ owner: 'pavel', apiKey: null }), ended.outboxId, 'the payee called')
  const isHeld = {
    retried: `${retried.instructionId} Outcome unknown 12.50 EUR to ••••3000 Held: no answer`,
    ended: `${ended.instructionId} 12.50 EUR to ••••3000 Held: the payee called`,
  }
  await olga.goTo(`holds?rail=${railType}`)
  await actOnAll(olga.page, 'Resolve 2')
  expect(await lineOf(olga, retried.instructionId)).toBe(isHeld.retried)
  expect(await lineOf(olga, ended.instructionId)).toBe(isHeld.ended)
  await olga.page.keyboard.press('Escape')

  const proposer = control({ owner: 'olga', apiKey: null })
  await resolveOutboxHold(proposer, retried.outboxId, 'RETRY', 'not in the book', null)
  await resolveOutboxHold(proposer, ended.outboxId, 'FAILED', 'cancelled', null)
  await pavel.goTo(`holds?rail=${railType}`)
  await actOnAll(pavel.page, 'Approve 2')
  expect(await lineOf(pavel, retried.instructionId)).toBe(
    `${isHeld.retried} olga proposes: send again “not in the book”. A worker sends the payment again. If the rail has paid it already, it pays twice.`,
  )
  expect(await lineOf(pavel, ended.instructionId)).toBe(
    `${isHeld.ended} olga proposes: it was not paid “cancelled”. The payment ends as failed. Nothing is sent. This is final.`,
  )
  // The server asks for a third person for one of them.
  let approvals = 0
  await pavel.page.route('**/approve', (route) => route.fulfill({ json: { applied: (approvals += 1) === 1 } }))
  await pavel.page.getByRole('dialog').getByRole('button', { name: 'Approve 2', exact: true }).click()
  await pavel.page.getByRole('dialog').waitFor({ state: 'detached' })
  await pavel.page.unroute('**/approve')
  expect(await pavel.page.getByRole('status').innerText()).toBe('1 approved and applied, 1 needs one more person.')
})

/** Returns the line of a payment in the open dialog, without " via LOGIN". */
async function lineOf({ page }: OpenPage, instructionId: string): Promise<string> {
  const line = page.getByRole('dialog').getByRole('listitem').filter({ hasText: instructionId })
  return (await line.innerText()).replaceAll(/ via \S+|(?<=\s)\s+/g, '').replaceAll(/\s/g, ' ')
}

test('a dialog whose code cannot be loaded shows an error and changes nothing', async () => {
  const { outboxId } = await enqueue(fixture.db)
  const { page, goTo } = await fixture.open(await fixture.tokenOf('nora'))
  await page.route('**/actions-*.js', (route) => route.abort())
  await goTo(`payments/${outboxId}`)
  await page.getByRole('button', { name: 'Hold', exact: true }).click()
  await page.getByRole('dialog').getByText('Nothing was changed. Reload the page and try again.').waitFor()
  expect(await stateOf(outboxId)).toBe('DUE')
  await page.context().close()
})

test('a bulk retry shows how many payments are retried now and how many need an approval first', async () => {
  const railType = 'rail-with-both-kinds'
  const known = await enqueue(fixture.db, { railType })
  await placeOutboxHold(
    (await apiRolesOf(fixture.db)).control({ owner: 'pavel', apiKey: null }),
    known.outboxId,
    'wait',
  )
  const unknown = await enqueueUnknown(fixture.db, { railType })
  const { page, goTo } = olga
  await goTo(`holds?rail=${railType}`)
  await actOnAll(page, 'Resolve 2')
  await page.getByRole('dialog').getByRole('radio', { name: 'Send it again' }).check()
  await giveReason(page, 'Send 1 again now, propose 1')
  expect(await page.getByRole('status').innerText()).toBe(
    '1 may be sent again. 1 is proposed. Another person must approve it.',
  )
  await page.locator('.proposal').waitFor()
  expect([await stateOf(known.outboxId), await stateOf(unknown.outboxId)]).toEqual(['DUE', 'HELD'])
  await goTo(`payments?q=${known.instructionId}`)
  await page.getByText('1 payment', { exact: true }).waitFor()
})

test('a new payment on a real rail needs all fields, a confirmation and a second person', async () => {
  const { railType, instructionId: other } = await enqueue(fixture.db, { railType: 'a-real-rail' })
  const { page, goTo } = olga
  await goTo('')
  await rowOf(page, railType).waitFor()
  await goTo('payments')
  await page.getByRole('button', { name: 'New payment' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Rail').selectOption(railType)
  for (const label of ['Instruction id', 'Amount', 'Currency', 'Destination', 'Participant']) {
    expect([label, await dialog.getByLabel(label).inputValue()]).toEqual([label, ''])
  }
  const instructionId = 'rent-2026-11'
  const counted = async () =>
    (await fixture.db.queryNoRole('SELECT 1 FROM payment_outbox_identities WHERE instruction_id = $1', [instructionId]))
      .rows.length
  await dialog.getByLabel('Amount').fill('950.00')
  await dialog.getByLabel('Currency', { exact: true }).fill('EUR')
  await dialog.getByLabel('Destination').fill(PAYLOAD.destination)
  await dialog.getByLabel('Participant', { exact: true }).fill('acme')
  // The form does not continue with an empty instruction id.
  await dialog.getByRole('button', { name: 'Continue' }).click()
  expect(await dialog.getByRole('button', { name: 'Propose this payment' }).count()).toBe(0)
  const id = dialog.getByLabel('Instruction id')
  // A header of the request contains the id, and cannot contain this dash.
  await id.fill('rent–2026-11')
  await page.keyboard.press('Enter')
  expect(await dialog.getByRole('button', { name: 'Propose this payment' }).count()).toBe(0)
  expect(await dialog.locator('input:invalid').getAttribute('name')).toBe('instruction')
  await id.fill(` ${instructionId} `)
  await page.keyboard.press('Enter')
  await dialog.getByText('This is not a simulation.').waitFor()
  expect(await dialog.innerText()).toMatch(
    /or two above a limit that asks for two, a worker sends it[^]*950\.00 EUR[^]*DE89370400440532013000[^]*a-real-rail[^]*acme[^]*rent-2026-11/,
  )
  // The button that enqueues does not have the focus, so a second Enter goes back to the form.
  await page.keyboard.press('Enter')
  expect([await dialog.getByLabel('Amount').inputValue(), await counted()]).toEqual(['950.00', 0])
  await dialog.getByRole('button', { name: 'Continue' }).click()
  await dialog.getByLabel('Reason').fill('the rent of November')
  await dialog.getByRole('button', { name: 'Propose this payment' }).click()
  await page.getByText(`${instructionId} is proposed. ${APPROVERS}`).waitFor()
  await page.locator('main h1 + [data-state=HELD]').waitFor()
  expect(await page.locator('.timeline').innerText()).toContain('entered above a limit that asks for two')
  await page.getByText('You proposed it, so another person must approve it').waitFor()
  expect([await counted(), await claimOn(fixture.db, railType)]).toMatchObject([1, [{ instructionId: other }]])
  await pavel.goTo('holds')
  await rowOf(pavel.page, instructionId).getByRole('button', { name: 'Approve' }).click()
  await pavel.page.getByRole('button', { name: 'Approve: send', exact: true }).click()
  await page.locator('main h1 + [data-state=DUE]').waitFor()
})

test('the form of a new payment keeps the chosen rail when its last payment ends', async () => {
  const { railType } = await enqueue(fixture.db)
  const { page, goTo } = olga
  await goTo('')
  await rowOf(page, railType).waitFor()
  await goTo('payments')
  await page.getByRole('button', { name: 'New payment' }).click()
  const rail = page.getByRole('dialog').getByLabel('Rail')
  await rail.selectOption(railType)
  await complete(fixture.db, await claimOnly(fixture.db, railType), { state: 'DISPATCHED', railReference: 'RF-1' })
  const later = await enqueue(fixture.db)
  await rail.locator('option', { hasText: later.railType }).waitFor({ state: 'attached' })
  expect(await rail.inputValue()).toBe(railType)
  await page.keyboard.press('Escape')
})

test('two people correct and replace a dead letter with a bad payload; it has no Redrive button', async () => {
  const railType = MASKED_RAIL
  const rails = [{ type: railType, money: true, fields: MASKED_FIELDS }]
  await declareOutboxRails(fixture.db.as('symphony_executor'), rails, 'w', { serving: true })
  const bad = await enqueue(fixture.db, { railType, payload: { ...PAYLOAD, amount: '12.505' } })
  await complete(fixture.db, await claimOnly(fixture.db, railType), { state: 'FAILED', errorCode: 'INVALID_AMOUNT' })
  const { page, goTo } = olga
  await goTo(`dlq?rail=${railType}`)
  expect(await rowOf(page, bad.instructionId).getByRole('button', { name: 'Redrive' }).count()).toBe(0)
  await page.getByRole('button', { name: `Correct and replace ${bad.instructionId}` }).click()
  const dialog = page.getByRole('dialog')
  const payload = dialog.getByLabel('Payload')
  expect(JSON.parse(await payload.inputValue())).toEqual({ ...PAYLOAD, amount: '12.505', destination: 'ENTER ANEW' })
  await dialog.getByText(APPROVERS).waitFor()
  await dialog.getByLabel('New instruction id').fill('corrected-1')
  await dialog.getByLabel('Reason').fill('three decimals')
  const propose = dialog.getByRole('button', { name: 'Propose the replacement' })
  await propose.click()
  await dialog.getByRole('alert').getByText('A value is missing').waitFor()
  await payload.fill(JSON.stringify(PAYLOAD))
  await propose.click()
  await page.getByText(`corrected-1 is proposed. ${APPROVERS}`).waitFor()
  await page.getByRole('heading', { name: 'corrected-1' }).waitFor()
  await page.locator('main h1 + [data-state=HELD]').waitFor()
  expect(await page.locator('dt:text-is("Replaces") + dd a').getAttribute('href')).toContain(bad.outboxId)
  await pavel.goTo('holds')
  await rowOf(pavel.page, 'corrected-1').getByRole('button', { name: 'Approve' }).click()
  await pavel.page.getByRole('button', { name: 'Approve: send', exact: true }).click()
  await page.locator('main h1 + [data-state=DUE]').waitFor()
  expect(await claimOnly(fixture.db, railType)).toMatchObject({ instructionId: 'corrected-1', payload: PAYLOAD })
  const replacement = page.url().split('/').at(-1)!
  await goTo(`dlq?rail=${railType}`)
  const row = rowOf(page, bad.instructionId)
  expect(await row.getByText('replaced by').getByRole('link').getAttribute('href')).toContain(replacement)
  expect(await row.getByRole('button', { name: 'Correct' }).count()).toBe(0)
})

test('two people redrive many dead letters; one that is refused does not stop the other redrives', async () => {
  const railType = 'rail-of-an-outage'
  const items = [await enqueueFailed(fixture.db, { railType }), await enqueueFailed(fixture.db, { railType })]
  const paid = await enqueueFailed(fixture.db, { railType })
  await enqueueFailed(fixture.db)
  // A late report says that the rail paid this item.
  await fixture.db.queryNoRole(
    `INSERT INTO payment_outbox_events (event_id, outbox_id, event_no, event_type, actor, detail)
     VALUES (gen_random_uuid(), $1, 99, 'TERMINAL_BLOCKED', 'w', '{"state": "DISPATCHED"}')`,
    [paid.outboxId],
  )
  const { page, goTo } = olga
  await goTo(`dlq?rail=${railType}`)
  await actOnAll(page, 'Redrive 3')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Reason').fill('the bank is back')
  await dialog.getByRole('button', { name: 'Propose 3 redrives' }).click()
  await dialog.getByRole('alert').getByText('1 of 3 was refused.').waitFor()
  await page.keyboard.press('Escape')
  await rowOf(page, paid.instructionId).getByRole('button', { name: 'Redrive' }).waitFor()
  // The refused item stays selected. The page offers no button to approve one's own proposals.
  await page.getByText('1 selected', { exact: true }).waitFor()
  await expect.poll(() => page.locator('.proposal').count()).toBe(2)
  await page.getByRole('group', { name: 'Selected payments' }).getByRole('checkbox').check()
  expect(await page.getByRole('button', { name: /^Approve \d/ }).count()).toBe(0)

  await pavel.goTo(`dlq?rail=${railType}`)
  await actOnAll(pavel.page, 'Approve 2')
  await pavel.page.getByRole('dialog').getByText('2 × redrive').waitFor()
  await pavel.page.getByRole('dialog').getByRole('button', { name: 'Approve 2', exact: true }).click()
  await expect.poll(() => pavel.page.getByText('redriven as').count()).toBe(2)
  const { rows } = await fixture.db.queryNoRole<{ id: string }>(
    'SELECT redrive_of AS id FROM payment_outbox_identities WHERE rail_type = $1 AND redrive_of IS NOT NULL ORDER BY 1',
    [railType],
  )
  expect(rows.map(({ id }) => id)).toEqual(items.map(({ outboxId }) => outboxId))
})

test('bulk actions hold, release or cancel the selection and list refusals; Stop skips the rest', async () => {
  const railType = 'rail-with-selection'
  const items = [
    await enqueue(fixture.db, { railType }),
    await enqueue(fixture.db, { railType }),
    await enqueue(fixture.db, { railType }),
  ]
  const [first, second, third] = items.map(({ outboxId }) => outboxId)
  const states = () => Promise.all(items.map(({ outboxId }) => stateOf(outboxId)))
  const { page, goTo } = olga
  await goTo(`payments?rail=${railType}`)
  await page.locator('.vlist-row').nth(2).waitFor()
  // The keyboard selects the newest payment: j focuses its row, x selects it.
  await page.keyboard.press('j')
  await page.keyboard.press('x')
  await page.getByText('1 selected', { exact: true }).waitFor()
  expect(await page.getByRole('checkbox', { name: `Select ${items[2]?.instructionId}` }).isChecked()).toBe(true)
  await page.getByRole('group', { name: 'Selected payments' }).getByRole('checkbox').check()
  await page.getByRole('button', { name: 'Hold 3', exact: true }).click()
  await placeOutboxHold((await apiRolesOf(fixture.db)).control({ owner: 'pavel', apiKey: null }), second!, 'mine')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Reason').fill('the bank asked')
  await dialog.getByRole('button', { name: 'Hold 3 payments' }).click()
  await dialog.getByRole('alert').getByText('1 of 3 was refused.').waitFor()
  const refused = dialog.getByRole('list', { name: 'Refused' })
  expect(await refused.innerText()).toMatch(
    new RegExp(`${items[1]?.instructionId}[^]*DECISION_REFUSED[^]*held already`),
  )
  await page.keyboard.press('Enter')
  await dialog.waitFor({ state: 'detached' })
  expect(await states()).toEqual(['HELD', 'HELD', 'HELD'])
  const reasons = await Promise.all([first!, third!].map((outboxId) => eventRows(fixture.db, outboxId)))
  for (const [event] of reasons) expect(event).toMatchObject({ actor: 'olga', detail: { reason: 'the bank asked' } })

  await goTo(`holds?rail=${railType}`)
  await rowOf(page, items[0]!.instructionId).getByRole('checkbox').check()
  await page.getByRole('button', { name: 'Release 1', exact: true }).click()
  await giveReason(page, 'Release 1 payment')
  await expect.poll(states).toEqual(['DUE', 'HELD', 'HELD'])

  // A request without an answer may have been carried out.
  await goTo(`payments?rail=${railType}`)
  await page.route('**/hold', (route) => route.abort())
  await actOnAll(page, 'Hold 1')
  await dialog.getByLabel('Reason').fill('the bank asked')
  await dialog.getByRole('button', { name: 'Hold 1 payment' }).click()
  await dialog.getByText('The action may have been carried out. Check before you repeat it.').waitFor()
  await dialog.getByText(`0 of 1 done, ${items[0]!.instructionId} failed.`).waitFor()
  await page.keyboard.press('Escape')
  await page.unroute('**/hold')
  await goTo('holds')

  // The second request waits until the person has pressed Stop.
  const stopped = gate()
  let requests = 0
  await page.route('**/cancel', async (route) => {
    requests += 1
    if (requests === 2) await stopped.opened
    await route.continue()
  })
  await goTo(`payments?rail=${railType}`)
  await actOnAll(page, 'Cancel 3')
  await dialog.getByLabel('Reason').fill('the order was cancelled')
  await dialog.getByRole('button', { name: 'Cancel 3 payments' }).click()
  await dialog.getByText('1 of 3 done.').waitFor()
  await dialog.getByRole('button', { name: 'Stop' }).click()
  stopped.open()
  await dialog.getByText('2 of 3 done, 1 not tried.').waitFor()
  await page.keyboard.press('Escape')
  await page.unroute('**/cancel')
  expect([await states(), requests]).toEqual([['DUE', 'FAILED', 'FAILED'], 2])
})

test('the Payments page offers no action for a row whose state changed after it was read', async () => {
  const { railType, outboxId } = await enqueue(fixture.db)
  const { page, goTo } = olga
  await goTo(`payments?rail=${railType}`)
  await page.locator('.vlist-row [data-state=DUE]').waitFor()
  await page.getByRole('checkbox', { name: /^Select all / }).check()
  await page.getByRole('button', { name: 'Cancel 1' }).waitFor()
  await page.route('**/v1/outbox?*', (route) => route.abort())
  const { control } = await apiRolesOf(fixture.db)
  await cancelOutboxItem(control({ owner: 'pavel', apiKey: null }), outboxId, 'the order was cancelled')
  await page.locator('.vlist-row [data-state=FAILED]').waitFor()
  expect(await page.getByRole('group', { name: 'Selected payments' }).getByRole('button').allInnerTexts()).toEqual([])
  await page.unroute('**/v1/outbox?*')
})

test('a rail is paused and resumed from the overview, with actor and reason', async () => {
  const { railType } = await enqueue(fixture.db)
  const { page, goTo } = olga
  await goTo('')
  await page.getByRole('button', { name: `Pause the rail ${railType}` }).click()
  await giveReason(page, 'Pause the rail', 'maintenance of the bank')
  await rowOf(page, railType).getByText('maintenance of the bank · olga').waitFor()
  expect(await pausesOf(railType)).toEqual([{ paused_by: 'olga', reason: 'maintenance of the bank' }])
  await page.getByRole('button', { name: `Resume the rail ${railType}` }).click()
  await giveReason(page, 'Resume the rail')
  await page.getByRole('button', { name: `Pause the rail ${railType}` }).waitFor()
  expect(await pausesOf(railType)).toEqual([])
})

test('an open pause dialog of a rail still pauses it when another operator pauses it meanwhile', async () => {
  const { railType } = await enqueue(fixture.db)
  const { page, goTo } = olga
  await goTo(`rails/${railType}`)
  await page.getByRole('button', { name: 'Pause' }).click()
  await page.getByLabel('Reason').fill('maintenance of the bank')
  const { control } = await apiRolesOf(fixture.db)
  await pauseOutbox(control({ owner: 'pavel', apiKey: null }), 'rail', railType, 'pavel was first')
  await page.getByText('pavel was first').waitFor()
  await page.locator('dialog [type=submit]').click()
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  expect(await pausesOf(railType)).toHaveLength(1)
})

async function pausesOf(name: string): Promise<object[]> {
  const { rows } = await fixture.db.queryNoRole<object>('SELECT paused_by, reason FROM outbox_pauses WHERE name = $1', [
    name,
  ])
  return rows
}

describe('the Dispatch page', () => {
  test('explains and lifts a freeze, and an alert links to it', async () => {
    const { railType } = await enqueue(fixture.db)
    expect(await claimOn(fixture.db, railType)).toHaveLength(1)
    await freezeDispatch(
      (await apiRolesOf(fixture.db)).control({ owner: 'pavel', apiKey: null }),
      'snapshot of 03:00 restored',
    )
    alerts = [firing('SymphonyDispatchFrozen')]
    const { page, goTo } = olga
    await goTo('payments')
    // The badge and the tab title show the alert on every page.
    await page.getByRole('link', { name: 'Overview 1 alert fires' }).first().click()
    await expect.poll(() => page.title()).toBe('(1) Overview · Symphony')
    await page.getByRole('region', { name: 'Alerts' }).getByRole('link', { name: 'Why it is frozen' }).click()
    const freeze = page.getByRole('region', { name: 'Freeze' })
    await freeze.getByText('Dispatch is frozen: nothing is sent.').waitFor()
    expect(await freeze.innerText()).toMatch(
      /An operator froze dispatch\.[^]*OPERATOR snapshot of 03:00 restored[^]*pavel/,
    )
    await freeze.getByRole('heading', { name: 'Before lifting' }).waitFor()

    await freeze.getByRole('button', { name: 'Lift the freeze' }).click()
    alerts = []
    await giveReason(page, 'Lift the freeze', 'both books agree up to 11:40')
    await freeze.getByText('Not frozen').waitFor()
    expect(await freeze.innerText()).toMatch(/Last lifted[^]*by olga: both books agree up to 11:40/)
    expect(await readDispatchEpoch(fixture.db.as('symphony_readonly'))).toMatchObject({
      frozen: false,
      liftedBy: 'olga',
    })
  })

  test('lets an operator freeze dispatch, in a dialog that explains the effect', async () => {
    const { page, goTo } = olga
    await goTo('dispatch')
    await page.getByRole('button', { name: 'Freeze dispatch' }).click()
    await page.getByRole('dialog').getByText('the outcome of every pending payment becomes unknown').waitFor()
    await giveReason(page, 'Freeze it', 'restored without a worker alive')
    await page.getByText('OPERATOR restored without a worker alive').waitFor()
    expect(await readDispatchEpoch(fixture.db.as('symphony_readonly'))).toMatchObject({
      frozen: true,
      frozenBy: 'olga',
    })
    await page.getByRole('button', { name: 'Lift the freeze' }).click()
    await giveReason(page, 'Lift the freeze')
    await page.getByText('Not frozen').waitFor()
  })

  test('keeps an open freeze dialog a freeze when another operator freezes dispatch meanwhile', async () => {
    const control = (await apiRolesOf(fixture.db)).control({ owner: 'pavel', apiKey: null })
    const { page, goTo } = olga
    await goTo('dispatch')
    await page.getByRole('button', { name: 'Freeze dispatch' }).click()
    await page.getByLabel('Reason').fill('the server was restored')
    await freezeDispatch(control, 'pavel was first')
    await page.getByText('OPERATOR pavel was first').waitFor()
    await page.locator('dialog [type=submit]').click()
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    expect(await page.getByRole('status').innerText()).toBe('Dispatch was frozen already.')
    expect(await readDispatchEpoch(control)).toMatchObject({ frozen: true })
    await liftDispatchFreeze(control, 'end of the test')
  })

  test('pauses and resumes a participant or stream; a read key sees the pause and no button', async () => {
    const { participantId } = await enqueue(fixture.db)
    const { page, goTo } = olga
    await goTo('dispatch')
    await page.getByRole('button', { name: 'New pause' }).click()
    await page.getByLabel('All of its payments').check()
    await page.getByLabel('Id of the participant').fill(participantId)
    await giveReason(page, 'Pause it', 'under review')
    await rowOf(page, participantId).getByText('under review').waitFor()
    const { key } = await createKey(fixture.db, { owner: 'rita', scopes: ['read'] })
    const rita = await fixture.open(key)
    await rita.goTo('dispatch')
    expect(await rowOf(rita.page, participantId).innerText()).toMatch(/under review\s+olga/)
    expect(await rita.page.locator('main button').count()).toBe(0)
    await rita.page.context().close()
    await page.getByRole('button', { name: `Resume participant ${participantId}` }).click()
    await giveReason(page, 'Resume it')
    await rowOf(page, participantId).waitFor({ state: 'detached' })
    expect(await pausesOf(participantId)).toEqual([])
    await page.getByRole('button', { name: 'New pause' }).click()
    await page.getByRole('radio', { name: /^An ordered stream/ }).check()
    await page.getByLabel('Id of the participant').fill(participantId)
    await giveReason(page, 'Pause it', 'one of them is disputed')
    await page.getByRole('button', { name: `Resume stream ${participantId}` }).waitFor()
  })
})

test('a pause of everything shows a banner on every page; a read key sees no Resume link in it', async () => {
  const { railType } = await enqueue(fixture.db)
  const { page, goTo } = olga
  await goTo('dispatch')
  await page.getByRole('button', { name: 'New pause' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('radio', { name: /^Everything/ }).check()
  await dialog.getByLabel('Reason').fill('the bank reports double bookings')
  // The dialog requires the checkbox, and its only text field is the reason.
  await dialog.getByRole('button', { name: 'Pause it' }).click()
  expect(await dialog.getByRole('textbox').count()).toBe(1)
  expect(await pausesOf('all')).toEqual([])
  await dialog.getByLabel('Stop every rail').check()
  await giveReason(page, 'Pause it', 'the bank reports double bookings')
  expect(await page.getByRole('status').innerText()).toBe('Everything is paused.')
  expect(await claimOn(fixture.db, railType)).toEqual([])

  const { key } = await createKey(fixture.db, { owner: 'rita', scopes: ['read'] })
  const rita = await fixture.open(key)
  const withHeading = DASHBOARD_PAGES.filter(({ heading }) => heading !== undefined)
  for (const [visitor, links, pages] of [
    [olga, ['Resume'], withHeading],
    [rita, [], withHeading.slice(0, 2)],
  ] as const) {
    for (const { name, path } of pages) {
      await visitor.goTo(path(''))
      const banner = bannerOn(visitor.page)
      await banner.waitFor()
      const seen = { name, text: await banner.innerText(), links: await banner.getByRole('link').allInnerTexts() }
      const text = expect.stringMatching(/no payment and no message is sent\. the bank reports double bookings by olga/)
      expect(seen).toEqual({ name, text, links })
      expect(await banner.getByRole('button').count()).toBe(0)
    }
  }
  await rita.goTo('dispatch')
  await rowOf(rita.page, 'Everything').waitFor()
  expect(await rita.page.getByRole('button', { name: 'Resume' }).count()).toBe(0)

  await bannerOn(page).getByRole('link', { name: 'Resume' }).click()
  await page.getByRole('button', { name: 'Resume everything' }).click()
  await giveReason(page, 'Resume everything', 'the bank has found its fault')
  for (const visitor of [olga, rita]) await bannerOn(visitor.page).waitFor({ state: 'detached' })
  await rita.page.context().close()
  expect(await claimOn(fixture.db, railType)).toHaveLength(1)
  expect(rita.browserErrors()).toEqual([])
  await rita.page.context().close()
})

function bannerOn(page: Page): Locator {
  return page.getByRole('region', { name: 'Everything is paused' })
}

function firing(name: string): Alert {
  const { severity, summary, firstLook, remedy, forSeconds } = ALERT_RULES.find((rule) => rule.name === name)!
  const since = '2026-01-31T12:00:00.000Z'
  return { name, state: 'firing', severity, summary, firstLook, remedy, value: 1, since, forSeconds }
}

test('a timer is cancelled after a confirmation', async () => {
  const { timerId, topic } = await createTimer(fixture.db, { dueAt: new Date('2099-01-01T00:00:00Z') })
  const { page, goTo } = olga
  await goTo('scheduler')
  await page.getByRole('button', { name: `Cancel the timer ${timerId}` }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('cannot be restored').waitFor()
  await dialog.getByRole('button', { name: 'Cancel the timer' }).click()
  await rowOf(page, topic).waitFor({ state: 'detached' })
  const { rows } = await fixture.db.queryNoRole('SELECT state FROM scheduler_timers WHERE timer_id = $1', [timerId])
  expect(rows).toEqual([{ state: 'CANCELLED' }])
})

test('a job is paused, resumed and run at once, and shows its history', async () => {
  const name = await createJob(fixture.db)
  const { page, goTo } = olga
  await goTo('scheduler')
  await page.getByRole('button', { name: `Pause ${name}` }).click()
  await rowOf(page, name).locator('[data-state=PAUSED]').waitFor()
  await page.getByRole('button', { name: `Resume ${name}` }).click()
  await rowOf(page, name).locator('[data-state=ACTIVE]').waitFor()
  await page.getByRole('button', { name: `Run now: ${name}` }).click()
  await expect.poll(() => page.getByRole('status').innerText()).toContain('runs now')
  await page.getByRole('button', { name: `History of ${name}` }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('row', { name: 'olga' }).waitFor()
  await dialog.getByLabel('Scheduled: range of time').selectOption('custom')
  await dialog.getByLabel('Scheduled before').fill('2020-01-01T00:00')
  await dialog.getByText('No runs match').waitFor()
  await dialog.getByLabel('Scheduled: range of time').selectOption('1h')
  await dialog.getByRole('row', { name: 'olga' }).waitFor()
  await page.keyboard.press('Escape')
})

test('a job and a timer are created in the dashboard; a taken name and a bad payload are refused', async () => {
  const taken = await createJob(fixture.db)
  const { page, goTo } = olga
  await goTo('scheduler')
  await rowOf(page, taken).waitFor()
  await page.getByRole('button', { name: 'New job' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Name').fill(taken)
  await dialog.getByLabel('Cron expression').fill('0 25 * * *')
  await dialog.getByLabel('Topic').fill('reports')
  await dialog.getByLabel('Payload').fill('{"report": }')
  const create = dialog.getByRole('button', { name: 'Create the job' })
  const alert = dialog.getByRole('alert')
  await create.click()
  await alert.getByText('A job of this name exists').waitFor()
  await dialog.getByLabel('Name').fill('made-in-the-browser')
  await create.click()
  await alert.getByText('The payload is not a JSON object').waitFor()
  // The server refuses a payload that JSON.parse would change, so the page must send the text as typed.
  await dialog.getByLabel('Payload').fill('{"report": "daily", "report": "weekly"}')
  await create.click()

  await alert.getByText('the same key twice').waitFor()
  await dialog.getByLabel('Payload').fill('{"report": "daily"}')
  await create.click()
  await alert.getByText('cron').waitFor()
  await dialog.getByLabel('Cron expression').fill('0 2 * * *')
  await create.click()
  await rowOf(page, 'made-in-the-browser').waitFor()

  await page.getByRole('button', { name: 'New timer' }).click()
  await dialog.getByLabel('Due').fill('2098-12-31T23:30')
  await dialog.getByLabel('Topic').fill('reminders-of-olga')
  await dialog.getByRole('button', { name: 'Schedule the timer' }).click()
  await rowOf(page, 'reminders-of-olga').waitFor()
  const { rows } = await fixture.db.queryNoRole(
    `SELECT due_at, payload FROM scheduler_timers WHERE topic = 'reminders-of-olga'`,
  )
  expect(rows).toEqual([{ due_at: new Date('2098-12-31T23:30:00Z'), payload: {} }])
})

test('a dead letter of the inbox is revived with a reason', async () => {
  const claim = await enqueuedAndClaimed(fixture.db, { messageId: 'evt_17' })
  await failInboxMessages(fixture.db.as('symphony_executor'), [{ ...claim, error: 'no such order' }], 'worker-1')
  const { page, goTo } = olga
  // The page opens with the waiting messages and links to the dead ones.
  await goTo('inbox')
  expect(await page.getByLabel('State').inputValue()).toBe('seen')
  await page.getByRole('link', { name: 'Show them' }).click()
  await rowOf(page, 'evt_17').getByRole('button', { name: 'Revive' }).click()
  await giveReason(page, 'Revive it')
  await rowOf(page, 'evt_17').waitFor({ state: 'detached' })
  await page.getByLabel('State').selectOption('seen')
  await rowOf(page, 'evt_17').waitFor()
  expect(await rowOfMessage(fixture.db, claim)).toMatchObject({ state: 'seen', attempt_count: 0 })
})

test('the Payments page filters, counts, sorts and downloads payments', async () => {
  const { db } = fixture
  const own = { railType: 'downloaded' }
  await declareOutboxRails(db.as('symphony_executor'), [{ type: own.railType, money: true, fields: [] }], 'w', {
    serving: true,
  })
  const { outboxId } = await enqueueFailed(db, { ...own, instructionId: 'find-1', payload: PAYLOAD })
  await enqueue(db, { ...own, instructionId: 'find-2', payload: { ...PAYLOAD, amount: '99', destination: 'DE1' } })
  await complete(db, await claimOnly(db, own.railType), { state: 'DISPATCHED', railReference: 'FOUND-REF-77' })
  await enqueue(db, { ...own, instructionId: 'find-3', participantId: 'finder', payload: { destination: 'DE1' } })
  await sealLedger(db)
  while ((await new LedgerProjector(db.as('symphony_executor')).runOnce()).more);
  while ((await new DestinationHasher(db.as('symphony_control'), destinationHash).runOnce()).more);
  const { page, goTo } = olga
  await goTo('payments?rail=downloaded')
  const expectList = async (...ids: string[]) => {
    await expect.poll(() => page.locator('.vlist-scroll a[title]').allInnerTexts()).toEqual(ids)
  }
  const tryField = async (label: string, text: string, ids: string[]) => {
    const field = page.getByLabel(label, { exact: true })
    for (const [value, found] of [
      [text, ids],
      ['', ['find-3', 'find-2', 'find-1']],
    ] as const) {
      await field.fill(value)
      await field.blur()
      await expectList(...found)
    }
  }
  const tryChoice = async (label: string, value: string, ids: string[]) => {
    await page.getByLabel(label, { exact: true }).selectOption(value)
    await expectList(...ids)
    await page.getByLabel(label, { exact: true }).selectOption('')
    await expectList('find-3', 'find-2', 'find-1')
  }
  await expectList('find-3', 'find-2', 'find-1')
  await expect
    .poll(() => page.getByRole('list', { name: 'Payments per state' }).innerText())
    .toMatch(/Pending\s+1[^]*Dispatched\s+1[^]*Failed\s+1/)
  const search = 'Search payments by id, instruction, key or rail reference'
  await tryField(search, 'FOUND-REF', ['find-2'])
  await tryField(search, 'find-3', ['find-3'])
  await tryField(search, outboxId.slice(0, 20), ['find-1'])
  await tryField('Participant', 'finder', ['find-3'])
  await tryField('Destination', 'de89 3704 0044 0532 0130 00', ['find-1'])
  expect(page.url()).not.toContain('de89')
  await tryChoice('State', 'DISPATCHED', ['find-2'])
  await tryChoice('Order', 'oldest', ['find-1', 'find-2', 'find-3'])
  await tryChoice('Created: range of time', '1h', ['find-3', 'find-2', 'find-1'])
  await goTo('payments?rail=downloaded&range=custom&to=2020-01-01T00:00:00Z')
  await expectList()
  await goTo('payments?rail=downloaded')
  // The order "oldest first" does not exist within a currency.
  await page.getByLabel('Order').selectOption('oldest')
  await expectList('find-1', 'find-2', 'find-3')
  await page.getByLabel('Currency').fill('eur')
  await expectList('find-2', 'find-1')
  await page.getByLabel('Amount to').fill('50')
  await expectList('find-1')
  const download = async (format: string) => {
    await page.getByRole('button', { name: 'Export' }).click()
    const downloading = page.waitForEvent('download')
    await page.getByRole('dialog').getByRole('button', { name: format }).click()
    const file = await downloading
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    return { name: file.suggestedFilename(), text: await readFile(await file.path(), 'utf8') }
  }
  const csv = await download('CSV')
  const [header, ...rows] = csv.text.trimEnd().split('\r\n')
  expect([csv.name, header]).toEqual(['outbox.csv', expect.stringMatching(/^outboxId,/)])
  expect(rows).toEqual([expect.stringContaining(outboxId)])
  const { name, text } = await download('NDJSON')
  expect([name, JSON.parse(text)]).toEqual(['outbox.ndjson', expect.objectContaining({ outboxId })])
  // A link to the list without filters also empties the fields, one that was just typed included.
  await page.getByLabel(search).fill('find-1')
  await page.getByLabel('Participant', { exact: true }).fill('finder')
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Payments' }).click()
  for (const label of [search, 'Participant', 'Currency']) {
    await expect.poll(() => page.getByLabel(label, { exact: true }).inputValue()).toBe('')
  }
  await page.waitForTimeout(300)
  expect(page.url()).toMatch(/#\/payments$/)
})

test('a contradiction is listed with both rail references until an operator reviews it', async () => {
  const eventId = await createContradiction(fixture.db)
  const { page, goTo } = olga
  await goTo('contradictions')
  const row = rowOf(page, 'ref-2')
  expect(await row.innerText()).toContain('ref-1')
  await row.getByRole('button', { name: 'Review' }).click()
  const dialogText = await page.getByRole('dialog').innerText()
  expect(dialogText).toMatch(/The ledger records dispatched \(ref-\d\); .+ reported dispatched \(ref-\d\)/)
  await giveReason(page, 'Record the review')
  await row.waitFor({ state: 'detached' })
  const { rows } = await fixture.db.queryNoRole('SELECT reviewed_by FROM outbox_contradictions WHERE event_id = $1', [
    eventId,
  ])
  expect(rows).toEqual([{ reviewed_by: 'olga' }])
})

test('one person proposes a limit, another approves it; the limit stays if a removal is refused', async () => {
  const { page, goTo } = olga
  await goTo('limits')
  await page.getByText('No limit is set').waitFor()
  await page.getByRole('button', { name: 'Propose a limit' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('radio', { name: 'Amount per window' }).check()
  await dialog.getByLabel('Name of the limit').fill('acme-daily')
  await dialog.getByLabel('Participant', { exact: true }).fill('acme-with-limit')
  await dialog.getByLabel('Amount', { exact: true }).fill('250.00')
  await dialog.getByLabel('Currency', { exact: true }).fill('EUR')
  await dialog.getByLabel('Window', { exact: true }).selectOption('one day')
  await giveReason(page, 'Propose it')
  await page.getByText('You proposed it, so another person must approve it').waitFor()
  await pavel.goTo('limits')
  await pavel.page.getByRole('button', { name: 'Approve acme-daily' }).click()
  await pavel.page.getByRole('dialog').getByRole('button', { name: 'Approve it' }).click()
  const row = rowOf(pavel.page, 'acme-daily')
  expect(await row.innerText()).toMatch(/participant acme-with-limit[^]*at most 250\.00\sEUR per 1 d[^]*0\sEUR/)
  await enqueue(fixture.db, { participantId: 'acme-with-limit', payload: { ...PAYLOAD, amount: '250.01' } })
  await row.getByText('Exceeded').waitFor()
  await row.getByRole('button', { name: 'Remove acme-daily' }).click()
  await giveReason(pavel.page, 'Propose the removal')
  await page.getByRole('button', { name: 'Refuse acme-daily' }).click()
  await giveReason(page, 'Refuse it')
  await page.getByRole('button', { name: 'Refuse acme-daily' }).waitFor({ state: 'detached' })
  await rowOf(page, 'acme-daily').waitFor()
})

test('an uploaded statement is compared in a dry run, then stored; a person closes the finding', async () => {
  const rail = 'rail-with-statement'
  const { outboxId, instructionId } = await enqueue(fixture.db, { railType: rail, payload: PAYLOAD })
  await complete(fixture.db, await claimOnly(fixture.db, rail), { state: 'DISPATCHED', railReference: 'RF-1' })
  const entry = { reference: outboxId, amount: '12.05', currency: 'EUR', bookedOn: '2026-11-16', bankReference: 'BK-1' }
  const { page, goTo, browserErrors } = await fixture.open(await fixture.tokenOf('rosa'))
  await goTo('reconciliation')
  await page.getByText('No statement was compared yet').waitFor()
  await page.getByRole('button', { name: 'Compare a statement' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Statement', { exact: true }).setInputFiles({
    name: 'statement.ndjson',
    mimeType: 'application/x-ndjson',
    buffer: Buffer.from(statementOf([entry])),
  })
  await dialog.getByLabel('Rail', { exact: true }).fill(rail)
  await dialog.getByRole('button', { name: 'Compare, store nothing' }).click()
  await dialog.getByRole('alert').getByText('STATEMENT_INVALID').waitFor()
  await dialog.getByLabel('Format').selectOption('NDJSON')
  await dialog.getByRole('button', { name: 'Compare, store nothing' }).click()
  await dialog.getByText('Nothing is stored yet').waitFor()
  expect(await dialog.innerText()).toMatch(/Amount differs\s+1[^]*12\.50 EUR[^]*12\.05 EUR/)
  expect(await page.locator('.findings').count()).toBe(1)
  await dialog.getByRole('button', { name: 'Store the result' }).click()
  await dialog.waitFor({ state: 'detached' })
  const finding = page.getByRole('listitem').filter({ hasText: instructionId })
  expect(await finding.getByRole('group', { name: 'Ledger' }).innerText()).toContain('12.50 EUR')
  expect(await finding.getByRole('group', { name: 'Bank statement' }).innerText()).toMatch(/12\.05 EUR[^]*BK-1/)
  expect(await finding.locator('mark').allInnerTexts()).toEqual(['12.50 EUR', '12.05 EUR'])
  await finding.getByRole('link', { name: instructionId }).click()
  await page.getByRole('region', { name: 'Bank', exact: true }).getByText('Amount differs').waitFor()
  await page.goBack()
  await page.getByRole('button', { name: `Close the finding about ${instructionId}` }).click()
  await giveReason(page, 'Close the finding', 'the bank corrects it, OPS-77')
  await page.getByText('No open finding').waitFor()
  await page.getByLabel('State', { exact: true }).selectOption('Closed')
  await page.getByText('Closed by rosa').waitFor()
  expect(await page.locator('.findings').innerText()).toContain('the bank corrects it, OPS-77')
  await page.getByLabel('Kind', { exact: true }).selectOption('Paid twice')
  await page.getByText('No finding matches the filters').waitFor()
  // The refused file is the only error that the browser reports.
  expect(browserErrors().filter((text) => !text.includes('422'))).toEqual([])
  await page.context().close()
})

test('a dialog keeps the typed text if the server refuses the action', async () => {
  const { outboxId } = await enqueue(fixture.db)
  const { page, goTo } = olga
  await goTo(`payments/${outboxId}`)
  await page.getByRole('button', { name: 'Hold', exact: true }).click()
  // Another operator holds the item first.
  await placeOutboxHold((await apiRolesOf(fixture.db)).control({ owner: 'pavel', apiKey: null }), outboxId, 'mine')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Reason').fill('typed with care')
  await dialog.getByRole('button', { name: 'Place the hold' }).click()
  await dialog.getByRole('alert').getByText('DECISION_REFUSED').waitFor()
  expect(await dialog.getByLabel('Reason').inputValue()).toBe('typed with care')
  await page.keyboard.press('Escape')
})

test('a key with scope read sees no Resolve button; the Ledger panel names the scope it needs', async () => {
  const { key } = await createKey(fixture.db, { owner: 'rita', scopes: ['read'] })
  const { outboxId } = await enqueueUnknown(fixture.db)
  const { page, goTo, browserErrors } = await fixture.open(key)
  await goTo(`payments/${outboxId}`)
  await page.getByText('sign in with a token of the scope').waitFor()
  await goTo('holds')
  expect(await page.getByRole('button', { name: 'Resolve' }).count()).toBe(0)
  expect(browserErrors()).toEqual([])
  await page.context().close()
})

test('a key restricted to participants sees an overview of their payments only', async () => {
  const mine = await enqueueFailed(fixture.db, { participantId: 'bound-to-this' })
  const held = await enqueueUnknown(fixture.db, { participantId: 'bound-to-this' })
  const theirs = await enqueueFailed(fixture.db)
  const { key } = await createKey(fixture.db, { owner: 'shop', scopes: ['read'], participants: ['bound-to-this'] })
  const { page, goTo, browserErrors } = await fixture.open(key)
  await page.getByText('Your key is restricted to bound-to-this').waitFor()
  const list = (name: string) => page.getByRole('region', { name, exact: true })
  await list('Dead letters').getByRole('link', { name: mine.instructionId }).waitFor()
  await list('Held').getByRole('link', { name: held.instructionId }).waitFor()
  await list('Newest payments').getByRole('link', { name: held.instructionId }).waitFor()
  expect(await page.locator('main').innerText()).not.toContain(theirs.instructionId)
  // New payments of the participants appear without a reload.
  const fresh = await enqueue(fixture.db, { participantId: 'bound-to-this' })
  await list('Newest payments').getByRole('link', { name: fresh.instructionId }).waitFor()
  const places = await page.getByRole('navigation', { name: 'Pages' }).getByRole('link').allInnerTexts()
  expect(places).toEqual(['Overview', 'Payments', 'Dead letters', 'Holds', 'Contradictions'])
  await goTo('leases')
  await page.getByText('This page is about all participants').waitFor()
  expect(await page.getByRole('alert').count()).toBe(0)
  expect(browserErrors()).toEqual([])
  await page.context().close()
})

test('a token with only the scope ingest gets the message "This token cannot read"', async () => {
  const { key } = await createKey(fixture.db, { owner: 'shop', scopes: ['ingest'] })
  const { page } = await fixture.open(key)
  await page.getByText('This token cannot read').waitFor()
  expect(await page.getByRole('alert').count()).toBe(0)
  await page.context().close()
})

test('the Ledger panel shows the block of each sealed row, and names a row that was changed', async () => {
  const { outboxId } = await enqueueFailed(fixture.db)
  const { page, goTo } = olga
  await goTo(`payments/${outboxId}`)
  const panel = page.getByRole('region', { name: 'Ledger' })
  await panel.getByText('2 rows are in no block yet').waitFor()
  expect(await panel.locator('.links').innerText()).toMatch(/^identity\s+not sealed yet\s+attempt 1\s+not sealed yet$/)
  await sealLedger(fixture.db)
  await panel.getByText('2 rows against their sealed blocks').waitFor()
  expect(await panel.locator('[data-ledger=sound]').innerText()).toMatch(
    /identity\s+block \d+\s+(sound\s+)?attempt 1\s+block \d+/,
  )
  await fixture.db.queryNoRole(`
    ALTER TABLE payment_outbox_attempts DISABLE TRIGGER USER;
    UPDATE payment_outbox_attempts SET error_code = 'FORGED' WHERE outbox_id = '${outboxId}';
    ALTER TABLE payment_outbox_attempts ENABLE ALWAYS TRIGGER payment_outbox_attempts_is_append_only`)
  await goTo('payments')
  await goTo(`payments/${outboxId}`)
  const alert = panel.locator('[data-ledger=broken]').getByRole('alert')
  expect(await alert.innerText()).toMatch(/Broken at attempt 1: it differs from what was sealed/)
})

test('the Ledger panel verifies a payment whose rows need two pages', async () => {
  const { outboxId } = await enqueue(fixture.db)
  const { control } = await apiRolesOf(fixture.db)
  const role = control({ owner: 'olga', apiKey: null })
  for (let event = 1; event <= 40; event += 2) {
    await placeOutboxHold(role, outboxId, 'wait')
    await resolveOutboxHold(role, outboxId, 'RETRY', 'go on')
  }
  await sealLedger(fixture.db)
  const { page, goTo } = olga
  await goTo(`payments/${outboxId}`)
  const panel = page.getByRole('region', { name: 'Ledger' })
  await panel.getByText('41 rows against their sealed blocks').waitFor()
  expect(await panel.getByText(/^event \d+$/).count()).toBe(40)
})
