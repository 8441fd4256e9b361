import { describe, expect, test } from 'vitest'
import {
  beginOutboxDispatch,
  claimOutboxBatch,
  enqueuePaymentOutboxBatch,
  placeOutboxHold,
  releaseOutboxLease,
  renewOutboxLease,
  resolveOutboxHold,
  type EnqueuedItem,
  type UnleasedTakeover,
} from '../../libs/outbox/index.js'
import { useTestDatabase, withTestDatabase } from '../support/database.js'
import {
  buildInstruction,
  attemptRows,
  claim,
  claimOnly,
  complete,
  enqueue,
  enqueueAndClaim,
  ledger,
  pendingRow,
  WORKER,
} from '../support/outboxItems.js'
import { failureOf } from '../support/race.js'

const db = await useTestDatabase()

const ids = (items: readonly { readonly outboxId: string }[]) => items.map(({ outboxId }) => outboxId)

/** Enqueues one item per [rail, seconds overdue, seconds old], in this order. */
async function enqueueAged(
  ...given: readonly (readonly [rail: string, overdue: number, age: number])[]
): Promise<EnqueuedItem[]> {
  const items = await enqueuePaymentOutboxBatch(
    db.as('symphony_ingest'),
    given.map(([railType]) => buildInstruction({ railType, participantId: 'aged' })),
  )
  await db.queryNoRole(
    `UPDATE payment_outbox_pending p
     SET next_attempt_at = date_trunc('second', now()) - make_interval(secs => g.overdue),
       created_at = date_trunc('second', now()) - make_interval(secs => g.age)
     FROM unnest($1::uuid[], $2::integer[], $3::integer[]) AS g(outbox_id, overdue, age) WHERE p.outbox_id = g.outbox_id`,
    [ids(items), given.map(([, overdue]) => overdue), given.map(([, , age]) => age)],
  )
  return items
}

describe('the order of a claim', () => {
  test('is by due time, then by age, then by sequence number', async () => {
    const rail = buildInstruction().railType
    const [last, third, second, tiedFirst, tiedSecond] = await enqueueAged(
      [rail, 100, 9000],
      [rail, 300, 100],
      [rail, 300, 200],
      [rail, 400, 100],
      [rail, 400, 100],
    )
    expect(ids(await claim(db, rail))).toEqual(ids([tiedFirst!, tiedSecond!, second!, third!, last!]))
  })

  test('is by due time across rails, even if more items are due than the batch size', async () => {
    const [a, b, c] = [buildInstruction().railType, buildInstruction().railType, buildInstruction().railType]
    const items = await enqueueAged([a, 10, 1], [b, 60, 1], [c, 50, 1], [a, 40, 1], [b, 20, 1], [b, 30, 1], [a, 70, 1])
    const oldestFirst = [6, 1, 2, 3, 5, 4, 0].map((index) => items[index]!.outboxId)
    expect(ids(await claim(db, [c, b, a], { batchSize: 5 }))).toEqual(oldestFirst.slice(0, 5))
    expect(ids(await claim(db, [a, b, c], { batchSize: 5 }))).toEqual(oldestFirst.slice(5))
  })

  test('is by due time, even if the claim mixes taken-over items and due items', async () => {
    const rail = buildInstruction().railType
    const [first] = await enqueueAged([rail, 50, 1])
    await claimOnly(db, rail)
    const [zeroth, second] = await enqueueAged([rail, 60, 1], [rail, 40, 1])
    await db.expireLease(first!.outboxId)
    expect(ids(await claim(db, rail))).toEqual(ids([zeroth!, first!, second!]))
  })
})

describe('the result of a claim', () => {
  test('has at most as many items as the batch size, taken-over items included', async () => {
    const rail = buildInstruction().railType
    const items = await enqueueAged(...Array.from({ length: 5 }, () => [rail, 10, 1] as const))
    const [crashed] = await claim(db, rail, { batchSize: 1 })
    await db.expireLease(crashed!.outboxId)
    const sizes = []
    for (let round = 0; round < 4; round++) sizes.push((await claim(db, rail, { batchSize: 2 })).length)
    expect(sizes).toEqual([2, 2, 1, 0])
    expect(await ledger(db, items[0]!.outboxId)).toEqual(['1 ZOMBIE_REQUEUE'])
  })

  test.for([1, 2])(
    'has taken-over items and fills the rest of the batch with due items, on %i rails',
    async (count) => {
      const rails = Array.from({ length: count }, () => buildInstruction().railType)
      const items = await enqueueAged(
        ...[60, 50, 40, 30, 20, 10].map((overdue, i) => [rails[i % count]!, overdue, 1] as const),
      )
      for (const { outboxId } of await claim(db, rails, { batchSize: 2 })) await db.expireLease(outboxId)
      expect(ids(await claim(db, rails, { batchSize: 5 }))).toEqual(ids(items.slice(0, 5)))
    },
  )
})

describe('an item returned by a claim', () => {
  test('has all enqueued fields and stays in the queue with a lease', async () => {
    const item = await enqueue(db, { payload: { amountMinor: '9007199254740993', nested: { list: [1, null, 'x'] } } })
    const claimed = await claimOnly(db, item.railType, { workerId: 'worker-7', leaseSeconds: 90 })
    expect(claimed).toEqual({
      outboxId: item.outboxId,
      instructionId: item.instructionId,
      participantId: item.participantId,
      sequenceId: item.sequenceId,
      idempotencyKey: item.idempotencyKey,
      railType: item.railType,
      payload: item.payload,
      attemptCount: 0,
      leaseToken: expect.stringMatching(/^[0-9a-f-]{36}$/),
      leaseExpiresAt: new Date(claimed.claimedAt.getTime() + 90_000),
      claimedAt: expect.any(Date),
      outcomeUnknown: false,
      expiryStreak: 0,
      takenOver: false,
      ordered: false,
      evidence: null,
      createdAt: item.createdAt,
      dueAt: expect.any(Date),
      traceContext: null,
    })
    expect(await pendingRow(db, item.outboxId)).toMatchObject({
      claimed_by: 'worker-7',
      lease_token: claimed.leaseToken,
      lease_expires_at: claimed.leaseExpiresAt,
      claimed_at: claimed.claimedAt,
      dispatch_mark: null,
    })
    expect(await ledger(db, item.outboxId)).toEqual([])
  })

  test('gets a new lease token at each claim', async () => {
    const rail = buildInstruction().railType
    await enqueueAged(...Array.from({ length: 50 }, () => [rail, 10, 1] as const))
    const tokens = new Set<string>()
    for (let round = 0; round < 3; round++) {
      const items = await claim(db, rail)
      for (const item of items) {
        tokens.add(item.leaseToken)
        await releaseOutboxLease(db.as('symphony_executor'), item, WORKER)
      }
    }
    expect(tokens.size).toBe(150)
  })
})

describe('a claim of outbox items', () => {
  test('leases items of the named rails only, or of all rails if none is named', async () => {
    await withTestDatabase(async (own) => {
      const [a, b, c] = [await enqueue(own), await enqueue(own), await enqueue(own)]
      const executor = own.as('symphony_executor')
      expect(ids(await claimOutboxBatch(executor, 10, WORKER, 60, { rails: [b.railType] }))).toEqual([b.outboxId])
      expect(await claimOutboxBatch(executor, 10, WORKER, 60, { rails: [b.railType, 'unused-rail'] })).toEqual([])
      expect(ids(await claimOutboxBatch(executor, 10, WORKER, 60))).toEqual([a.outboxId, c.outboxId])
      await own.expireLease(b.outboxId)
      expect(await claimOutboxBatch(executor, 10, WORKER, 60, { rails: [a.railType, c.railType] })).toEqual([])
      expect(ids(await claimOutboxBatch(executor, 10, WORKER, 60))).toEqual([b.outboxId])
    })
  })

  test('leases an item due at this instant, not one due a microsecond later', async () => {
    const rail = buildInstruction().railType
    const [item] = await enqueueAged([rail, 0, 1])
    // The clock of a claim cannot be stopped, so this calls lock_due_outbox_rows with a chosen time.
    const { rows: signature } = await db.queryNoRole<{ names: string[] }>(
      `SELECT proargnames AS names FROM pg_proc WHERE oid = 'lock_due_outbox_rows'::regproc`,
    )
    const known: Record<string, string> = {
      p_rails: 'ARRAY[p.rail_type]',
      p_kinds: 'ARRAY[p.is_message]',
      p_wanted: '10',
      p_now: 'p.next_attempt_at + $2::interval',
      p_any_paused: 'false',
    }
    const call = signature[0]!.names.map((name) => `${name} => ${known[name] ?? `'{}'`}`).join(', ')
    const lockDue = async (offset: string) => {
      const { rows } = await db.queryNoRole<{ found: number }>(
        `SELECT cardinality(lock_due_outbox_rows(${call})) AS found FROM payment_outbox_pending p WHERE outbox_id = $1`,
        [item!.outboxId, offset],
      )
      return rows[0]!.found
    }
    expect(await lockDue('0')).toBe(1)
    expect(await lockDue('-1 microsecond')).toBe(0)
  })

  test('leases items that became due, or whose leases expired, after its transaction began', async () => {
    const item = await enqueue(db, { notBefore: new Date('2100-01-01T00:00:00Z') })
    const late = await enqueueAndClaim(db)
    await db.as('symphony_executor').transaction(async (tx) => {
      await tx.query('SELECT 1')
      await db.queryNoRole(
        'UPDATE payment_outbox_pending SET next_attempt_at = clock_timestamp() WHERE outbox_id = $1',
        [item.outboxId],
      )
      await db.queryNoRole(
        'UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() WHERE outbox_id = $1',
        [late.outboxId],
      )
      const claimed = await claimOutboxBatch(tx, 10, 'worker-2', 60, { rails: [item.railType, late.railType] })
      expect(new Set(ids(claimed))).toEqual(new Set([item.outboxId, late.outboxId]))
    })
    // A lease starts at the claim, not at the start of the transaction.
    const { rows } = await db.queryNoRole(
      `SELECT claimed_at > next_attempt_at AS claimed_later, lease_expires_at - claimed_at = interval '60 seconds' AS whole
       FROM payment_outbox_pending WHERE outbox_id = $1`,
      [item.outboxId],
    )
    expect(rows).toEqual([{ claimed_later: true, whole: true }])
  })
})

describe('a claim with unavailable items', () => {
  test.each([
    ['one rail', []],
    ['several rails', ['another']],
  ])('skips an item locked by another transaction without waiting, on %s', async (_, otherRails) => {
    const rail = buildInstruction().railType
    const [locked, free] = await enqueueAged([rail, 20, 20], [rail, 10, 10])
    const holder = await db.connect()
    await holder.query('BEGIN')
    await holder.query('SELECT 1 FROM payment_outbox_pending WHERE outbox_id = $1 FOR UPDATE', [locked!.outboxId])
    const claimer = await db.connect('symphony_executor')
    // Fails the test soon if the claim waits.
    await claimer.query(`SET lock_timeout = '2s'`)
    const claimed = await claimOutboxBatch(
      { schema: db.schema, query: (text, values) => claimer.query<never>(text, [...(values ?? [])]) },
      10,
      WORKER,
      60,
      { rails: [rail, ...otherRails] },
    )
    expect(ids(claimed)).toEqual([free!.outboxId])
    await holder.query('ROLLBACK')
    await Promise.all([holder.end(), claimer.end()])
  })

  test('skips an item scheduled for later until it is due', async () => {
    const item = await enqueue(db, { notBefore: new Date('2100-01-01T00:00:00Z') })
    expect(await claim(db, item.railType)).toEqual([])
    await db.makeDue(item.outboxId)
    expect(ids(await claim(db, item.railType))).toEqual([item.outboxId])
  })

  test('skips a held item, due or with an expired lease, until the hold is resolved', async () => {
    const control = db.as('symphony_control')
    const item = await enqueue(db)
    await placeOutboxHold(control, item.outboxId, 'wait for the bank')
    expect(await claim(db, item.railType)).toEqual([])
    await resolveOutboxHold(control, item.outboxId, 'RETRY', 'the bank has answered')
    const claimed = await claimOnly(db, item.railType)
    await placeOutboxHold(control, item.outboxId, 'wait again')
    await db.expireLease(claimed.outboxId)
    expect(await claim(db, item.railType)).toEqual([])
    expect(await ledger(db, item.outboxId)).toEqual([])
  })

  test('skips an ordered item until its predecessor is terminal', async () => {
    const { participantId, railType } = buildInstruction()
    const [head, next] = await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), [
      buildInstruction({ participantId, railType, ordered: true }),
      buildInstruction({ participantId, railType, ordered: true }),
    ])
    const claimed = await claimOnly(db, railType)
    expect(claimed.outboxId).toBe(head!.outboxId)
    expect(await claim(db, railType)).toEqual([])
    await complete(db, claimed, { state: 'DISPATCHED' })
    expect(ids(await claim(db, railType))).toEqual([next!.outboxId])
  })

  test('skips a leased item until its lease has expired', async () => {
    const claimed = await enqueueAndClaim(db, {}, { leaseSeconds: 1 })
    await renewOutboxLease(db.as('symphony_executor'), claimed, WORKER, 600)
    expect(await claim(db, claimed.railType)).toEqual([])
    await db.expireLease(claimed.outboxId)
    expect(ids(await claim(db, claimed.railType))).toEqual([claimed.outboxId])
  })
})

describe('a takeover of an expired lease', () => {
  test('records the former worker and token, and leases the item with an unknown outcome', async () => {
    const crashed = await enqueueAndClaim(db, {}, { workerId: 'crashed' })
    // A takeover ignores the due time.
    await db.queryNoRole(
      `UPDATE payment_outbox_pending SET claimed_at = '2026-01-02T03:04:05.006Z', next_attempt_at = '2126-01-01',
         lease_expires_at = clock_timestamp() - interval '1 microsecond'
       WHERE outbox_id = $1`,
      [crashed.outboxId],
    )
    const taken = await claimOnly(db, crashed.railType, { workerId: 'successor' })
    expect(taken).toMatchObject({
      outboxId: crashed.outboxId,
      attemptCount: 1,
      outcomeUnknown: true,
      expiryStreak: 1,
      takenOver: true,
    })
    expect(taken.leaseToken).not.toBe(crashed.leaseToken)
    const [attempt, ...more] = await attemptRows(db, crashed.outboxId)
    expect(more).toEqual([])
    expect(attempt).toMatchObject({
      attempt_no: 1,
      state: 'ZOMBIE_REQUEUE',
      worker_id: 'crashed',
      lease_token: crashed.leaseToken,
      claimed_at: new Date('2026-01-02T03:04:05.006Z'),
      error_code: 'LEASE_EXPIRED',
      rail_reference: null,
      latency_ms: null,
    })
    expect(taken.evidence).toEqual({
      lateOutcome: null,
      lastAttempt: {
        attemptNo: 1,
        state: 'ZOMBIE_REQUEUE',
        railReference: null,
        railCode: null,
        errorCode: 'LEASE_EXPIRED',
        workerId: 'crashed',
        claimedAt: attempt!.claimed_at,
        completedAt: attempt!.completed_at,
        action: 'expired',
        outcomeUnknown: true,
      },
    })
    expect(await pendingRow(db, crashed.outboxId)).toMatchObject({
      claimed_by: 'successor',
      lease_token: taken.leaseToken,
    })
  })

  test('increases the expiry streak of the item, which a completion resets', async () => {
    const first = await enqueueAndClaim(db)
    const streaks = []
    for (let crash = 0; crash < 3; crash++) {
      await db.expireLease(first.outboxId)
      const { expiryStreak, outcomeUnknown } = await claimOnly(db, first.railType)
      streaks.push(expiryStreak)
      expect(outcomeUnknown).toBe(true)
    }
    expect(streaks).toEqual([1, 2, 3])
    await db.expireLease(first.outboxId)
    await complete(db, await claimOnly(db, first.railType), { state: 'RETRYABLE' })
    await db.makeDue(first.outboxId)
    expect(await claimOnly(db, first.railType)).toMatchObject({ expiryStreak: 0, takenOver: false })
    expect(await ledger(db, first.outboxId)).toEqual([
      '1 ZOMBIE_REQUEUE',
      '2 ZOMBIE_REQUEUE',
      '3 ZOMBIE_REQUEUE',
      '4 ZOMBIE_REQUEUE',
      '5 RETRYABLE',
    ])
  })

  test('is reported to onUnleased if it holds the item; the claim leases other due items', async () => {
    const { railType } = buildInstruction()
    const executor = db.as('symphony_executor')
    const takeOver = async (unleased?: UnleasedTakeover[]) => {
      const begun = await enqueueAndClaim(db, { railType }, { marked: true })
      await beginOutboxDispatch(executor, begun, WORKER)
      await db.expireLease(begun.outboxId)
      const { outboxId: due } = await enqueue(db, { railType })
      const asking =
        unleased === undefined ? {} : { onUnleased: (takeover: UnleasedTakeover) => unleased.push(takeover) }
      const items = await claimOutboxBatch(executor, 10, 'another', 600, { rails: [railType], ...asking })
      expect(items.map(({ outboxId }) => outboxId)).toEqual([due])
      expect(await ledger(db, begun.outboxId)).toEqual(['1 ZOMBIE_REQUEUE'])
      return begun.outboxId
    }
    await takeOver()
    const unleased: UnleasedTakeover[] = []
    const held = await takeOver(unleased)
    expect(unleased).toEqual([{ outboxId: held, railType, holdReason: 'OUTCOME_UNKNOWN' }])
  })

  test('requeues the item if the batch is full, adds a ledger row, and is reported to onUnleased', async () => {
    const { railType } = buildInstruction()
    const silent = [
      await enqueueAndClaim(db, { railType }),
      await enqueueAndClaim(db, { railType }),
      await enqueueAndClaim(db, { railType }),
    ]
    for (const { outboxId } of silent) await db.expireLease(outboxId)
    const unleased: UnleasedTakeover[] = []
    const executor = db.as('symphony_executor')
    const claimOne = (onUnleased: (takeover: UnleasedTakeover) => void) =>
      claimOutboxBatch(executor, 1, 'another', 600, { rails: [railType], onUnleased })
    const [first, ...others] = silent.map(({ outboxId }) => outboxId)
    // The claim leases the item whose lease expired first.
    expect(await claimOne((takeover) => unleased.push(takeover))).toMatchObject([{ outboxId: first, takenOver: true }])
    expect(unleased).toEqual(others.map((outboxId) => ({ outboxId, railType, holdReason: null })))
    for (const { outboxId } of silent) expect(await ledger(db, outboxId)).toEqual(['1 ZOMBIE_REQUEUE'])
    for (const outboxId of others)
      expect(await claimOne(() => expect.unreachable())).toMatchObject([
        { outboxId, takenOver: false, expiryStreak: 1, outcomeUnknown: true },
      ])
    expect(await claimOne(() => expect.unreachable())).toEqual([])
  })

  test('skips an item that the ledger refuses, and the claim leases the other items', async () => {
    const rail = buildInstruction().railType
    const poisoned = await enqueueAndClaim(db, { railType: rail })
    await db.expireLease(poisoned.outboxId)
    const [healthy] = await enqueueAged([rail, 10, 1])
    await db.queryNoRole(
      `ALTER TABLE payment_outbox_attempts ADD CONSTRAINT refuses_one CHECK (outbox_id <> '${poisoned.outboxId}')`,
    )
    try {
      expect(ids(await claim(db, rail))).toEqual([healthy!.outboxId])
      expect(await pendingRow(db, poisoned.outboxId)).toMatchObject({ lease_token: poisoned.leaseToken })
    } finally {
      await db.queryNoRole('ALTER TABLE payment_outbox_attempts DROP CONSTRAINT refuses_one')
    }
    expect(ids(await claim(db, rail))).toEqual([poisoned.outboxId])
  })
})

describe('the lease columns', () => {
  const columns = [
    ['claimed_by', `'w'`],
    ['lease_token', 'gen_random_uuid()'],
    ['lease_expires_at', `now() + interval '1 minute'`],
  ] as const
  const some = [1, 2, 3, 4, 5, 6].map((bits) => columns.filter((_, index) => (bits & (1 << index)) !== 0))

  test.for(some.map((set) => [set.map(([column]) => column).join(' and '), set] as const))(
    'refuse %s without the other lease columns (23514)',
    async ([, set]) => {
      const { outboxId } = await enqueue(db)
      const assignments = set.map(([column, value]) => `${column} = ${value}`).join(', ')
      const refusal = await failureOf(
        db.queryNoRole(`UPDATE payment_outbox_pending SET ${assignments} WHERE outbox_id = $1`, [outboxId]),
      )
      expect(refusal).toMatchObject({ code: '23514', constraint: 'payment_outbox_pending_lease_all_or_none' })
    },
  )

  test('can be set and cleared together', async () => {
    const { outboxId } = await enqueue(db)
    const setAll = (valueOf: (value: string) => string) =>
      db.queryNoRole(
        `UPDATE payment_outbox_pending SET ${columns.map(([column, value]) => `${column} = ${valueOf(value)}`).join(', ')}
         WHERE outbox_id = $1`,
        [outboxId],
      )
    await setAll((value) => value)
    expect(await pendingRow(db, outboxId)).toMatchObject({ claimed_by: 'w' })
    await setAll(() => 'NULL')
    expect(await pendingRow(db, outboxId)).toMatchObject({
      claimed_by: null,
      lease_token: null,
      lease_expires_at: null,
    })
  })
})
