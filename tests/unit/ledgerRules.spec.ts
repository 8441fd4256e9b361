import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { placeOutboxHold, recordLateOutcome } from '../../libs/outbox/index.js'
import { useTestDatabase, withTestDatabase } from '../support/database.js'
import { brokenLedgerRules, readLedgerText, type LedgerText } from '../support/ledgerRules.js'
import {
  claimOnly,
  complete,
  enqueue,
  enqueueAndClaim,
  enqueueAndFail,
  eventRows,
  WORKER,
} from '../support/outboxItems.js'
import { openConnection, race } from '../support/race.js'

/**
 * Database with two items. One has two events and three attempts, the last of which is terminal. The other has no
 * attempts.
 */
const db = await useTestDatabase()
let ledger: LedgerText
let ended: string
let pending: string
beforeAll(async () => {
  const item = await enqueueAndFail(db, 2)
  const lease = await claimOnly(db, item.railType)
  await complete(db, lease, { state: 'DISPATCHED', railReference: 'TX-1' })
  ended = item.outboxId
  for (const railCode of ['1', '2']) {
    await recordLateOutcome(db.as('symphony_executor'), WORKER, {
      outboxId: ended,
      leaseToken: lease.leaseToken,
      state: 'RETRYABLE',
      railCode,
    })
  }
  pending = (
    await enqueue(db, {
      idempotencyKey: randomUUID(),
      payload: { text: '€\u2028"\\', list: [1.5, 1e20, -0.0000001] },
    })
  ).outboxId
  ledger = await readLedgerText(db.as('symphony_auditor'))
})

test('a ledger written by the SQL functions breaks no rule', () => {
  expect(ledger.identities).toHaveLength(2)
  expect(ledger.attempts.map((row) => row.state)).toEqual(['RETRYABLE', 'RETRYABLE', 'DISPATCHED'])
  expect(ledger.events.length).toBeGreaterThanOrEqual(2)
  expect(brokenLedgerRules(ledger)).toEqual([])
})

describe('brokenLedgerRules', () => {
  const cases: Record<string, [change: (sound: LedgerText) => LedgerText, found: RegExp]> = {
    'an attempt with another payload': [
      (sound) => ({ ...sound, attempts: replaced(sound.attempts, 0, { payload: '{"amount": 2}' }) }),
      /^attempt 1 of .*: content_hash$/,
    ],
    'a pending item with another payload': [
      (sound) => ({ ...sound, pending: replaced(sound.pending, 0, { payload: '{}' }) }),
      /^pending .*: content_hash$/,
    ],
    'an attempt under another instruction': [
      (sound) => ({ ...sound, attempts: replaced(sound.attempts, 1, { instruction_id: 'other' }) }),
      /^attempt 2 of .*: instruction_id$/,
    ],
    'a missing attempt': [
      (sound) => ({ ...sound, attempts: sound.attempts.filter((_, index) => index !== 1) }),
      /^attempts of .*: row 2 is numbered 3$/,
    ],
    'a missing event': [
      (sound) => ({ ...sound, events: sound.events.filter((row) => row.event_no !== '1') }),
      /^events of .*: row 1 is numbered 2$/,
    ],
    'an attempt after the terminal one': [
      (sound) => ({ ...sound, attempts: replaced(sound.attempts, 1, { state: 'FAILED' }) }),
      /^attempts of .*: a row after the terminal one$/,
    ],
    'attempts without an identity': [
      (sound) => ({ ...sound, identities: sound.identities.filter((row) => row.outbox_id !== ended) }),
      /^attempt 1 of .*: no identity$/,
    ],
    'events without an identity': [
      (sound) => ({
        ...sound,
        identities: sound.identities.filter((row) => row.outbox_id !== ended),
        attempts: [],
      }),
      /^events of .*: no identity$/,
    ],
    'an item that is neither pending nor attempted': [
      (sound) => ({ ...sound, pending: sound.pending.filter((row) => row.outbox_id !== pending) }),
      /^identity .*: neither pending nor attempted$/,
    ],
  }
  test.for(Object.entries(cases))('reports %s', ([, [change, found]]) => {
    const broken = brokenLedgerRules(change(ledger))
    expect(broken[0]).toMatch(found)
  })
})

test('concurrent events of one item are numbered without a gap', async () => {
  await withTestDatabase(async (other) => {
    const lease = await enqueueAndClaim(other)
    const { outboxId, leaseToken } = lease
    const lock = await openConnection(other)
    await lock.query('BEGIN')
    await lock.query('SELECT FROM payment_outbox_pending WHERE outbox_id = $1 FOR UPDATE', [outboxId])
    const holding = openConnection(other, 'symphony_control').then((connection) =>
      placeOutboxHold(connection, outboxId, 'please wait'),
    )
    const { errors } = await race(
      other,
      'symphony_executor',
      12,
      (connection, index) =>
        recordLateOutcome(connection, WORKER, { outboxId, leaseToken, state: 'FAILED', railCode: `code ${index}` }),
      { releaseWhenAllWait: () => lock.query('COMMIT') },
    )
    await holding
    expect(errors).toEqual([])
    // After the terminal attempt the pending row is gone, so another lock orders the events.
    await complete(other, lease, { state: 'FAILED' })
    await race(other, 'symphony_executor', 12, (connection, index) =>
      recordLateOutcome(connection, WORKER, { outboxId, leaseToken, state: 'RETRYABLE', railCode: `code ${index}` }),
    )
    expect((await eventRows(other, outboxId)).map((event) => Number(event.event_no))).toEqual(
      Array.from({ length: 25 }, (_, index) => index + 1),
    )
    expect(brokenLedgerRules(await readLedgerText(other.as('symphony_auditor')))).toEqual([])
  })
})

function replaced<R>(rows: readonly R[], index: number, change: Partial<R>): R[] {
  return rows.map((row, at) => (at === index ? { ...row, ...change } : row))
}
