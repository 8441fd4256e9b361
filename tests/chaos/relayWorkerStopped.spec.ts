import { expect, test } from 'vitest'
import { eventRows, pendingRow } from '../support/outboxItems.js'
import { PATIENTLY } from '../support/patiently.js'
import { RelayStage } from '../support/relayStage.js'
import { FOUND_BY_ASKING, HELD, SENT_AGAIN, type Story } from '../support/relayStories.js'

/** A worker is stopped for longer than its leases last; another takes its payments over; then it goes on. */

const POLICIES = ['inquire', 'resend', 'hold'] as const

interface Stop {
  readonly at: 'called' | 'answered'
  readonly leaseSeconds: string
  /** Ends the leases of the worker that is stopped. */
  readonly pass: (stage: RelayStage) => Promise<void>
  readonly stories: Record<(typeof POLICIES)[number], Story>
  /** What the worker learns when it goes on, and the ledger keeps beside what it decided without it. */
  readonly late: Readonly<Record<string, string>>
}

const STOPS: Readonly<Record<string, Stop>> = {
  'with the rail’s answers in its hands': {
    at: 'answered',
    leaseSeconds: '60',
    pass: (stage) => stage.expireLeases(),
    stories: { inquire: FOUND_BY_ASKING, resend: SENT_AGAIN, hold: HELD },
    late: { state: 'DISPATCHED', rail_code: 'SIM_PAID' },
  },
  'before its requests were sent': {
    at: 'called',
    leaseSeconds: '2',
    // They must really end: the time after which the rail refuses a request is the same one.
    pass: () => Promise.resolve(),
    stories: { inquire: SENT_AGAIN, resend: SENT_AGAIN, hold: { ...HELD, paid: 0 } },
    late: { state: 'RETRYABLE', rail_code: 'SIM_TOO_LATE' },
  },
}

test.each(Object.entries(STOPS))(
  'a worker stopped past its leases %s changes nothing when it goes on, and what it learned is kept',
  // Processes start and stop, also on a busy machine.
  { timeout: 180_000 },
  async (_when, { at, leaseSeconds, pass, stories, late }) => {
    const stage = await RelayStage.set()
    stage.checkpoints.close('first', at)
    const first = await stage.startWorker('first', { words: ['--port', '0', '--lease-seconds', leaseSeconds] })
    const items = await Promise.all(POLICIES.map((policy) => stage.enqueue(policy)))
    await expect.poll(() => stage.checkpoints.count('first', at), PATIENTLY).toBe(items.length)

    first.child.kill('SIGSTOP')
    await pass(stage)
    await stage.startWorker('second', { words: ['--no-http', '--rail-timeout-ms', '2000'] })
    await expect.poll(() => stage.leftCount(), PATIENTLY).toBe(0)
    expect(await stage.storiesOf(items)).toEqual(stories)

    first.child.kill('SIGCONT')
    stage.checkpoints.release()
    for (const { outboxId } of items) {
      const kept = async () =>
        (await eventRows(stage.db, outboxId)).filter(({ event_type: type }) => type !== 'HOLD_PLACED')
      await expect.poll(kept, PATIENTLY).toMatchObject([{ event_type: 'LATE_OUTCOME', actor: 'first', detail: late }])
    }
    // The ledger has it before the worker has said so.
    const losses = () => first.stderr().split('LEASE_LOST_CONCURRENCY_EVENT').length - 1
    await expect.poll(losses, PATIENTLY).toBe(items.length)
    await expect.poll(() => stage.metricOf(first, 'late_outcomes_total'), PATIENTLY).toBe(items.length)
    expect(await stage.metricOf(first, 'lease_lost_count')).toBe(items.length)
    expect(await stage.storiesOf(items)).toEqual(stories)
    // For whoever decides about the held one.
    const held = items.find(({ railType }) => railType === 'hold')
    expect(await pendingRow(stage.db, held?.outboxId ?? '')).toMatchObject({ late_outcome: late })
    expect(await stage.auditFindings()).toEqual([])
    first.child.kill('SIGTERM')
    expect((await first.ended).exitCode).toBe(0)
  },
)
