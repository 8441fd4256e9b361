import { randomUUID } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import { enqueueInboxMessages, type InboxClaim } from '../../libs/inbox/index.js'
import { useTestDatabase } from '../support/database.js'
import { buildMessage, claimOf, enqueued, WORKER } from '../support/inboxMessages.js'
import { insertMany, PlanRecorder, scansOf } from '../support/plans.js'

/**
 * Tests that each call reads few rows by an index, however full the tables are. The tables were analysed while empty
 * and then filled with 48,000 messages that cannot be claimed. Rows are counted inside the functions; time is not
 * measured.
 */

const TABLES = ['inbox_messages', 'inbox_events'] as const
/** Number of messages per operation. */
const BATCH = 50
/**
 * Maximum number of rows per scan. An operation may read each message several times: before, under and after the row
 * lock.
 */
const ROWS_MAX = 6 * BATCH

// With branch counters the functions would also read other tables.
const db = await useTestDatabase({ countBranches: false })
beforeAll(async () => {
  const client = await db.connect()
  await client.query('ANALYZE inbox_messages, inbox_events')
  await insertMany(
    client,
    'inbox_messages',
    `INSERT INTO inbox_messages (source, message_id, topic, payload, content_hash, state, due_at, first_seen_at,
       last_seen_at, ended_at, claimed_by, fence, claim_expires_at, claimed_at)
     SELECT 'crowd', n::text, 't', '{}', '\\x00', s.state, now() + CASE WHEN s.state = 'seen' THEN interval '1 hour' ELSE '-1 hour' END,
       now(), now(), CASE WHEN s.state IN ('done', 'dead') THEN now() END,
       CASE WHEN s.state = 'processing' THEN 'w' END, CASE WHEN s.state = 'processing' THEN gen_random_uuid() END,
       CASE WHEN s.state = 'processing' THEN now() + interval '1 hour' END, CASE WHEN s.state = 'processing' THEN now() END
     FROM generate_series(1, 48000) n,
       LATERAL (SELECT CASE n % 6 WHEN 0 THEN 'seen' WHEN 1 THEN 'processing' WHEN 2 THEN 'dead' ELSE 'done' END) AS s(state)`,
  )
})

async function batch(): Promise<string> {
  const source = `batch-${randomUUID()}`
  const messages = Array.from({ length: BATCH }, (_, n) => buildMessage({ source, messageId: `m-${n}` }))
  await enqueueInboxMessages(db.as('symphony_ingest'), messages)
  return source
}

async function claims(): Promise<unknown[]> {
  const claimed = await claimOf(db, { source: await batch() })
  return valuesOf(claimed)
}

function valuesOf(claimed: readonly InboxClaim[]): unknown[] {
  return [
    claimed.map(({ source }) => source),
    claimed.map(({ messageId }) => messageId),
    claimed.map(({ fence }) => fence),
    WORKER,
  ]
}

const OPERATIONS: Readonly<
  Record<string, { readonly role?: string; readonly name: string; readonly prepare: () => Promise<unknown[]> }>
> = {
  'claim of due messages': {
    name: 'claim_inbox_batch',
    prepare: async () => {
      await batch()
      return [BATCH, WORKER, 600]
    },
  },
  'takeover of expired claims, some at the attempt limit': {
    name: 'claim_inbox_batch',
    prepare: async () => {
      const source = await batch()
      await claimOf(db, { source })
      await db.queryNoRole(
        `UPDATE inbox_messages SET claim_expires_at = now() - interval '1 second',
           attempt_count = CASE WHEN message_id LIKE '%1' THEN 20 ELSE 1 END WHERE source = $1`,
        [source],
      )
      return [BATCH, WORKER, 600]
    },
  },
  'claim without work': { name: 'claim_inbox_batch', prepare: async () => [1_000, WORKER, 600] },
  ack: { name: 'ack_inbox_messages', prepare: claims },
  abandon: { name: 'abandon_inbox_messages', prepare: claims },
  fail: { name: 'fail_inbox_messages', prepare: claims },
  'next event': { name: 'next_inbox_event', prepare: async () => [] },
  retention: {
    name: 'purge_inbox_messages',
    prepare: async () => {
      await db.queryNoRole(
        `UPDATE inbox_messages SET ended_at = now() - interval '2 days'
         WHERE source = 'crowd' AND message_id IN (SELECT (n * 6 + 3)::text FROM generate_series(1, ${BATCH}) n)`,
      )
      return [86_400, BATCH]
    },
  },
  'enqueue of a known message': {
    role: 'symphony_ingest',
    name: 'enqueue_inbox_message',
    prepare: async () => {
      const { source, messageId, topic, payload } = await enqueued(db)
      return [source, messageId, topic, { ...payload, other: true }]
    },
  },
  sighting: { name: 'record_inbox_sighting', prepare: async () => ['crowd', '17'] },
  revival: {
    role: 'symphony_control',
    name: 'revive_inbox_message',
    prepare: async () => ['crowd', '2', 'repaired'],
  },
}

test.each(Object.keys(OPERATIONS))('the %s reads few rows by an index, however full the table is', async (what) => {
  const { role = 'symphony_executor', name, prepare } = OPERATIONS[what]!
  const values = await prepare()
  const recorder = await PlanRecorder.open(db, role)
  const placeholders = values.map((_, index) => `$${index + 1}`).join(', ')
  const execution = await recorder.run(`SELECT * FROM ${db.qualify(name)}(${placeholders})`, values)
  await recorder.close()
  expect(execution.scanned.filter((table) => TABLES.some((large) => large === table))).toEqual([])
  for (const table of TABLES) {
    const scans = scansOf(execution, table)
    expect(scans.filter(({ type }) => type === 'Seq Scan')).toEqual([])
    for (const { type, index, rows } of scans) {
      expect(`${type} of ${index}: ${rows <= ROWS_MAX ? 'few' : rows} rows`).toBe(`${type} of ${index}: few rows`)
    }
  }
})
