import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import {
  approveOutboxProposal,
  pauseOutbox,
  placeOutboxHold,
  recordLateOutcome,
  resolveOutboxHold,
  resumeOutbox,
  setParticipantOutboxPolicy,
  withdrawOutboxProposal,
  type HoldDecision,
} from '../../libs/outbox/index.js'
import { withActor } from '../../libs/db/index.js'
import { parseApiKey } from '../../libs/access/index.js'
import { createKey } from '../support/httpFixture.js'
import { useTestDatabase, withTestDatabase } from '../support/database.js'
import { brokenLedgerRules, readLedgerText } from '../support/ledgerRules.js'
import {
  attemptRows,
  claim,
  claimOnly,
  complete,
  enqueue,
  enqueueAndClaim,
  eventRows,
  ledger,
  pendingRow,
  WORKER,
} from '../support/outboxItems.js'
import {
  createPerson,
  approve,
  enqueueFailed,
  enqueueHeld,
  enqueueUnknown,
  propose,
  type Person,
} from '../support/outboxPeople.js'
import { failureOf, openConnection, race, untilWaiting, type Connection } from '../support/race.js'

const db = await useTestDatabase()
const olga = await createPerson(db, 'olga')
const pavel = await createPerson(db, 'pavel')

const MONEY_DECISIONS = ['DISPATCHED', 'FAILED', 'RETRY', 'REDRIVE'] as const

/**
 * Enqueues an item for the decision. For RETRY its outcome is unknown, because a known outcome needs only one person.
 */
function buildItemFor(decision: (typeof MONEY_DECISIONS)[number]): Promise<{ outboxId: string; railType: string }> {
  if (decision === 'RETRY') return enqueueUnknown(db)
  return decision === 'REDRIVE' ? enqueueFailed(db) : enqueueHeld(db, olga)
}

async function proposalRow(proposalId: string) {
  const { rows } = await db.queryNoRole('SELECT * FROM payment_outbox_proposals WHERE proposal_id = $1', [proposalId])
  return rows[0]
}

/** Returns the person's control handle, bound to the given connection. */
function onConnection({ control }: Person, connection: Connection): Person['control'] {
  return { ...control, query: (text, values) => connection.query(text, values) }
}

/** Returns all rows that a decision can change. */
async function stateOf(outboxId: string) {
  return {
    pending: await pendingRow(db, outboxId),
    attempts: await attemptRows(db, outboxId),
    events: await eventRows(db, outboxId),
  }
}

async function endedTotals(): Promise<{ dispatched_total: bigint; failed_total: bigint }> {
  const { rows } = await db.queryNoRole<{ dispatched_total: bigint; failed_total: bigint }>(
    'SELECT dispatched_total, failed_total FROM supervisor_outbox_status',
  )
  return rows[0]!
}

/** Returns a held item with an expired lease, and a function that reports its late success. */
async function unknownAndPaidLate() {
  const lease = await enqueueAndClaim(db)
  await db.expireLease(lease.outboxId)
  await placeOutboxHold(olga.control, lease.outboxId, 'please wait')
  const reportLate = (railReference = 'late-1') =>
    recordLateOutcome(db.as('symphony_executor'), WORKER, {
      outboxId: lease.outboxId,
      leaseToken: lease.leaseToken,
      state: 'DISPATCHED',
      railReference,
    })
  return { outboxId: lease.outboxId, reportLate }
}

describe.for(MONEY_DECISIONS)('the two-person decision %s', (decision) => {
  test('has no effect when the first person proposes it, except that an event is added', async () => {
    const { outboxId } = await buildItemFor(decision)
    const before = await stateOf(outboxId)
    const proposalId = await propose(olga, outboxId, decision)
    const after = await stateOf(outboxId)
    expect(after).toEqual({ ...before, events: [...before.events, expect.anything()] })
    expect(after.events.at(-1)).toMatchObject({
      event_type: decision === 'REDRIVE' ? 'REDRIVE_PROPOSED' : 'DECISION_PROPOSED',
      actor: olga.name,
      detail: { proposal_id: proposalId, decision, reason: 'as agreed with the bank' },
    })
    expect(await proposalRow(proposalId)).toMatchObject({ status: 'OPEN', decision, proposed_by: olga.name })
  })

  test('is approved by a second person, not by its proposer (P7007)', async () => {
    const { outboxId } = await buildItemFor(decision)
    const proposalId = await propose(olga, outboxId, decision)
    const before = await stateOf(outboxId)
    await expect(approve(olga, proposalId)).rejects.toMatchObject({ sqlstate: 'P7007', code: 'APPROVAL_REQUIRED' })
    expect(await stateOf(outboxId)).toEqual(before)
    expect(await approve(pavel, proposalId)).toMatchObject({ outboxId, decision })
    expect(await proposalRow(proposalId)).toMatchObject({
      status: 'APPROVED',
      proposed_by: olga.name,
      decided_by: pavel.name,
    })
  })

  test('is not approved by a name that differs from the proposer’s only in letter case (P7007)', async () => {
    const loud = await createPerson(db, `OLGA_${decision}`)
    const quiet = await createPerson(db, `olga_${decision.toLowerCase()}`)
    const { outboxId } = await buildItemFor(decision)
    const proposalId = await propose(quiet, outboxId, decision)
    await expect(approve(loud, proposalId)).rejects.toMatchObject({ sqlstate: 'P7007' })
    expect(await approve(pavel, proposalId)).toMatchObject({ outboxId })
  })

  test('is not approved in the transaction that proposed it, even by another login (P7007)', async () => {
    const { outboxId } = await buildItemFor(decision)
    const superuser = await openConnection(db)
    const become = async (person: Person) => {
      await superuser.query(`SET SESSION AUTHORIZATION "${person.name}"`)
      await superuser.query('SET ROLE symphony_control')
      return { ...person, control: onConnection(person, superuser) }
    }
    await superuser.query('BEGIN')
    await superuser.query('SAVEPOINT inside')
    const proposalId = await propose(await become(olga), outboxId, decision)
    await superuser.query('RELEASE SAVEPOINT inside')
    const asPavel = await become(pavel)
    await superuser.query('SAVEPOINT inside')
    await expect(approve(asPavel, proposalId)).rejects.toMatchObject({ sqlstate: 'P7007' })
    await superuser.query('ROLLBACK TO SAVEPOINT inside')
    await superuser.query('COMMIT')
    // The same call succeeds in a transaction of its own.
    expect(await approve(asPavel, proposalId)).toMatchObject({ outboxId, decision })
    await superuser.close()
  })

  test('cannot be proposed again until the first proposal is withdrawn (P7006)', async () => {
    const { outboxId } = await buildItemFor(decision)
    const first = await propose(olga, outboxId, decision)
    const before = await stateOf(outboxId)
    for (const person of [olga, pavel]) {
      await expect(propose(person, outboxId, decision)).rejects.toMatchObject({ sqlstate: 'P7006' })
    }
    expect(await stateOf(outboxId)).toEqual(before)
    await withdrawOutboxProposal(pavel.control, first, 'not like this')
    const second = await propose(pavel, outboxId, decision)
    expect(await approve(olga, second)).toMatchObject({ outboxId, decision })
  })

  test('is proposed once by eight concurrent calls; the other seven are refused (P7006)', async () => {
    const { outboxId } = await buildItemFor(decision)
    const lock = await openConnection(db)
    await lock.query('BEGIN')
    await lock.query('SELECT FROM payment_outbox_pending WHERE outbox_id = $1 FOR UPDATE', [outboxId])
    await lock.query('SELECT FROM payment_outbox_identities WHERE outbox_id = $1 FOR UPDATE', [outboxId])
    const { values, errors } = await race(
      db,
      'symphony_control',
      8,
      (connection) => propose({ name: '', control: onConnection(olga, connection) }, outboxId, decision),
      { releaseWhenAllWait: () => lock.query('COMMIT') },
    )
    await lock.close()
    expect(values).toHaveLength(1)
    expect(errors).toHaveLength(7)
    for (const error of errors) expect(error).toMatchObject({ sqlstate: 'P7006' })
  })

  test.for(['REPEATABLE READ', 'SERIALIZABLE'])('is refused in a %s transaction (40001)', async (isolation) => {
    const { outboxId } = await buildItemFor(decision)
    const proposalId = await propose(olga, outboxId, decision)
    const before = await stateOf(outboxId)
    const connection = await openConnection(db, 'symphony_control')
    const person = { name: '', control: onConnection(olga, connection) }
    for (const act of [() => propose(person, outboxId, decision), () => approve(person, proposalId)]) {
      await connection.query(`BEGIN ISOLATION LEVEL ${isolation}`)
      await expect(act()).rejects.toMatchObject({ sqlstate: '40001' })
      await connection.query('ROLLBACK')
    }
    await connection.close()
    expect(await stateOf(outboxId)).toEqual(before)
  })

  test('is approved once, and not after it was withdrawn (P7006)', async () => {
    const { outboxId } = await buildItemFor(decision)
    const withdrawn = await propose(olga, outboxId, decision)
    await withdrawOutboxProposal(olga.control, withdrawn, 'a mistake')
    const before = await stateOf(outboxId)
    await expect(approve(pavel, withdrawn)).rejects.toMatchObject({ sqlstate: 'P7006' })
    expect(await stateOf(outboxId)).toEqual(before)
    expect(before.events.at(-1)).toMatchObject({
      event_type: 'DECISION_WITHDRAWN',
      actor: olga.name,
      detail: { proposal_id: withdrawn, decision, reason: 'a mistake' },
    })

    const approved = await propose(olga, outboxId, decision)
    await approve(pavel, approved)
    const decided = await stateOf(outboxId)
    await expect(approve(pavel, approved)).rejects.toMatchObject({ sqlstate: 'P7006' })
    await expect(withdrawOutboxProposal(olga.control, approved, 'too late')).rejects.toMatchObject({
      sqlstate: 'P7006',
    })
    expect(await stateOf(outboxId)).toEqual(decided)
  })

  test('is applied once by eight concurrent approvals; the other seven are refused (P7006)', async () => {
    const { outboxId } = await buildItemFor(decision)
    const proposalId = await propose(olga, outboxId, decision)
    const lock = await openConnection(db)
    await lock.query('BEGIN')
    await lock.query('SELECT FROM payment_outbox_proposals WHERE proposal_id = $1 FOR UPDATE', [proposalId])
    const { values, errors } = await race(
      db,
      'symphony_control',
      8,
      (connection) => approveOutboxProposal(connection, proposalId),
      { releaseWhenAllWait: () => lock.query('COMMIT') },
    )
    await lock.close()
    expect(values).toMatchObject([{ outboxId, decision }])
    expect(errors).toHaveLength(7)
    for (const error of errors) expect(error).toMatchObject({ sqlstate: 'P7006' })
    const applied = (await eventRows(db, outboxId)).filter(
      ({ event_type: type }) => type === 'HOLD_RESOLVED' || type === 'REDRIVE_CREATED',
    )
    expect(applied).toHaveLength(1)
  })
})

test('an approval that waits for a concurrent withdrawal is refused (P7006)', async () => {
  const { outboxId } = await enqueueHeld(db, olga)
  const proposalId = await propose(olga, outboxId, 'FAILED')
  const withdrawing = await openConnection(db, 'symphony_control')
  const approving = await openConnection(db, 'symphony_control')
  await withdrawing.query('BEGIN')
  await withdrawOutboxProposal(withdrawing, proposalId, 'not like this')
  const refusal = failureOf(approveOutboxProposal(approving, proposalId))
  await untilWaiting(db, approving)
  await withdrawing.query('COMMIT')
  expect(await refusal).toMatchObject({ sqlstate: 'P7006' })
  expect(await ledger(db, outboxId)).toEqual([])
  expect(await pendingRow(db, outboxId)).toMatchObject({ hold_reason: 'please wait' })
  await Promise.all([withdrawing.close(), approving.close()])
})

describe('RETRY of a held item', () => {
  test('needs one person if the outcome is known, and makes the item due at once', async () => {
    const { outboxId, railType } = await enqueueHeld(db, olga)
    expect(await resolveOutboxHold(olga.control, outboxId, 'RETRY', 'all is well')).toEqual({
      status: 'APPLIED',
      proposalId: null,
    })
    expect((await claim(db, railType)).map((item) => item.outboxId)).toEqual([outboxId])
    expect(await ledger(db, outboxId)).toEqual([])
  })

  test('needs two people if the outcome is unknown, and clears outcome_unknown', async () => {
    const { outboxId, railType } = await enqueueUnknown(db)
    const proposalId = await propose(olga, outboxId, 'RETRY')
    expect(await pendingRow(db, outboxId)).toMatchObject({ outcome_unknown: true, hold_reason: 'no answer' })
    await approve(pavel, proposalId)
    expect(await pendingRow(db, outboxId)).toMatchObject({ outcome_unknown: false, hold_reason: null, held_by: null })
    expect((await claimOnly(db, railType)).outcomeUnknown).toBe(false)
    expect((await eventRows(db, outboxId)).at(-1)).toMatchObject({
      event_type: 'HOLD_RESOLVED',
      actor: pavel.name,
      detail: { decision: 'RETRY', proposed_by: olga.name, approved_by: pavel.name },
      attempt_id: null,
    })
  })

  test('is refused while another proposal is open (P7006)', async () => {
    // If the item were sent now, a later approval of FAILED would decide about an item that has changed.
    const { outboxId, railType } = await enqueueHeld(db, olga)
    const proposalId = await propose(olga, outboxId, 'FAILED')
    await expect(resolveOutboxHold(pavel.control, outboxId, 'RETRY', 'I say send it')).rejects.toMatchObject({
      sqlstate: 'P7006',
    })
    expect(await claim(db, railType)).toEqual([])
    await withdrawOutboxProposal(pavel.control, proposalId, 'I say send it')
    expect((await resolveOutboxHold(pavel.control, outboxId, 'RETRY', 'I say send it')).status).toBe('APPLIED')
  })
})

describe('a two-person decision', () => {
  test.for(['DISPATCHED', 'FAILED'] as const)(
    'adds one %s attempt with the next number, the approver and the reason',
    async (state) => {
      const item = await enqueueUnknown(db)
      const proposalId = await propose(olga, item.outboxId, state, 'the bank confirmed it in writing')
      await approve(pavel, proposalId)
      const rows = await attemptRows(db, item.outboxId)
      expect(rows).toHaveLength(2)
      expect(rows[1]).toMatchObject({
        attempt_no: 2,
        state,
        rail_reference: state === 'DISPATCHED' ? 'rail-reference-1' : null,
        error_code: 'OPERATOR_DECISION',
        error_message: 'the bank confirmed it in writing',
        worker_id: pavel.name,
        claimed_at: null,
        lease_token: null,
        completed_at: expect.any(Date),
      })
      expect((await eventRows(db, item.outboxId)).at(-1)).toMatchObject({
        event_type: 'HOLD_RESOLVED',
        actor: pavel.name,
        attempt_id: rows[1]!.attempt_id,
        detail: { decision: state, proposed_by: olga.name, approved_by: pavel.name },
      })
      expect(await pendingRow(db, item.outboxId)).toBeUndefined()
      expect(brokenLedgerRules(await readLedgerText(db.as('symphony_auditor')))).toEqual([])
    },
  )

  test.for(['DISPATCHED', 'FAILED'] as const)(
    'is final if it is %s; a later hold or hold resolution is refused (P7001)',
    async (state) => {
      const { outboxId } = await enqueueHeld(db, olga)
      await approve(pavel, await propose(olga, outboxId, state))
      const before = await stateOf(outboxId)
      await expect(placeOutboxHold(olga.control, outboxId, 'again')).rejects.toMatchObject({ sqlstate: 'P7001' })
      for (const decision of ['DISPATCHED', 'FAILED', 'RETRY'] as const) {
        await expect(propose(olga, outboxId, decision)).rejects.toMatchObject({ sqlstate: 'P7001' })
      }
      expect(await stateOf(outboxId)).toEqual(before)
    },
  )

  test('is counted in dispatched_total and failed_total', async () => {
    const before = await endedTotals()
    for (const state of ['DISPATCHED', 'FAILED', 'FAILED'] as const) {
      const { outboxId } = await enqueueHeld(db, olga)
      await approve(pavel, await propose(olga, outboxId, state))
    }
    expect(await endedTotals()).toEqual({
      dispatched_total: before.dispatched_total + 1n,
      failed_total: before.failed_total + 2n,
    })
  })
})

describe('the recorded actor', () => {
  let gateway: Person
  const onBehalfOf = <T>(actor: string, act: (person: Person) => Promise<T>, login = gateway) =>
    login.control.transaction(async (tx) => {
      await tx.query(`SELECT set_config('symphony.actor', $1, true)`, [actor])
      return act({ name: actor, control: { ...login.control, query: (text, values) => tx.query(text, values) } })
    })

  beforeAll(async () => {
    gateway = await createPerson(db, 'gateway')
    // The NULL tests three-valued logic: a comparison with NULL must not make every login a gateway.
    await db.queryNoRole(
      'UPDATE symphony_settings SET actor_gateways = ARRAY[NULL, $1], naming_gateways = ARRAY[NULL, $1]',
      [gateway.name],
    )
  })

  test('is the person named by the gateway, so two people may decide through one login', async () => {
    const { outboxId } = await enqueueHeld(db, olga)
    const proposalId = await onBehalfOf('anna@bank', (anna) => propose(anna, outboxId, 'FAILED'))
    await expect(onBehalfOf('anna@bank', (anna) => approve(anna, proposalId))).rejects.toMatchObject({
      sqlstate: 'P7007',
    })
    await expect(onBehalfOf('Anna@Bank', (anna) => approve(anna, proposalId))).rejects.toMatchObject({
      sqlstate: 'P7007',
    })
    await onBehalfOf('boris@bank', (boris) => approve(boris, proposalId))
    expect(await proposalRow(proposalId)).toMatchObject({
      proposed_by: `anna@bank via ${gateway.name}`,
      decided_by: `boris@bank via ${gateway.name}`,
    })
    expect((await attemptRows(db, outboxId)).map((row) => row.worker_id)).toEqual([`boris@bank via ${gateway.name}`])
  })

  test('is the same person by API key as by name, and cannot approve their own proposal (P7007)', async () => {
    const other = await createPerson(db, 'gateway_too')
    await db.queryNoRole('SELECT set_actor_gateway($1, true)', [other.name])
    const { key } = await createKey(db, { scopes: ['operate'], owner: 'Anna@bank' })
    const byKey = withActor(other.control, { apiKey: parseApiKey(key)! })
    const { outboxId } = await enqueueHeld(db, olga)
    const proposalId = await onBehalfOf('anna@bank', (anna) => propose(anna, outboxId, 'FAILED'))
    await expect(approveOutboxProposal(byKey, proposalId)).rejects.toMatchObject({ sqlstate: 'P7007' })
    await expect(onBehalfOf('anna@bank', (anna) => approve(anna, proposalId), other)).rejects.toMatchObject({
      sqlstate: 'P7007',
    })
  })

  test.for([
    ['an invisible character', 'anna@bank', 'an\u200bna@bank'],
    ['a direction mark', 'anna@bank', '\u202eanna@bank'],
    ['a tag beyond the basic plane', 'anna@bank', 'anna@bank\u{e0061}'],
    ['full-width letters', 'anna@bank', 'ａｎｎａ＠ｂａｎｋ'],
    ['a composed accent', 'rené@bank', 'rene\u0301@bank'],
    ['the case of a letter beyond ASCII', 'ömer@bank', 'ÖMER@BANK'],
    ['the final sigma', 'Νίκος', 'ΝΊΚΟΣ'],
    ['a sharp s', 'weiß@bank', 'WEISS@BANK'],
    ['a wider space', 'anna maria', 'anna\u3000 maria'],
  ])('is the same person if two names differ only by %s (P7007)', async ([, first, second]) => {
    const { outboxId } = await enqueueHeld(db, olga)
    for (const [proposer, approver] of [[first!, second!] as const, [second!, first!] as const]) {
      const proposalId = await onBehalfOf(proposer, (person) => propose(person, outboxId, 'FAILED'))
      await expect(onBehalfOf(approver, (person) => approve(person, proposalId))).rejects.toMatchObject({
        sqlstate: 'P7007',
      })
      await expect(
        db.queryNoRole(
          `UPDATE payment_outbox_proposals SET status = 'APPROVED', decided_by = $2 WHERE proposal_id = $1`,
          [proposalId, approver],
        ),
      ).rejects.toMatchObject({ code: '23514', constraint: 'payment_outbox_proposals_two_people' })
      await withdrawOutboxProposal(olga.control, proposalId, 'the next spelling')
    }
  })

  test('is another person if names differ by an accent, a letter or a space between words', async () => {
    for (const [first, second] of [
      ['rene@bank', 'rené@bank'],
      ['anna@bank', 'anne@bank'],
      ['ann alee', 'anna lee'],
    ] as const) {
      const { outboxId } = await enqueueHeld(db, olga)
      const proposalId = await onBehalfOf(first, (person) => propose(person, outboxId, 'FAILED'))
      expect(await onBehalfOf(second, (person) => approve(person, proposalId))).toMatchObject({ outboxId })
    }
  })

  test('is the login if the login is not a gateway, whatever symphony.actor says', async () => {
    const { outboxId } = await enqueueHeld(db, olga)
    const proposalId = await onBehalfOf('anna@bank', (claimant) => propose(claimant, outboxId, 'FAILED'), olga)
    expect(await proposalRow(proposalId)).toMatchObject({ proposed_by: olga.name })
    await expect(onBehalfOf('boris@bank', (claimant) => approve(claimant, proposalId), olga)).rejects.toMatchObject({
      sqlstate: 'P7007',
    })
    await onBehalfOf('anna@bank', (claimant) => approve(claimant, proposalId), pavel)
    expect(await proposalRow(proposalId)).toMatchObject({ decided_by: pavel.name })
  })

  test('is the login, not the role of the session', async () => {
    const { outboxId } = await enqueue(db)
    await placeOutboxHold(olga.control, outboxId, 'please wait')
    expect(await pendingRow(db, outboxId)).toMatchObject({ held_by: olga.name })
  })

  test.for([
    ['an empty name', ''],
    ['a blank', '   '],
    ['a name with a space before it', ' anna@bank'],
    ['a name with a line end after it', 'anna@bank\n'],
    ['a name of invisible characters only', '\u200b\u2060'],
    ['a name with a control character', 'anna\u0001@bank'],
    ['a name of 201 characters', 'a'.repeat(201)],
    ['a name with a login behind it', 'anna@bank via web'],
  ])('must be valid: every action of a gateway is refused for %s (22023)', async ([, actor]) => {
    const { outboxId } = await enqueue(db)
    const actions: ((person: Person) => Promise<unknown>)[] = [
      ({ control }) => placeOutboxHold(control, outboxId, 'please wait'),
      ({ control }) => resolveOutboxHold(control, outboxId, 'FAILED', 'never sent'),
      (person) => propose(person, outboxId, 'REDRIVE'),
      (person) => approve(person, randomUUID()),
      ({ control }) => withdrawOutboxProposal(control, randomUUID(), 'why not'),
      ({ control }) => pauseOutbox(control, 'rail', 'SEPA', 'please wait'),
      ({ control }) => resumeOutbox(control, 'rail', 'SEPA', 'go on'),
      ({ control }) => setParticipantOutboxPolicy(control, 'ACME', 'halt'),
    ]
    for (const action of actions) {
      await expect(onBehalfOf(actor!, action)).rejects.toMatchObject({
        sqlstate: '22023',
        message: expect.stringContaining('symphony.actor'),
      })
    }
    expect(await pendingRow(db, outboxId)).toMatchObject({ hold_reason: null })
  })

  test('must be named: a gateway that never sets symphony.actor is refused (22023)', async () => {
    const { outboxId } = await enqueue(db)
    const fresh = await openConnection(db)
    await fresh.query(`SET SESSION AUTHORIZATION "${gateway.name}"`)
    await fresh.query('SET ROLE symphony_control')
    await expect(placeOutboxHold(fresh, outboxId, 'please wait')).rejects.toMatchObject({ sqlstate: '22023' })
    await fresh.close()
  })

  test('may have 200 characters', async () => {
    const { outboxId } = await enqueue(db)
    const name = 'é'.repeat(200)
    await onBehalfOf(name, ({ control }) => placeOutboxHold(control, outboxId, 'please wait'))
    expect(await pendingRow(db, outboxId)).toMatchObject({ held_by: `${name} via ${gateway.name}` })
  })

  test('is the login if symphony_settings is empty', async () => {
    await withTestDatabase(async (other) => {
      const item = await enqueue(other)
      await other.queryNoRole('DELETE FROM symphony_settings')
      const rita = await createPerson(other, 'rita')
      await onBehalfOf('anna@bank', ({ control }) => placeOutboxHold(control, item.outboxId, 'please wait'), rita)
      expect(await pendingRow(other, item.outboxId)).toMatchObject({ held_by: rita.name })
    })
  })
})

describe('a held item with a lease', () => {
  test.for(['DISPATCHED', 'FAILED', 'RETRY'] as const)(
    'is not decided as %s before its lease expires (P7006)',
    async (decision) => {
      const lease = await enqueueAndClaim(db)
      await placeOutboxHold(olga.control, lease.outboxId, 'please wait')
      const before = await stateOf(lease.outboxId)
      await expect(propose(olga, lease.outboxId, decision)).rejects.toMatchObject({
        sqlstate: 'P7006',
        message: expect.stringContaining(WORKER),
      })
      expect(await stateOf(lease.outboxId)).toEqual(before)
      await complete(db, lease, { state: 'DISPATCHED', railReference: 'r-1' })
    },
  )

  test('is decided after its lease has expired; the ledger has the expiry before the decision', async () => {
    const lease = await enqueueAndClaim(db)
    await placeOutboxHold(olga.control, lease.outboxId, 'please wait')
    await db.expireLease(lease.outboxId)
    const proposalId = await propose(olga, lease.outboxId, 'FAILED')
    expect(await attemptRows(db, lease.outboxId)).toMatchObject([
      { attempt_no: 1, state: 'ZOMBIE_REQUEUE', worker_id: WORKER, lease_token: lease.leaseToken },
    ])
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({ lease_token: null, outcome_unknown: true })
    await approve(pavel, proposalId)
    expect(await ledger(db, lease.outboxId)).toEqual(['1 ZOMBIE_REQUEUE', '2 FAILED'])
    // A later report of the item's worker is stored as evidence, not as an outcome.
    await expect(complete(db, lease, { state: 'DISPATCHED' })).rejects.toMatchObject({ sqlstate: 'P7002' })
    const { outboxId, leaseToken } = lease
    const late = await recordLateOutcome(db.as('symphony_executor'), WORKER, {
      outboxId,
      leaseToken,
      state: 'DISPATCHED',
      railReference: 'r-1',
    })
    expect(late.eventType).toBe('TERMINAL_BLOCKED')
    expect(await ledger(db, lease.outboxId)).toEqual(['1 ZOMBIE_REQUEUE', '2 FAILED'])
  })

  test('has an unknown outcome after its lease expired; RETRY needs two people', async () => {
    const lease = await enqueueAndClaim(db)
    await placeOutboxHold(olga.control, lease.outboxId, 'please wait')
    await db.expireLease(lease.outboxId)
    expect(await approve(pavel, await propose(olga, lease.outboxId, 'RETRY'))).toMatchObject({ decision: 'RETRY' })
  })

  test('needs one person for RETRY if its dispatch mark shows that no call began', async () => {
    const lease = await enqueueAndClaim(db, {}, { marked: true })
    await placeOutboxHold(olga.control, lease.outboxId, 'please wait')
    await db.expireLease(lease.outboxId)
    expect((await resolveOutboxHold(olga.control, lease.outboxId, 'RETRY', 'never called')).status).toBe('APPLIED')
    expect(await ledger(db, lease.outboxId)).toEqual(['1 ZOMBIE_REQUEUE'])
  })
})

describe('a late success of a held item', () => {
  test.for(['FAILED', 'RETRY'] as const)('prevents a proposal of %s (P7006)', async (decision) => {
    const { outboxId, reportLate } = await unknownAndPaidLate()
    await reportLate()
    await expect(propose(olga, outboxId, decision)).rejects.toMatchObject({ sqlstate: 'P7006' })
    expect(await ledger(db, outboxId)).toEqual([])
  })

  test.for(['FAILED', 'RETRY'] as const)(
    'prevents the approval of an earlier proposal of %s (P7006)',
    async (decision) => {
      const { outboxId, reportLate } = await unknownAndPaidLate()
      const proposalId = await propose(olga, outboxId, decision)
      await reportLate()
      await expect(approve(pavel, proposalId)).rejects.toMatchObject({ sqlstate: 'P7006' })
      expect(await pendingRow(db, outboxId)).toMatchObject({ outcome_unknown: true, hold_reason: 'please wait' })
    },
  )

  test('does not prevent a DISPATCHED decision that was proposed before or after the late success', async () => {
    const first = await unknownAndPaidLate()
    await first.reportLate()
    await approve(pavel, await propose(olga, first.outboxId, 'DISPATCHED'))
    const second = await unknownAndPaidLate()
    const proposalId = await propose(olga, second.outboxId, 'DISPATCHED')
    await second.reportLate()
    await approve(pavel, proposalId)
    for (const { outboxId } of [first, second]) {
      expect(await ledger(db, outboxId)).toEqual(['1 ZOMBIE_REQUEUE', '2 DISPATCHED'])
    }
  })

  test('causes a TERMINAL_BLOCKED event if two people decide DISPATCHED with another reference', async () => {
    const { outboxId, reportLate } = await unknownAndPaidLate()
    await reportLate('late-1')
    await approve(pavel, await propose(olga, outboxId, 'DISPATCHED'))
    const [ending] = (await attemptRows(db, outboxId)).slice(-1)
    expect((await eventRows(db, outboxId)).slice(-2)).toMatchObject([
      { event_type: 'HOLD_RESOLVED', attempt_id: ending!.attempt_id },
      {
        event_type: 'TERMINAL_BLOCKED',
        actor: pavel.name,
        attempt_id: ending!.attempt_id,
        detail: expect.objectContaining({ state: 'DISPATCHED', rail_reference: 'late-1' }),
      },
    ])
    // A repeated report returns the same event.
    expect(await reportLate('late-1')).toMatchObject({ eventType: 'TERMINAL_BLOCKED' })
    expect((await eventRows(db, outboxId)).filter(({ event_type }) => event_type === 'TERMINAL_BLOCKED')).toHaveLength(
      1,
    )
  })

  test('causes no TERMINAL_BLOCKED event if two people decide DISPATCHED with its reference', async () => {
    const { outboxId, reportLate } = await unknownAndPaidLate()
    await reportLate('rail-reference-1')
    await approve(pavel, await propose(olga, outboxId, 'DISPATCHED'))
    expect((await eventRows(db, outboxId)).map(({ event_type }) => event_type)).not.toContain('TERMINAL_BLOCKED')
  })
})

describe('an invalid decision', () => {
  const DECISIONS: readonly HoldDecision[] = ['DISPATCHED', 'FAILED', 'RETRY']

  test('is refused for an item that is not held (P7006)', async () => {
    const { outboxId } = await enqueue(db)
    for (const decision of DECISIONS) {
      await expect(propose(olga, outboxId, decision)).rejects.toMatchObject({ sqlstate: 'P7006' })
    }
    expect(await eventRows(db, outboxId)).toEqual([])
  })

  test('is refused for an unknown item (22023)', async () => {
    for (const decision of DECISIONS) {
      await expect(propose(olga, randomUUID(), decision)).rejects.toMatchObject({ sqlstate: '22023' })
    }
  })

  test.for([
    ['a null decision', null, 'because', null],
    ['an unknown decision', 'ZOMBIE_REQUEUE', 'because', null],
    ['a decision in lower case', 'retry', 'because', null],
    ['DISPATCHED without a reference', 'DISPATCHED', 'because', null],
    ['DISPATCHED with a blank reference', 'DISPATCHED', 'because', ' '],
    ['DISPATCHED with a reference of 256 characters', 'DISPATCHED', 'because', 'r'.repeat(256)],
    ['FAILED with a reference', 'FAILED', 'because', 'r-1'],
    ['RETRY with a reference', 'RETRY', 'because', 'r-1'],
    ['a null reason', 'RETRY', null, null],
    ['a blank reason', 'FAILED', '\t', null],
  ])('is refused by resolve_outbox_hold: %s (22023)', async ([, decision, reason, reference]) => {
    const { outboxId } = await enqueueHeld(db, olga)
    const before = await stateOf(outboxId)
    await expect(
      db.queryNoRole('SELECT * FROM resolve_outbox_hold($1, $2, $3, $4)', [outboxId, decision, reason, reference]),
    ).rejects.toMatchObject({ code: '22023' })
    expect(await stateOf(outboxId)).toEqual(before)
  })

  test('is refused if it is the approval or withdrawal of an unknown proposal (22023)', async () => {
    await expect(approve(pavel, randomUUID())).rejects.toMatchObject({ sqlstate: '22023' })
    await expect(withdrawOutboxProposal(pavel.control, randomUUID(), 'why')).rejects.toMatchObject({
      sqlstate: '22023',
    })
    await expect(db.queryNoRole('SELECT approve_outbox_proposal(NULL)')).rejects.toMatchObject({ code: '22023' })
  })

  test('is refused if it is a withdrawal without a valid reason (22023)', async () => {
    const { outboxId } = await enqueueHeld(db, olga)
    const proposalId = await propose(olga, outboxId, 'FAILED')
    for (const reason of [null, '', 'x'.repeat(1001)]) {
      await expect(
        db.queryNoRole('SELECT withdraw_outbox_proposal($1, $2)', [proposalId, reason]),
      ).rejects.toMatchObject({ code: '22023' })
    }
    expect(await proposalRow(proposalId)).toMatchObject({ status: 'OPEN' })
  })
})

test('a decision records a rail reference of 255 characters in full', async () => {
  const { outboxId } = await enqueueHeld(db, olga)
  const reference = 'ß'.repeat(255)
  const { proposalId } = await resolveOutboxHold(olga.control, outboxId, 'DISPATCHED', 'paid', reference)
  await approve(pavel, proposalId!)
  expect(await attemptRows(db, outboxId)).toMatchObject([{ state: 'DISPATCHED', rail_reference: reference }])
})

test('a CHECK constraint refuses an approval by the proposer (23514)', async () => {
  const { outboxId } = await enqueueHeld(db, olga)
  const proposalId = await propose(olga, outboxId, 'FAILED')
  await expect(
    db.queryNoRole(
      `UPDATE payment_outbox_proposals SET status = 'APPROVED', decided_by = upper(proposed_by) WHERE proposal_id = $1`,
      [proposalId],
    ),
  ).rejects.toMatchObject({ code: '23514', constraint: 'payment_outbox_proposals_two_people' })
})
