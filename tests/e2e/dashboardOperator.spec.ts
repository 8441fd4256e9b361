import type { Locator, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { failInboxMessages } from '../../libs/inbox/index.js'
import { placeOutboxHold, readItems } from '../../libs/outbox/index.js'
import { DashboardStage, type Visit } from '../support/dashboardStage.js'
import { aKey, apiRolesOf } from '../support/httpStage.js'
import { enqueuedAndClaimed, rowOf as rowOfMessage } from '../support/inboxMessages.js'
import { enqueue } from '../support/outboxItems.js'
import { enqueueFailed, enqueueUnknown } from '../support/outboxPeople.js'
import { aJob } from '../support/scheduled.js'

let stage: DashboardStage
let olga: Visit
let pavel: Visit
beforeAll(async () => {
  stage = await DashboardStage.set()
  olga = await stage.open(await stage.tokenOf('olga'))
  pavel = await stage.open(await stage.tokenOf('pavel'))
})
afterAll(() => stage.close())

async function stateOf(outboxId: string): Promise<string | undefined> {
  const [item] = await readItems(stage.db.as('symphony_readonly'), { outboxId })
  return item?.state
}

/** Gives the reason in the open dialog, and presses its button. */
async function giveReason(page: Page, button: string, reason = 'as agreed with the bank'): Promise<void> {
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Reason').fill(reason)
  await dialog.getByRole('button', { name: button }).click()
  await dialog.waitFor({ state: 'detached' })
}

function rowOf(page: Page, text: string): Locator {
  return page.getByRole('row', { name: text })
}

describe('a payment', () => {
  test('is held and sent again by one person, with a reason, as long as nothing is unknown', async () => {
    const { outboxId } = await enqueue(stage.db)
    const { page, goTo } = olga
    await goTo(`payments/${outboxId}`)
    await page.getByRole('button', { name: 'Hold', exact: true }).click()
    await giveReason(page, 'Place the hold', 'the customer called')
    expect(await page.getByRole('status').innerText()).toMatch(/ is held\.$/)
    await page.locator('main h1 + [data-state=HELD]').waitFor()
    expect(await page.locator('.chronicle').innerText()).toMatch(/olga[^]*the customer called/)
    await page.getByRole('button', { name: 'Resolve the hold' }).click()
    await giveReason(page, 'Decide')
    await page.locator('main h1 + [data-state=DUE]').waitFor()
    expect(await stateOf(outboxId)).toBe('DUE')
  })

  test('whose outcome is unknown is decided by two people: the proposer’s own approval is refused, in so many words', async () => {
    const { outboxId, instructionId } = await enqueueUnknown(stage.db)
    const { page, goTo } = olga
    await goTo('holds')
    await rowOf(page, instructionId).getByRole('button', { name: 'Resolve' }).click()
    await page.getByLabel('It was paid').check()
    await page.getByLabel('The rail’s reference').fill('RF-4711')
    await giveReason(page, 'Decide')
    const proposal = rowOf(page, instructionId).locator('.proposal')
    await proposal.getByText('You proposed it, so somebody else must approve it').waitFor()
    await proposal.getByRole('button', { name: 'Approve' }).click()
    const refusal = proposal.getByRole('alert')
    expect(await refusal.innerText()).toMatch(/second person[^]*SECOND_PERSON_REQUIRED[^]*request [0-9a-f-]{36}/)
    expect(await stateOf(outboxId)).toBe('HELD')

    await pavel.goTo('holds')
    await rowOf(pavel.page, instructionId).getByRole('button', { name: 'Approve' }).click()
    await rowOf(pavel.page, instructionId).waitFor({ state: 'detached' })
    expect(await stateOf(outboxId)).toBe('DISPATCHED')
    // Whoever proposed it sees it leave without touching anything.
    await rowOf(page, instructionId).waitFor({ state: 'detached' })
    await goTo(`payments/${outboxId}`)
    expect(await page.locator('.chronicle').innerText()).toMatch(/proposed by\s*olga[^]*approved by\s*pavel/)
  })

  test('keeps its hold when a proposal is withdrawn by its author, or refused by another', async () => {
    const { outboxId, instructionId } = await enqueueUnknown(stage.db)
    for (const [visitor, button, action] of [
      [olga, 'Withdraw', 'Withdraw it'],
      [pavel, 'Refuse', 'Refuse it'],
    ] as const) {
      await olga.goTo('holds')
      await rowOf(olga.page, instructionId).getByRole('button', { name: 'Resolve' }).click()
      await olga.page.getByLabel('It was not paid, and shall not be').check()
      await giveReason(olga.page, 'Decide')
      await visitor.goTo('payments')
      await visitor.goTo('holds')
      await rowOf(visitor.page, instructionId).getByRole('button', { name: button }).click()
      await giveReason(visitor.page, action)
      await rowOf(visitor.page, instructionId).getByRole('button', { name: 'Resolve' }).waitFor()
    }
    expect(await stateOf(outboxId)).toBe('HELD')
  })

  test('that is dead is redriven by two people, and each of its items leads to the other', async () => {
    const { outboxId, instructionId } = await enqueueFailed(stage.db)
    await olga.goTo('dlq')
    await rowOf(olga.page, instructionId).getByRole('button', { name: 'Redrive' }).click()
    await giveReason(olga.page, 'Propose the redrive')
    await rowOf(olga.page, instructionId).getByRole('button', { name: 'Approve' }).click()
    await rowOf(olga.page, instructionId).getByText('SECOND_PERSON_REQUIRED').waitFor()

    await pavel.goTo(`payments/${outboxId}`)
    await pavel.page.getByRole('button', { name: 'Approve' }).click()
    await pavel.page.getByText('Redriven as', { exact: true }).waitFor()
    await pavel.page.locator('dt:text-is("Redriven as") + dd a').click()
    await pavel.page.locator('dt:text-is("Redrive of") + dd a').click()
    await expect.poll(() => pavel.page.url()).toContain(outboxId)
    expect(await stateOf(outboxId)).toBe('FAILED')
  })
})

test('a rail is paused and resumed from the overview, and says by whom and why', async () => {
  const { railType } = await enqueue(stage.db)
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

async function pausesOf(name: string): Promise<object[]> {
  const { rows } = await stage.db.queryNoRole<object>('SELECT paused_by, reason FROM outbox_pauses WHERE name = $1', [
    name,
  ])
  return rows
}

test('a job is paused, resumed, run at once, and shows its history', async () => {
  const name = await aJob(stage.db)
  const { page, goTo } = olga
  await goTo('scheduler')
  await page.getByRole('button', { name: `Pause ${name}` }).click()
  await rowOf(page, name).locator('[data-state=PAUSED]').waitFor()
  await page.getByRole('button', { name: `Resume ${name}` }).click()
  await rowOf(page, name).locator('[data-state=ACTIVE]').waitFor()
  await page.getByRole('button', { name: `Run now: ${name}` }).click()
  await expect.poll(() => page.getByRole('status').innerText()).toContain('runs once more')
  await page.getByRole('button', { name: `History of ${name}` }).click()
  await page.getByRole('dialog').getByRole('row', { name: 'olga' }).waitFor()
  await page.keyboard.press('Escape')
})

test('a dead message of the inbox is revived, with a reason', async () => {
  const claim = await enqueuedAndClaimed(stage.db, { messageId: 'evt_17' })
  await failInboxMessages(stage.db.as('symphony_executor'), [{ ...claim, error: 'no such order' }], 'worker-1')
  const { page, goTo } = olga
  await goTo('inbox')
  await rowOf(page, 'evt_17').getByRole('button', { name: 'Revive' }).click()
  await giveReason(page, 'Revive it')
  await rowOf(page, 'evt_17').waitFor({ state: 'detached' })
  await page.getByLabel('State').selectOption('seen')
  await rowOf(page, 'evt_17').waitFor()
  expect(await rowOfMessage(stage.db, claim)).toMatchObject({ state: 'seen', attempt_count: 0 })
})

test('an action that the server refuses loses nothing of what was typed', async () => {
  const { outboxId } = await enqueue(stage.db)
  const { page, goTo } = olga
  await goTo(`payments/${outboxId}`)
  await page.getByRole('button', { name: 'Hold', exact: true }).click()
  // Somebody else was faster.
  await placeOutboxHold((await apiRolesOf(stage.db)).control('pavel'), outboxId, 'mine')
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Reason').fill('typed with care')
  await dialog.getByRole('button', { name: 'Place the hold' }).click()
  await dialog.getByRole('alert').getByText('DECISION_REFUSED').waitFor()
  expect(await dialog.getByLabel('Reason').inputValue()).toBe('typed with care')
  await page.keyboard.press('Escape')
})

test('who may only read sees no action, and is told what the chain would need', async () => {
  const { key } = await aKey(stage.db, { owner: 'rita', scopes: ['read'] })
  const { outboxId } = await enqueueUnknown(stage.db)
  const { page, goTo, complaints } = await stage.open(key)
  await goTo(`payments/${outboxId}`)
  await page.getByText('sign in with a token of the scope').waitFor()
  await goTo('holds')
  expect(await page.getByRole('button', { name: 'Resolve' }).count()).toBe(0)
  expect(complaints()).toEqual([])
})

test('a row of the ledger that somebody has changed is named by the browser, with what is wrong with it', async () => {
  const { outboxId } = await enqueueFailed(stage.db)
  await stage.db.queryNoRole(`
    ALTER TABLE payment_outbox_attempts DISABLE TRIGGER USER;
    UPDATE payment_outbox_attempts SET error_code = 'FORGED' WHERE outbox_id = '${outboxId}';
    ALTER TABLE payment_outbox_attempts ENABLE ALWAYS TRIGGER payment_outbox_attempts_is_append_only`)
  const { page, goTo } = olga
  await goTo(`payments/${outboxId}`)
  const chain = page.locator('[data-chain=broken]')
  await chain.waitFor()
  expect(await chain.getByRole('alert').innerText()).toMatch(/Broken at attempt 1: its content differs from its hash/)
})
