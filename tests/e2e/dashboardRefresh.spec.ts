import { beforeAll, expect, test } from 'vitest'
import { resolveOutboxHold } from '../../libs/outbox/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { DashboardFixture, type OpenPage } from '../support/dashboardFixture.js'
import { gate } from '../support/gate.js'
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
