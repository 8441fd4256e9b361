import { Writable } from 'node:stream'
import { pino, type Logger } from 'pino'
import { expect, test } from 'vitest'
import type { InboxWorkerEvent } from '../../libs/inbox/index.js'
import type { LeaseEvent } from '../../libs/lease/index.js'
import { logEvents, Metrics } from '../../libs/observability/index.js'
import { FaultLog } from '../../libs/observability/eventLog.js'
import type { PlatformEvent } from '../../libs/platform/index.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'

/** Stands for a payload or a secret. No log line may contain it. */
const CANARY = 'CANARY4929'

/** Returns a logger and the lines that it wrote at every level. */
function listen(): {
  readonly log: Logger
  readonly lines: () => Record<string, unknown>[]
  readonly text: () => string
} {
  let text = ''
  const sink = new Writable({
    write(chunk, _encoding, done) {
      text += String(chunk)
      done()
    },
  })
  const lines = () => {
    const parsed: Record<string, unknown>[] = text
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line))
    return parsed
  }
  return { log: pino({ level: 'trace', base: null, timestamp: false }, sink), lines, text: () => text }
}

const LEVELS = { debug: 20, info: 30, warn: 40, error: 50 } as const

/** Returns an error of a handler. The text and a field of the error contain the payload. */
function quotingError(): Error {
  return Object.assign(new TypeError(`cannot book ${CANARY}`), { code: 'BAD_BOOKING', payload: CANARY })
}

test('logEvents logs one line per inbox event, and only type and code of a handler’s error', () => {
  const { log, lines, text } = listen()
  const logEvent = logEvents(log)
  const about = { source: 'bank', messageId: 'm-1', topic: 't', attemptCount: 2 }
  const error = quotingError()
  const events: InboxWorkerEvent[] = [
    { type: 'inbox.claimed', messages: 1, takeovers: 0 },
    { type: 'inbox.notified' },
    { type: 'inbox.listening', connected: false },
    { type: 'inbox.done', ...about },
    { type: 'inbox.retried', error, ...about },
    { type: 'inbox.retried', error: CANARY, ...about },
    { type: 'inbox.deadLettered', error, ...about },
    { type: 'inbox.handlerMissing', ...about },
    { type: 'inbox.fenceLost', ...about },
    { type: 'inbox.fault', during: 'claiming', error: new Error('connection lost') },
  ]
  for (const event of events) logEvent(event)
  expect(lines().map(({ level, msg }) => [msg, level])).toEqual([
    ['inbox_claimed', LEVELS.debug],
    ['inbox_notified', LEVELS.debug],
    ['inbox_listening_lost', LEVELS.info],
    ['inbox_done', LEVELS.debug],
    ['inbox_retried', LEVELS.info],
    ['inbox_retried', LEVELS.info],
    ['inbox_dead_lettered', LEVELS.error],
    ['inbox_handler_missing', LEVELS.warn],
    ['INBOX_FENCE_LOST_CONCURRENCY_EVENT', LEVELS.info],
    ['inbox_fault', LEVELS.error],
  ])
  expect(lines()[4]).toMatchObject({ ...about, threw: 'TypeError BAD_BOOKING' })
  expect(lines()[5]).toMatchObject({ ...about, threw: 'string' })
  expect(text()).not.toContain(CANARY)
})

test('logEvents logs one line per lease event, and does not log a lost lease as an error', () => {
  const { log, lines, text } = listen()
  const logEvent = logEvents(log)
  const lease = { resource: 'r', owner: 'o' }
  const events: LeaseEvent[] = [
    { type: 'lease.acquired', ...lease, fencingToken: 9_007_199_254_740_993n },
    { type: 'lease.renewed', ...lease, fencingToken: 2n },
    { type: 'lease.ended', ...lease, reason: 'expired' },
    { type: 'lease.ended', ...lease, reason: 'released' },
    { type: 'lease.interrupted', ...lease, error: quotingError() },
    { type: 'lease.fault', resource: 'r', during: 'renewing a lease', error: new Error('connection lost') },
  ]
  for (const event of events) logEvent(event)
  expect(lines().map(({ level, msg }) => [msg, level])).toEqual([
    ['lease_acquired', LEVELS.info],
    ['lease_renewed', LEVELS.debug],
    ['lease_ended', LEVELS.info],
    ['lease_ended', LEVELS.info],
    ['leader_interrupted', LEVELS.warn],
    ['lease_fault', LEVELS.warn],
  ])
  expect(lines()[0]).toMatchObject({ ...lease, fencingToken: '9007199254740993' })
  expect(text()).not.toContain(CANARY)
})

test('logEvents logs one line per platform event; only discovery failures and faults are errors', () => {
  const { log, lines } = listen()
  const logEvent = logEvents(log)
  const events: PlatformEvent[] = [
    { type: 'platform.databaseAdded', database: 'a' },
    { type: 'platform.databaseDown', database: 'a' },
    { type: 'platform.databaseUp', database: 'a' },
    { type: 'platform.databaseRemoved', database: 'a' },
    { type: 'platform.alreadyServed', database: 'a' },
    { type: 'platform.discoveryFailed', error: new Error('no answer') },
    { type: 'platform.fault', database: 'a', worker: 'relayer', error: new Error('connection lost') },
  ]
  for (const event of events) logEvent(event)
  expect(lines().map(({ level, msg }) => [msg, level])).toEqual([
    ['database_added', LEVELS.info],
    ['database_down', LEVELS.warn],
    ['database_up', LEVELS.info],
    ['database_removed', LEVELS.info],
    ['database_already_served', LEVELS.warn],
    ['discovery_failed', LEVELS.error],
    ['fleet_fault', LEVELS.error],
  ])
})

test('logEvents logs a claim of 1,000 items and a repair as one line each, without item lags', () => {
  const { log, lines } = listen()
  const lagsMs = Array.from({ length: 1_000 }, () => 5)
  logEvents(log)({ type: 'outbox.claimed', items: 1_000, takeovers: 0, claimMs: 3, lagsMs })
  const counts = {
    expiredLeasesDetected: 2,
    leasesRepaired: 2,
    outboxIds: ['a', 'b'],
    holdsPlaced: { RETRY_CEILING: 1 },
  }
  logEvents(log)({ type: 'repair.repaired', ...counts })
  expect(lines()).toEqual([
    { level: LEVELS.debug, type: 'outbox.claimed', items: 1_000, takeovers: 0, claimMs: 3, msg: 'claimed' },
    {
      level: LEVELS.info,
      expired_leases_detected: 2,
      leases_repaired: 2,
      outboxIds: ['a', 'b'],
      holdsPlaced: { RETRY_CEILING: 1 },
      msg: 'leases_repaired',
    },
  ])
})

test('FaultLog writes the first fault of a kind, then one line per interval with a count', async () => {
  const { log, lines } = listen()
  const faults = new FaultLog(log, 200)
  const fail = (during: string) => faults.write('error', during, { during }, 'worker_fault')
  for (let failed = 0; failed < 1_000; failed += 1) fail('claiming')
  fail('completing')
  expect(lines().map(({ during, repeats }) => [during, repeats])).toEqual([
    ['claiming', undefined],
    ['completing', undefined],
  ])
  await expect
    .poll(() => lines().slice(2), POLL_OPTIONS)
    .toMatchObject([{ level: LEVELS.error, msg: 'worker_fault', during: 'claiming', repeats: 999, withinSeconds: 0.2 }])
  // After an interval without faults, the next fault is logged at once.
  const isLogged = () => {
    fail('completing')
    return lines().filter(({ during }) => during === 'completing').length
  }
  await expect.poll(isLogged, POLL_OPTIONS).toBeGreaterThan(1)
})

test('logEvents logs 50 equal faults of one worker as one line, even if their items differ', () => {
  const { log, lines } = listen()
  const logEvent = { relayer: logEvents(log), repair: logEvents(log), sealer: logEvents(log) }
  const error = Object.assign(new Error('refused'), { code: 'CONNECT_FAILED' })
  for (let failed = 0; failed < 50; failed += 1) {
    logEvent.relayer({ type: 'outbox.fault', during: 'completing', error, outboxId: `item-${failed}` })
    logEvent.repair({ type: 'repair.fault', during: 'repairing leases', error })
    logEvent.sealer({ type: 'ledger.fault', during: 'sealing the ledger', error })
  }
  expect(lines().map(({ msg }) => msg)).toEqual(['worker_fault', 'lease_repair_failed', 'ledger_sealing_failed'])
})

test('logEvents logs unrepaired leases as an error with ids, attempt numbers and SQLSTATE', () => {
  const { log, lines } = listen()
  const unrepaired = [{ outboxId: 'item-1', attemptNo: 3, sqlstate: '23514' }]
  logEvents(log)({ type: 'repair.unrepaired', leasesUnrepaired: 1, unrepaired })
  expect(lines()).toMatchObject([{ level: LEVELS.error, msg: 'leases_unrepaired', leases_unrepaired: 1, unrepaired }])
})

test('every counter and histogram has a series before its first event', async () => {
  const metrics = new Metrics({ version: '1' })
  metrics.outbox.declareRails(['sepa'])
  for (const { name, type, values } of await metrics.registry.getMetricsAsJSON()) {
    if (!['counter', 'histogram'].includes(String(type))) continue
    expect([name, values.length > 0]).toEqual([name, true])
  }
})
