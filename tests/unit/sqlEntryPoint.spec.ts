import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import * as sql from '../../libs/entry/sql.js'
import { useTestDatabase } from '../support/database.js'
import { buildInstruction } from '../support/outboxItems.js'

const db = await useTestDatabase()
let database: sql.Database
beforeAll(async () => {
  database = sql.openDatabase({ url: db.url, schema: db.schema })
})
afterAll(async () => {
  await database.close()
})

test('the SQL wrappers claim and complete a payment and detect a lost lease', async () => {
  const { claimOutboxBatch, completeOutboxAttempt, enqueuePaymentOutbox } = sql.outbox
  const instruction = buildInstruction()
  const { outboxId } = await enqueuePaymentOutbox(database.as('symphony_ingest'), instruction)
  const executor = database.as('symphony_executor')
  const rails = [instruction.railType]
  const [item] = await claimOutboxBatch(executor, 10, 'own-relayer', 30, { rails })
  expect(item?.outboxId).toBe(outboxId)
  const outcome = { outboxId, state: 'DISPATCHED', railReference: 'bank-1' } as const

  const stale = completeOutboxAttempt(executor, 'own-relayer', { ...outcome, leaseToken: randomUUID() })
  await expect(stale).rejects.toSatisfy(sql.isLeaseLostError)
  const leaseToken = item?.leaseToken ?? ''
  const recorded: sql.RecordedAttempt = await completeOutboxAttempt(executor, 'own-relayer', { ...outcome, leaseToken })
  expect(recorded.state).toBe('DISPATCHED')
})

test('each wrapper, except two of the scheduler, has the name of its SQL function', async () => {
  const wrappers = [sql.outbox, sql.inbox, sql.scheduler, sql.lease].flatMap((namespace) => Object.keys(namespace))
  const { rows } = await db.queryNoRole<{ proname: string }>(
    'SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = $1::regnamespace',
    [db.schema],
  )
  const functions = new Set(rows.map(({ proname }) => proname))
  const others = wrappers.filter((name) => !functions.has(name.replaceAll(/[A-Z]/g, (c) => `_${c.toLowerCase()}`)))
  expect(others.toSorted()).toEqual(['createJobRunsFromDueJobs', 'getNextEventTime'])
})
