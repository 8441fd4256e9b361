import { beforeAll, describe, expect, test } from 'vitest'
import {
  checkDispatchEpoch,
  freezeDispatch,
  liftDispatchFreeze,
  placeOutboxHold,
  readItemViews,
} from '../../libs/outbox/index.js'
import { symphony } from '../support/commandLine.js'
import { useTestDatabase } from '../support/database.js'
import { openHttpFixture } from '../support/httpFixture.js'
import { claimOnly, complete, enqueue, WORKER } from '../support/outboxItems.js'
import { createPerson, approve, enqueueUnknown, type Person } from '../support/outboxPeople.js'

/** Tests items that are held after a freeze: how they show the freeze, and how one command resolves several. */

const db = await useTestDatabase()
let olga: Person
let pavel: Person
let url: string
beforeAll(async () => {
  const login = await db.createLogin('olga', { roles: ['symphony_control', 'symphony_readonly'] })
  url = login.url
  olga = { name: login.name, control: login.database.as('symphony_control') }
  pavel = await createPerson(db, 'pavel')
})

/** Runs a command with the login of the operator olga. */
function commandLine(...words: readonly string[]) {
  return symphony(words, { DATABASE_URL: url, SYMPHONY_SCHEMA: db.schema })
}

/** Enqueues an item, freezes and lifts dispatch, which makes the outcome of the item unknown, and holds the item. */
async function heldAfterFreeze(reason: string) {
  const item = await enqueue(db)
  const executor = db.as('symphony_executor')
  await checkDispatchEpoch(executor, WORKER)
  await freezeDispatch(olga.control, reason)
  await liftDispatchFreeze(olga.control, 'books compared')
  await placeOutboxHold(olga.control, item.outboxId, 'compare with the rail')
  return item
}

describe('a payment held after a freeze', () => {
  test('shows epoch, cause and reason of the freeze in SQL, HTTP and on the command line', async () => {
    const { outboxId, instructionId } = await heldAfterFreeze('snapshot of 03:00 restored')
    const [item] = await readItemViews(db.as('symphony_readonly'), [outboxId])
    expect(item?.freeze).toEqual({
      epochNo: expect.any(Number),
      cause: 'OPERATOR',
      reason: 'snapshot of 03:00 restored',
      frozenAt: expect.stringMatching(/^\d{4}-.*Z$/),
    })
    const fixture = await openHttpFixture(db)
    const answer = await (await fixture.call(`/v1/outbox/${outboxId}`)).text()
    await fixture.close()
    expect(answer).toContain('"cause":"OPERATOR"')
    for (const words of [
      ['show', instructionId],
      ['holds', 'list'],
    ]) {
      expect((await commandLine(...words)).stdout).toMatch(
        /freeze of epoch \d+ at \S+, OPERATOR: snapshot of 03:00 restored/,
      )
    }
  })

  test('shows no freeze once a later attempt of the payment is recorded', async () => {
    const { outboxId, railType } = await heldAfterFreeze('another restore')
    await db.queryNoRole(
      'UPDATE payment_outbox_pending SET hold_reason = NULL, held_by = NULL, held_at = NULL WHERE outbox_id = $1',
      [outboxId],
    )
    await complete(db, await claimOnly(db, railType), { state: 'RETRYABLE', outcomeUnknown: true })
    expect((await readItemViews(db.as('symphony_readonly'), [outboxId]))[0]).toMatchObject({
      outcomeUnknown: true,
      freeze: null,
    })
  })

  test('shows no freeze if its outcome was unknown before the freeze', async () => {
    const { outboxId } = await enqueueUnknown(db)
    await heldAfterFreeze('a drill')
    expect((await readItemViews(db.as('symphony_readonly'), [outboxId]))[0]).toMatchObject({
      outcomeUnknown: true,
      freeze: null,
    })
  })

  test('shows no freeze if it was enqueued after the freeze', async () => {
    await heldAfterFreeze('an earlier one')
    const { outboxId } = await enqueueUnknown(db)
    expect((await readItemViews(db.as('symphony_readonly'), [outboxId]))[0]?.freeze).toBeNull()
  })
})

describe('symphony holds resolve', () => {
  const decision = ['--decision', 'failed', '--reason', 'not in the book']

  test('proposes one decision for several ids; each proposal needs the approval of a second person', async () => {
    const items = [await enqueueUnknown(db), await enqueueUnknown(db)]
    const ids = items.map(({ outboxId }) => outboxId)
    const output = await commandLine('holds', 'resolve', ...ids, ...decision, '--json')
    expect(output.exitCode).toBe(0)
    const { decided }: { decided: { outboxId: string; status: string; proposalId: string }[] } = JSON.parse(
      output.stdout,
    )
    expect(decided.map(({ outboxId, status }) => [outboxId, status])).toEqual(ids.map((id) => [id, 'PROPOSED']))
    const [first] = decided
    expect((await commandLine('approve', first!.proposalId)).exitCode).not.toBe(0)
    await approve(pavel, first!.proposalId)
    const states = await readItemViews(db.as('symphony_readonly'), ids)
    expect(states.map(({ state }) => state)).toEqual(['FAILED', 'HELD'])
  })

  test('proposes the decision for all items that the filters select, and needs --yes', async () => {
    const railType = 'rail-of-the-restore'
    const items = [await enqueueUnknown(db, { railType }), await enqueueUnknown(db, { railType })]
    await enqueueUnknown(db)
    const all = ['holds', 'resolve', '--all', '--rail', railType, ...decision]
    const planned = await commandLine(...all, '--dry-run')
    expect(planned.stdout).toContain('FAILED of 2: 2 would need the approval of someone else')
    const unconfirmed = await commandLine(...all)
    expect([unconfirmed.exitCode, unconfirmed.stderr]).toEqual([
      expect.not.stringMatching(/^0$/),
      expect.stringContaining('--yes'),
    ])
    const open = () =>
      db.queryNoRole(
        'SELECT outbox_id FROM payment_outbox_proposals WHERE status = $1 AND outbox_id = ANY ($2) ORDER BY 1',
        ['OPEN', items.map(({ outboxId }) => outboxId)],
      )
    expect((await open()).rows).toEqual([])
    expect((await commandLine(...all, '--yes')).exitCode).toBe(0)
    expect((await open()).rows).toHaveLength(2)
  })

  test('names each refused item, proposes the decision for the others and exits with an error', async () => {
    const held = await enqueueUnknown(db)
    const free = await enqueue(db)
    const output = await commandLine('holds', 'resolve', free.outboxId, held.outboxId, ...decision)
    expect(output.exitCode).not.toBe(0)
    expect(output.stdout).toMatch(/FAILED of \S+ is proposed[^]*refused: /)
    expect(output.stderr).toContain('RESOLVE_REFUSED')
  })

  test.for([
    ['neither ids nor --all', []],
    ['ids together with --all', ['01981f0e-7c00-7000-8000-000000000001', '--all', '--rail', 'sepa']],
    ['--all without a filter', ['--all', '--yes']],
  ] as const)('refuses %s', async ([, words]) => {
    const output = await commandLine('holds', 'resolve', ...words, ...decision)
    expect([output.exitCode, output.stderr]).toEqual([2, expect.stringMatching(/INVALID_ARGUMENT|expected/)])
  })

  test('refuses --all with --decision dispatched: each payment has its own rail reference', async () => {
    const output = await commandLine(
      'holds',
      'resolve',
      '--all',
      '--rail',
      'sepa',
      '--decision',
      'dispatched',
      '--reason',
      'x',
    )
    expect(output.stderr).toContain('each payment has its own --rail-reference')
  })
})
