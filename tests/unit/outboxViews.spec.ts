import { readFile } from 'node:fs/promises'
import { beforeAll, describe, expect, test } from 'vitest'
import { readSystemStatus } from '../../libs/symphony/index.js'
import { createStatusRegistry } from '../../libs/observability/index.js'
import { pauseOutbox, placeOutboxHold } from '../../libs/outbox/index.js'
import { useTestDatabase, withTestDatabase } from '../support/database.js'
import { claim, complete, enqueue, enqueueAndClaim } from '../support/outboxItems.js'
import { createPerson, approve, enqueueFailed, propose, type Person } from '../support/outboxPeople.js'
import { RandomOutbox } from '../support/outboxRandom.js'

const db = await useTestDatabase()
let olga: Person
let pavel: Person
/** Expected state of each item. Every state occurs, and some items meet the conditions of several states. */
let expected: Map<string, string>

beforeAll(async () => {
  olga = await createPerson(db, 'olga')
  pavel = await createPerson(db, 'pavel')
  expected = await createItemOfEachKind()
})

const SECRET = 'secret-in-a-payload'
const tomorrow = () => new Date(Date.now() + 86_400_000)
const hold = (outboxId: string) => placeOutboxHold(olga.control, outboxId, 'please wait')

async function createItemOfEachKind(): Promise<Map<string, string>> {
  const states = new Map<string, string>()
  const payload = { secret: SECRET }
  const due = await enqueue(db, { payload })
  states.set(due.outboxId, 'DUE')
  const scheduled = await enqueue(db, { payload, notBefore: tomorrow() })
  states.set(scheduled.outboxId, 'SCHEDULED')

  const leased = await enqueueAndClaim(db, { payload })
  states.set(leased.outboxId, 'LEASED')
  const leasedAndHeld = await enqueueAndClaim(db)
  await hold(leasedAndHeld.outboxId)
  states.set(leasedAndHeld.outboxId, 'LEASED')
  const leasedAndPaused = await enqueueAndClaim(db)
  await pauseOutbox(olga.control, 'participant', leasedAndPaused.participantId, 'please wait')
  states.set(leasedAndPaused.outboxId, 'LEASED')

  const expired = await enqueueAndClaim(db)
  await db.expireLease(expired.outboxId)
  states.set(expired.outboxId, 'EXPIRED')
  const expiredAndHeld = await enqueueAndClaim(db)
  await hold(expiredAndHeld.outboxId)
  await db.expireLease(expiredAndHeld.outboxId)
  states.set(expiredAndHeld.outboxId, 'EXPIRED')

  const held = await enqueue(db)
  await hold(held.outboxId)
  states.set(held.outboxId, 'HELD')
  const heldAndScheduled = await enqueue(db, { notBefore: tomorrow() })
  await hold(heldAndScheduled.outboxId)
  states.set(heldAndScheduled.outboxId, 'HELD')

  const { participantId } = await enqueue(db, { ordered: true, notBefore: tomorrow() }).then((head) => {
    states.set(head.outboxId, 'SCHEDULED')
    return head
  })
  const blocked = await enqueue(db, { participantId, ordered: true })
  states.set(blocked.outboxId, 'BLOCKED')
  const blockedAndScheduled = await enqueue(db, { participantId, ordered: true, notBefore: tomorrow() })
  states.set(blockedAndScheduled.outboxId, 'BLOCKED')
  const blockedAndHeld = await enqueue(db, { participantId, ordered: true })
  await hold(blockedAndHeld.outboxId)
  states.set(blockedAndHeld.outboxId, 'HELD')

  const retrying = await enqueueAndClaim(db)
  await complete(db, retrying, { state: 'RETRYABLE', retryDelaySeconds: 86_400 })
  states.set(retrying.outboxId, 'SCHEDULED')
  const dispatched = await enqueueAndClaim(db, { payload })
  await complete(db, dispatched, { state: 'DISPATCHED', railReference: 'r-1' })
  states.set(dispatched.outboxId, 'DISPATCHED')
  const failed = await enqueueFailed(db, { payload })
  states.set(failed.outboxId, 'FAILED')
  const { redrivenAs } = await approve(pavel, await propose(olga, failed.outboxId, 'REDRIVE'))
  states.set(redrivenAs!, 'DUE')
  return states
}

interface SupervisorRow {
  readonly pending_count: bigint
  readonly due_unleased_count: bigint
  readonly leased_count: bigint
  readonly expired_lease_count: bigint
  readonly scheduled_count: bigint
  readonly blocked_count: bigint
  readonly held_count: bigint
  readonly oldest_pending_age_seconds: number
  readonly oldest_due_age_seconds: number
  readonly kinds: Readonly<Record<string, object>>
}

async function supervisor(database = db): Promise<SupervisorRow> {
  const { rows } = await database.queryNoRole<SupervisorRow>('SELECT * FROM supervisor_outbox_status')
  expect(rows).toHaveLength(1)
  return rows[0]!
}

function classes(row: SupervisorRow): Record<string, number> {
  return {
    DUE: Number(row.due_unleased_count),
    LEASED: Number(row.leased_count),
    EXPIRED: Number(row.expired_lease_count),
    SCHEDULED: Number(row.scheduled_count),
    BLOCKED: Number(row.blocked_count),
    HELD: Number(row.held_count),
  }
}

async function statesByItem(database = db): Promise<Map<string, string>> {
  const { rows } = await database.queryNoRole<{ outbox_id: string; state: string }>(
    'SELECT outbox_id, state FROM outbox_operational_status',
  )
  return new Map(rows.map((row) => [row.outbox_id, row.state]))
}

/** Counts the pending items in each state. */
function countPending(states: Map<string, string>): Record<string, number> {
  const counts: Record<string, number> = { DUE: 0, LEASED: 0, EXPIRED: 0, SCHEDULED: 0, BLOCKED: 0, HELD: 0 }
  for (const state of states.values()) if (state in counts) counts[state]! += 1
  return counts
}

async function operational(outboxId: string) {
  const { rows } = await db.queryNoRole('SELECT * FROM outbox_operational_status WHERE outbox_id = $1', [outboxId])
  return rows
}

describe('supervisor_outbox_status', () => {
  test('counts each pending item in exactly one of its state columns', async () => {
    const row = await supervisor()
    expect(classes(row)).toEqual(countPending(expected))
    const sum = Object.values(classes(row)).reduce((total, count) => total + count, 0)
    expect(Number(row.pending_count)).toBe(sum)
    for (const count of Object.values(classes(row))) expect(count).toBeGreaterThan(0)
  })

  test('is one row of zeros without items', async () => {
    await withTestDatabase(async (empty) => {
      const { kinds, ...row } = await supervisor(empty)
      const numbers = [row, kinds['payment'], kinds['message']].flatMap((one) => Object.values(one ?? { missing: 1 }))
      expect(new Set(numbers.map(Number))).toEqual(new Set([0]))
    })
  })

  test('has the age of the oldest item and the age of the oldest due time', async () => {
    await withTestDatabase(async (other) => {
      const old = await enqueue(other, { notBefore: tomorrow() })
      await other.queryNoRole(
        `UPDATE payment_outbox_pending SET created_at = now() - interval '3 hours' WHERE outbox_id = $1`,
        [old.outboxId],
      )
      expect(await supervisor(other)).toMatchObject({ oldest_due_age_seconds: 0 })
      const due = await enqueue(other)
      await other.queryNoRole(
        `UPDATE payment_outbox_pending SET next_attempt_at = now() - interval '1 hour' WHERE outbox_id = $1`,
        [due.outboxId],
      )
      const row = await supervisor(other)
      expect(row.oldest_pending_age_seconds).toBeGreaterThanOrEqual(3 * 3_600)
      expect(row.oldest_due_age_seconds).toBeGreaterThanOrEqual(3_600)
      expect(row.oldest_due_age_seconds).toBeLessThan(3 * 3_600)
    })
  })
})

describe('outbox_operational_status', () => {
  test('has one row per item, with the state of the item', async () => {
    const { rows } = await db.queryNoRole<{ n: bigint }>('SELECT count(*) AS n FROM outbox_operational_status')
    expect(rows[0]!.n).toBe(BigInt(expected.size))
    expect(await statesByItem()).toEqual(expected)
  })

  test('shows exactly the claimable items as DUE', async () => {
    await withTestDatabase(async (other) => {
      const due = [await enqueue(other), await enqueue(other, { ordered: true })]
      await enqueue(other, { notBefore: tomorrow() })
      await enqueue(other, { participantId: due[1]!.participantId, ordered: true })
      const states = await statesByItem(other)
      const claimable = [...states].filter(([, state]) => state === 'DUE').map(([outboxId]) => outboxId)
      const rails = await other.queryNoRole<{ rail_type: string }>('SELECT rail_type FROM payment_outbox_pending')
      const claimed = await claim(
        other,
        rails.rows.map((row) => row.rail_type),
      )
      expect(claimed.map((item) => item.outboxId).toSorted()).toEqual(claimable.toSorted())
      expect(claimable.toSorted()).toEqual(due.map((item) => item.outboxId).toSorted())
    })
  })

  test('shows the lease of a leased item and the age of the lease', async () => {
    const lease = await enqueueAndClaim(db)
    await db.queryNoRole(
      `UPDATE payment_outbox_pending SET claimed_at = now() - interval '90 seconds' WHERE outbox_id = $1`,
      [lease.outboxId],
    )
    const [row] = await operational(lease.outboxId)
    expect(row).toMatchObject({ claimed_by: 'worker-1', lease_expires_at: lease.leaseExpiresAt, state: 'LEASED' })
    expect(row!['lease_age_seconds']).toBeGreaterThanOrEqual(90)
    await complete(db, lease, { state: 'DISPATCHED' })
    expect(await operational(lease.outboxId)).toMatchObject([{ claimed_by: null, lease_age_seconds: null }])
    expected.set(lease.outboxId, 'DISPATCHED')
  })

  test('shows the time until an item is due, negative once it is overdue', async () => {
    const timeToDue = async (outboxId: string) => {
      const { rows } = await db.queryNoRole<{ sign: number }>(
        `SELECT sign(extract(epoch FROM time_to_due))::int AS sign FROM outbox_operational_status WHERE outbox_id = $1`,
        [outboxId],
      )
      return rows[0]!.sign
    }
    const item = await enqueue(db, { notBefore: tomorrow() })
    expect(await timeToDue(item.outboxId)).toBe(1)
    await db.makeDue(item.outboxId)
    expect(await timeToDue(item.outboxId)).toBe(-1)
    expected.set(item.outboxId, 'DUE')
  })

  test('shows the latest attempt only', async () => {
    const lease = await enqueueAndClaim(db)
    await complete(db, lease, { state: 'RETRYABLE', errorCode: 'BUSY', railCode: 'R1', retryDelaySeconds: 0 })
    expect(await operational(lease.outboxId)).toMatchObject([
      { last_attempt_no: 1, last_attempt_state: 'RETRYABLE', last_error_code: 'BUSY', last_rail_code: 'R1' },
    ])
    const [again] = await claim(db, lease.railType)
    await complete(db, again!, { state: 'DISPATCHED', railReference: 'r-2' })
    expect(await operational(lease.outboxId)).toMatchObject([
      {
        state: 'DISPATCHED',
        last_attempt_no: 2,
        last_attempt_state: 'DISPATCHED',
        last_rail_reference: 'r-2',
        last_error_code: null,
      },
    ])
    expected.set(lease.outboxId, 'DISPATCHED')
  })

  test('shows redrive_of for a redrive', async () => {
    const failed = await enqueueFailed(db)
    const { redrivenAs } = await approve(pavel, await propose(olga, failed.outboxId, 'REDRIVE'))
    expect(await operational(redrivenAs!)).toMatchObject([{ redrive_of: failed.outboxId, state: 'DUE' }])
    expected.set(failed.outboxId, 'FAILED').set(redrivenAs!, 'DUE')
  })

  test('shows hold_reason and held_by of a held item', async () => {
    const item = await enqueue(db)
    await hold(item.outboxId)
    expect(await operational(item.outboxId)).toMatchObject([
      { state: 'HELD', hold_reason: 'please wait', held_by: olga.name },
    ])
    expected.set(item.outboxId, 'HELD')
  })
})

test.for(['supervisor_outbox_status', 'outbox_operational_status'])(
  '%s shows no lease token and no payload to any reader',
  async (view) => {
    const { rows: tokens } = await db.queryNoRole<{ lease_token: string }>(
      'SELECT lease_token FROM payment_outbox_pending WHERE lease_token IS NOT NULL',
    )
    expect(tokens.length).toBeGreaterThan(0)
    for (const role of ['symphony_readonly', 'symphony_auditor', 'symphony_control']) {
      const reader = await db.connect(role)
      const { rows } = await reader.query<{ text: string }>(`SELECT v::text AS text FROM ${view} v`)
      const text = rows.map((row) => row.text).join('\n')
      expect(text).not.toContain(SECRET)
      for (const { lease_token: token } of tokens) expect(text).not.toContain(token)
      await reader.end()
    }
    const { rows: columns } = await db.queryNoRole<{ name: string }>(
      `SELECT attname AS name FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0`,
      [view],
    )
    expect(columns.map((column) => column.name)).not.toEqual(expect.arrayContaining(['lease_token']))
    expect(columns.map((column) => column.name)).not.toEqual(expect.arrayContaining(['payload']))
  },
)

test.for([21, 22])(
  'supervisor_outbox_status counts the states that outbox_operational_status shows (seed %i)',
  async (seed) => {
    await withTestDatabase(async (other) => {
      const people = [await createPerson(other, 'olga'), await createPerson(other, 'pavel')] as const
      await new RandomOutbox(other, seed, {
        ingest: () => other.as('symphony_ingest'),
        executor: () => other.as('symphony_executor'),
        people: [() => people[0].control, () => people[1].control],
      }).run(100)
      // Moves future due times and expiries by one hour, so that none passes between the two reads.
      await other.queryNoRole(
        `UPDATE payment_outbox_pending SET
         next_attempt_at = next_attempt_at + CASE WHEN next_attempt_at > clock_timestamp() THEN interval '1 hour' ELSE interval '0' END,
         lease_expires_at = lease_expires_at + CASE WHEN lease_expires_at > clock_timestamp() THEN interval '1 hour' ELSE interval '0' END`,
      )
      const row = await supervisor(other)
      const states = await statesByItem(other)
      expect(classes(row)).toEqual(countPending(states))
      const { rows } = await other.queryNoRole<{ pending: bigint; identities: bigint }>(
        `SELECT (SELECT count(*) FROM payment_outbox_pending) AS pending,
         (SELECT count(*) FROM payment_outbox_identities) AS identities`,
      )
      expect(row.pending_count).toBe(rows[0]!.pending)
      expect(Object.values(classes(row)).reduce((sum, count) => sum + count, 0)).toBe(Number(rows[0]!.pending))
      expect(states.size).toBe(Number(rows[0]!.identities))
    })
  },
)

test('outbox_held_by_reason counts documented reasons by name and all others as other', async () => {
  await withTestDatabase(async (fresh) => {
    const page = await readFile(new URL('../../docs/concepts/unknown-outcomes.md', import.meta.url), 'utf8')
    const rows = /## Hold reasons([^]*?)##/.exec(page)?.[1]?.split('\n') ?? []
    const reasons = rows.flatMap((row) => row.split('|')[1]?.match(/[A-Z_]{5,}/g) ?? [])
    expect(reasons).toEqual(expect.arrayContaining(['RETRY_CEILING', 'FIELD_KEY_MISSING']))
    const { control } = await createPerson(fresh, 'olga')
    for (const reason of [...reasons, 'please wait', 'retry_ceiling']) {
      await placeOutboxHold(control, (await enqueue(fresh)).outboxId, reason)
    }
    const metrics = await createStatusRegistry(await readSystemStatus(fresh.database)).metrics()
    const counted = [...metrics.matchAll(/^outbox_held_by_reason\{reason="(\w+)"\} (\d+)$/gm)]
    expect(Object.fromEntries(counted.map(([, reason, count]) => [reason, Number(count)]))).toEqual({
      ...Object.fromEntries(reasons.map((reason) => [reason, 1])),
      other: 2,
    })
  })
})
