import { expect, test } from 'vitest'
import { eventRows, pendingRow } from '../support/outboxItems.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { RelayFixture } from '../support/relayFixture.js'
import { FOUND_BY_INQUIRY, HELD, SENT_AGAIN, type RelayOutcome } from '../support/relayOutcomes.js'

/** Freezes a worker for longer than its leases. Another worker takes its payments over, then the first continues. */

const POLICIES = ['inquire', 'resend', 'hold'] as const

interface Stop {
  readonly at: 'called' | 'answered'
  readonly leaseSeconds: string
  /** Expires the leases of the frozen worker. */
  readonly pass: (fixture: RelayFixture) => Promise<void>
  readonly outcomes: Record<(typeof POLICIES)[number], RelayOutcome>
  /** Late outcome that the worker reports after it continues. The ledger keeps it as an event. */
  readonly late: Readonly<Record<string, string>>
}

const STOPS: Readonly<Record<string, Stop>> = {
  'after the rail answered': {
    at: 'answered',
    leaseSeconds: '60',
    pass: (fixture) => fixture.expireLeases(),
    outcomes: { inquire: FOUND_BY_INQUIRY, resend: SENT_AGAIN, hold: HELD },
    late: { state: 'DISPATCHED', rail_code: 'SIM_PAID' },
  },
  'before its requests were sent': {
    at: 'called',
    leaseSeconds: '2',
    // Does nothing, so that the leases expire in real time. The late request then arrives after its not-after time, and
    // the rail refuses it.
    pass: () => Promise.resolve(),
    outcomes: { inquire: SENT_AGAIN, resend: SENT_AGAIN, hold: { ...HELD, paid: 0 } },
    late: { state: 'RETRYABLE', rail_code: 'SIM_TOO_LATE' },
  },
}

test.each(Object.entries(STOPS))(
  'a worker frozen past its lease expiry records only late outcomes (frozen %s)',
  // Timeout that is long enough to start and stop processes on a busy machine.
  { timeout: 180_000 },
  async (_when, { at, leaseSeconds, pass, outcomes, late }) => {
    const fixture = await RelayFixture.set()
    fixture.checkpoints.close('first', at)
    const first = await fixture.startWorker('first', { words: ['--port', '0', '--lease-seconds', leaseSeconds] })
    const items = await Promise.all(POLICIES.map((policy) => fixture.enqueue(policy)))
    await expect.poll(() => fixture.checkpoints.count('first', at), POLL_OPTIONS).toBe(items.length)

    first.child.kill('SIGSTOP')
    await pass(fixture)
    await fixture.startWorker('second', { words: ['--no-http', '--rail-timeout-ms', '2000'] })
    await expect.poll(() => fixture.leftCount(), POLL_OPTIONS).toBe(0)
    expect(await fixture.outcomesOf(items)).toEqual(outcomes)

    first.child.kill('SIGCONT')
    fixture.checkpoints.release()
    for (const { outboxId } of items) {
      const kept = async () =>
        (await eventRows(fixture.db, outboxId)).filter(({ event_type: type }) => type !== 'HOLD_PLACED')
      await expect
        .poll(kept, POLL_OPTIONS)
        .toMatchObject([{ event_type: 'LATE_OUTCOME', actor: 'first', detail: late }])
    }
    // The ledger has the late outcome before the worker logs it.
    const losses = () => first.stderr().split('LEASE_LOST_CONCURRENCY_EVENT').length - 1
    await expect.poll(losses, POLL_OPTIONS).toBe(items.length)
    await expect.poll(() => fixture.metricOf(first, 'late_outcomes_total'), POLL_OPTIONS).toBe(items.length)
    expect(await fixture.metricOf(first, 'lease_lost_count')).toBe(items.length)
    expect(await fixture.outcomesOf(items)).toEqual(outcomes)
    // The operator who decides about the held item sees the late outcome.
    const held = items.find(({ railType }) => railType === 'hold')
    expect(await pendingRow(fixture.db, held?.outboxId ?? '')).toMatchObject({ late_outcome: late })
    expect(await fixture.auditFindings()).toEqual([])
    first.child.kill('SIGTERM')
    expect((await first.ended).exitCode).toBe(0)
  },
)
