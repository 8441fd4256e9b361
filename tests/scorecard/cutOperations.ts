import { randomUUID } from 'node:crypto'
import { DatabaseError, LeaseLostError, type Database, type RoleHandle } from '../../libs/db/index.js'
import { ackInboxMessages, claimInboxBatch, enqueueInboxMessage } from '../../libs/inbox/index.js'
import {
  claimOutboxBatch,
  completeOutboxAttempt,
  completeOutboxAttempts,
  enqueuePaymentOutbox,
  renewOutboxLease,
  type ClaimedItem,
} from '../../libs/outbox/index.js'
import { createOrUpdateJob, scheduleTimer } from '../../libs/scheduler/index.js'
import type { TestDatabase } from '../support/database.js'
import { buildInstruction, enqueueAndClaim, enqueue, WORKER } from '../support/outboxItems.js'
import { buildJobDefinition, buildTimerDefinition } from '../support/scheduled.js'

/** Result of a call as its caller receives it. */
export type CallResult = { readonly answer: unknown } | { readonly error: unknown }

/** One repeatable call, and checks that must pass however often the call was made. */
export interface Replayable {
  readonly role: 'symphony_ingest' | 'symphony_executor' | 'symphony_control'
  /** Makes the call over the connection that is cut. */
  readonly call: (database: Database) => Promise<unknown>
  /** Reads from the tables whether the call was committed. */
  readonly isCommitted: () => Promise<boolean>
  /** Repeats the call over a sound connection. Returns whether only the repeat took effect. */
  readonly replay: () => Promise<boolean>
  /** Returns problems after the repeat: duplicates or missing rows. */
  readonly check: () => Promise<readonly string[]>
}

/** Prepares a new call of one operation. */
export type CutOperation = (db: TestDatabase) => Promise<Replayable>

export const CUT_OPERATIONS: Readonly<Record<string, CutOperation>> = {
  enqueue: async (db) => enqueueOver(db, (database, work) => work(database.as('symphony_ingest'))),
  'enqueue in a transaction': async (db) =>
    enqueueOver(db, (database, work) => database.transactionAsRole('symphony_ingest', work)),

  claim: async (db) => {
    const { railType, outboxId } = await enqueue(db)
    const claim = (role: RoleHandle, worker = WORKER) => claimOutboxBatch(role, 1, worker, 600, { rails: [railType] })
    return {
      role: 'symphony_executor',
      call: (database) => claim(database.as('symphony_executor')),
      isCommitted: async () => (await leasesOf(db, outboxId)) === 1,
      // A repeated claim does not return the leased item again.
      replay: async () => (await claim(db.as('symphony_executor'))).length === 1,
      check: async () => {
        const leases = await leasesOf(db, outboxId)
        await db.expireLease(outboxId)
        const next = await claim(db.as('symphony_executor'), 'another')
        const again = await claim(db.as('symphony_executor'), 'third')
        return [
          ...expected('leases', leases, 1),
          ...expected('claims after the lease expired', next.length, 1),
          ...expected('claims after that', again.length, 0),
          ...expected('rows of the expired lease', await attemptsOf(db, outboxId, 'ZOMBIE_REQUEUE'), 1),
        ]
      },
    }
  },

  complete: async (db) =>
    completion(db, async (database, item) =>
      completeOutboxAttempt(database.as('symphony_executor'), WORKER, paid(item)),
    ),
  'complete, many at once': async (db) =>
    completion(db, async (database, item) =>
      completeOutboxAttempts(database.as('symphony_executor'), WORKER, [paid(item)]),
    ),

  renew: async (db) => {
    const item = await enqueueAndClaim(db, {}, { leaseSeconds: 30 })
    const secondsLeft = async () => {
      const { rows } = await db.queryNoRole<{ seconds: number; token: string }>(
        `SELECT extract(epoch FROM lease_expires_at - clock_timestamp())::float8 AS seconds, lease_token AS token
         FROM payment_outbox_pending WHERE outbox_id = $1`,
        [item.outboxId],
      )
      return rows[0]
    }
    const wasRenewed = async () => ((await secondsLeft())?.seconds ?? 0) > 60
    return {
      role: 'symphony_executor',
      call: (database) => renewOutboxLease(database.as('symphony_executor'), item, WORKER, 600),
      isCommitted: wasRenewed,
      replay: async () => {
        const first = !(await wasRenewed())
        await renewOutboxLease(db.as('symphony_executor'), item, WORKER, 600)
        return first
      },
      check: async () => [
        ...expected('renewed', await wasRenewed(), true),
        ...expected('the token', (await secondsLeft())?.token, item.leaseToken),
        ...expected('ledger rows', await attemptsOf(db, item.outboxId), 0),
      ],
    }
  },

  inbox: async (db) => {
    const message = { source: 'bank', messageId: randomUUID(), topic: 'effect', payload: { n: 1 } }
    const receive = (database: Pick<Database, 'as'>) => enqueueInboxMessage(database.as('symphony_ingest'), message)
    const known = () => count(db, 'SELECT 1 FROM inbox_messages WHERE message_id = $1', message.messageId)
    return {
      role: 'symphony_ingest',
      call: receive,
      isCommitted: async () => (await known()) === 1,
      replay: async () => (await receive(db)).created,
      check: async () => [
        ...expected('messages', await known(), 1),
        ...expected(
          'reports of other content',
          await count(db, 'SELECT 1 FROM inbox_events WHERE message_id = $1', message.messageId),
          0,
        ),
      ],
    }
  },

  'inbox, done': async (db) => {
    const key = { source: randomUUID(), messageId: 'only' }
    await enqueueInboxMessage(db.as('symphony_ingest'), { ...key, topic: 'effect', payload: {} })
    // Claims as many as possible, because messages of earlier operations come first.
    const claimed = (await claimInboxBatch(db.as('symphony_executor'), 1_000, WORKER, 600)).find(
      ({ source }) => source === key.source,
    )
    if (claimed === undefined) throw new Error('the message was not claimed')
    const ack = (role: RoleHandle) => ackInboxMessages(role, [claimed], WORKER)
    const done = () => count(db, `SELECT 1 FROM inbox_messages WHERE source = $1 AND state = 'done'`, key.source)
    return {
      role: 'symphony_executor',
      call: (database) => ack(database.as('symphony_executor')),
      isCommitted: async () => (await done()) === 1,
      replay: async () => (await ack(db.as('symphony_executor'))).length === 1,
      check: async () => expected('done', await done(), 1),
    }
  },

  schedule: async (db) => {
    const job = buildJobDefinition()
    const define = (database: Pick<Database, 'as'>) => createOrUpdateJob(database.as('symphony_control'), job)
    const jobs = () => count(db, 'SELECT 1 FROM scheduler_jobs WHERE job_name = $1', job.name)
    return {
      role: 'symphony_control',
      call: define,
      isCommitted: async () => (await jobs()) === 1,
      replay: async () => (await define(db)).created,
      check: async () => [
        ...expected('jobs', await jobs(), 1),
        ...expected('runs', await count(db, 'SELECT 1 FROM scheduler_job_runs WHERE job_name = $1', job.name), 0),
      ],
    }
  },

  'schedule a timer': async (db) => {
    const timer = buildTimerDefinition({ timerId: randomUUID(), dueAt: new Date('2100-01-01T00:00:00Z') })
    const schedule = (database: Pick<Database, 'as'>) => scheduleTimer(database.as('symphony_ingest'), timer)
    const timers = () => count(db, 'SELECT 1 FROM scheduler_timers WHERE topic = $1', timer.topic)
    return {
      role: 'symphony_ingest',
      call: schedule,
      isCommitted: async () => (await timers()) === 1,
      replay: async () => {
        const { rows } = await db.queryNoRole<{ now: string }>('SELECT clock_timestamp()::text AS now')
        const timerId = await schedule(db)
        if (timerId !== timer.timerId) throw new Error(`the repeated call returned ${timerId}`)
        // Both calls return the same answer. The creation time of the row shows which of them wrote it.
        const written = 'SELECT 1 FROM scheduler_timers WHERE topic = $1 AND created_at >= $2::timestamptz'
        return (await count(db, written, timer.topic, rows[0]?.now)) === 1
      },
      check: async () => expected('timers', await timers(), 1),
    }
  },
}

type Run = <T>(database: Database, work: (role: Parameters<typeof enqueuePaymentOutbox>[0]) => Promise<T>) => Promise<T>

async function enqueueOver(db: TestDatabase, run: Run): Promise<Replayable> {
  const instruction = buildInstruction()
  const { instructionId } = instruction
  const items = () => count(db, 'SELECT 1 FROM payment_outbox_identities WHERE instruction_id = $1', instructionId)
  let first: string | undefined
  let again: string | undefined
  return {
    role: 'symphony_ingest',
    call: async (database) => {
      const { outboxId } = await run(database, (role) => enqueuePaymentOutbox(role, instruction))
      first = outboxId
    },
    isCommitted: async () => (await items()) === 1,
    replay: async () => {
      const { outboxId, created } = await enqueuePaymentOutbox(db.as('symphony_ingest'), instruction)
      again = outboxId
      return created
    },
    check: async () => [
      ...expected('items', await items(), 1),
      ...(first === undefined ? [] : expected('the item of the replay', again, first)),
      ...expected(
        'queue rows with sequence 1',
        await count(
          db,
          'SELECT 1 FROM payment_outbox_pending WHERE instruction_id = $1 AND sequence_id = 1',
          instructionId,
        ),
        1,
      ),
    ],
  }
}

async function completion(
  db: TestDatabase,
  complete: (database: Pick<Database, 'as'>, item: ClaimedItem) => Promise<unknown>,
): Promise<Replayable> {
  const item = await enqueueAndClaim(db)
  const recorded = () => attemptsOf(db, item.outboxId)
  return {
    role: 'symphony_executor',
    call: (database) => complete(database, item),
    isCommitted: async () => (await recorded()) === 1,
    replay: async () => {
      const [verdict] = await completeOutboxAttempts(db.as('symphony_executor'), WORKER, [paid(item)])
      if (verdict === undefined || verdict.verdict === 'LEASE_LOST')
        throw new Error('the repeated call returned LEASE_LOST')
      const { attemptNo, state } = verdict
      if (attemptNo !== 1 || state !== 'DISPATCHED') throw new Error(`the repeated call returned ${attemptNo} ${state}`)
      return verdict.verdict === 'RECORDED'
    },
    check: async () => [
      ...expected('ledger rows', await recorded(), 1),
      ...expected('queue rows', await leasesOf(db, item.outboxId), 0),
      // The function for a single item throws. Its error contains the recorded outcome.
      ...(await completeOutboxAttempt(db.as('symphony_executor'), WORKER, paid(item)).then(
        () => ['a second completion was accepted'],
        (error: unknown) =>
          expected(
            'the recorded outcome in the error',
            error instanceof LeaseLostError && JSON.stringify(error.recorded),
            JSON.stringify({ attemptNo: 1, state: 'DISPATCHED' }),
          ),
      )),
    ],
  }
}

/**
 * Returns problems of an error after a cut. It must be a DatabaseError whose disposition is not fatal, and not retry if
 * the tables show that the call was committed.
 */
export function wrongError(error: unknown, isCommitted: boolean | undefined): readonly string[] {
  if (!(error instanceof DatabaseError)) return [`the error is not a DatabaseError: ${String(error)}`]
  if (error.disposition === 'fatal') return [`a cut connection has disposition fatal: ${error.code} ${error.message}`]
  if (error.disposition === 'retry' && isCommitted === true) {
    return [`a committed call has disposition retry: ${error.code} ${error.message}`]
  }
  return []
}

function paid({ outboxId, leaseToken }: ClaimedItem) {
  return { outboxId, leaseToken, state: 'DISPATCHED', railReference: `paid-${outboxId}` } as const
}

function expected(what: string, got: unknown, wanted: unknown): string[] {
  return got === wanted ? [] : [`${what}: expected ${String(wanted)}, got ${String(got)}`]
}

async function leasesOf(db: TestDatabase, outboxId: string): Promise<number> {
  return count(db, 'SELECT 1 FROM payment_outbox_pending WHERE outbox_id = $1 AND lease_token IS NOT NULL', outboxId)
}

async function attemptsOf(db: TestDatabase, outboxId: string, state?: string): Promise<number> {
  return state === undefined
    ? count(db, 'SELECT 1 FROM payment_outbox_attempts WHERE outbox_id = $1', outboxId)
    : count(db, 'SELECT 1 FROM payment_outbox_attempts WHERE outbox_id = $1 AND state::text = $2', outboxId, state)
}

async function count(db: TestDatabase, query: string, ...values: readonly unknown[]): Promise<number> {
  const { rows } = await db.queryNoRole<{ count: number }>(`SELECT count(*)::int FROM (${query}) AS found`, values)
  return rows[0]?.count ?? 0
}
