import { expect, test } from 'vitest'
import type { Client } from 'pg'
import type { Running } from '../support/commandLine.js'
import type { Enqueued } from '../support/outboxItems.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { RelayFixture, type RelayPoint } from '../support/relayFixture.js'
import {
  DISPATCHED_ONCE,
  FOUND_BY_INQUIRY,
  HELD,
  SENT_AGAIN,
  SENT_BY_SECOND,
  type RelayOutcome,
} from '../support/relayOutcomes.js'

/**
 * Kills a worker that has leased payments. Another worker must finish them, except those held for people, and none may
 * be lost or paid twice.
 */

type Policy = 'inquire' | 'resend' | 'hold'

interface Scenario {
  readonly fixture: RelayFixture
  readonly items: readonly Enqueued[]
  readonly kill: () => Promise<void>
}

interface Kill {
  /** Checkpoint at which the victim waits. If undefined, the victim waits in a call of the simulated rail. */
  readonly at: RelayPoint | undefined
  /** Behaviour of the rail at the first and the second attempt. */
  readonly simulate?: readonly string[]
  /** Lets the victim continue from its checkpoint to the point of its death and kills it. */
  readonly die: (scenario: Scenario) => Promise<void>
  readonly outcomes: Partial<Record<Policy, RelayOutcome>>
}

const KILLS: Readonly<Record<string, Kill>> = {
  'after the claim, before the dispatch': {
    at: 'claimed',
    die: ({ kill }) => kill(),
    outcomes: { inquire: SENT_BY_SECOND, resend: SENT_BY_SECOND, hold: SENT_BY_SECOND },
  },
  'during the dispatch, before the rail has paid': {
    at: 'called',
    die: ({ kill }) => kill(),
    outcomes: { inquire: SENT_AGAIN, resend: SENT_AGAIN, hold: { ...HELD, paid: 0 } },
  },
  'during the dispatch, after the rail has paid': {
    at: undefined,
    simulate: ['timeoutAfterPaying', 'success'],
    die: async ({ fixture, items, kill }) => {
      await expect.poll(() => fixture.paidCount(), POLL_OPTIONS).toBe(items.length)
      await kill()
    },
    outcomes: { inquire: FOUND_BY_INQUIRY, resend: SENT_AGAIN, hold: HELD },
  },
  'after the rail’s answer, before the completion': {
    at: 'answered',
    die: ({ kill }) => kill(),
    outcomes: { inquire: FOUND_BY_INQUIRY, resend: SENT_AGAIN, hold: HELD },
  },
  'during the completion, which the server then commits': {
    at: 'answered',
    die: async (scenario) => {
      const keeper = await holdUpCompletions(scenario)
      await scenario.kill()
      await keeper.query('COMMIT')
    },
    outcomes: { inquire: DISPATCHED_ONCE, hold: DISPATCHED_ONCE },
  },
  'during the completion, which is refused because its lease expired': {
    at: 'answered',
    die: async (scenario) => {
      const keeper = await holdUpCompletions(scenario)
      await scenario.kill()
      await keeper.query(`UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() - interval '1 second'`)
      await keeper.query('COMMIT')
    },
    outcomes: { inquire: FOUND_BY_INQUIRY, hold: HELD },
  },
}

/**
 * Locks all queue rows in a transaction, and waits until the completion of each item waits for this lock. Returns the
 * connection of the transaction.
 */
async function holdUpCompletions({ fixture: { db, checkpoints }, items }: Scenario): Promise<Client> {
  const keeper = await db.connect()
  await keeper.query('BEGIN')
  await keeper.query('SELECT 1 FROM payment_outbox_pending FOR UPDATE')
  for (const [index, { outboxId }] of items.entries()) {
    // Releases one item at a time, so that each has its own completion call. Two calls are the maximum: a relayer keeps
    // a third outcome in memory.
    checkpoints.release(outboxId)
    await expect
      .poll(async () => {
        const { rows } = await db.queryNoRole(
          `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'symphony worker'
             AND wait_event_type = 'Lock' AND query LIKE '%complete_outbox_packed%'`,
        )
        return rows.length
      }, POLL_OPTIONS)
      .toBe(index + 1)
  }
  return keeper
}

async function killAndWait({ child, ended }: Running): Promise<void> {
  child.kill('SIGKILL')
  expect((await ended).exitCode).toBe('SIGKILL')
}

/** Waits until the server has ended all sessions of the killed worker. */
async function untilNoSessionIsLeft({ db }: RelayFixture): Promise<void> {
  const sessions = async () => {
    const { rows } = await db.queryNoRole(
      `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'symphony worker'`,
    )
    return rows.length
  }
  await expect.poll(sessions, POLL_OPTIONS).toBe(0)
}

test.each(Object.entries(KILLS))(
  'no payment is lost or paid twice if its worker is killed %s',
  // Timeout that is long enough to start and stop processes on a busy machine.
  { timeout: 180_000 },
  async (_when, { at, simulate, die, outcomes }) => {
    const fixture = await RelayFixture.set()
    const policies = (['inquire', 'resend', 'hold'] as const).filter((policy) => outcomes[policy] !== undefined)
    if (at !== undefined) fixture.checkpoints.close('first', at)
    const first = await fixture.startWorker('first', { words: ['--no-http'] })
    const payload = simulate === undefined ? {} : { simulate: [...simulate] }
    const items = await Promise.all(policies.map((policy) => fixture.enqueue(policy, payload)))
    await expect.poll(() => fixture.checkpoints.count('first', at ?? 'called'), POLL_OPTIONS).toBe(items.length)

    await die({ fixture, items, kill: () => killAndWait(first) })
    await untilNoSessionIsLeft(fixture)
    await fixture.expireLeases()

    // The second worker waits for the rail timeout before it inquires or resends.
    await fixture.startWorker('second', { words: ['--no-http', '--rail-timeout-ms', '2000'] })
    await expect.poll(() => fixture.leftCount(), POLL_OPTIONS).toBe(0)
    expect(await fixture.outcomesOf(items)).toEqual(outcomes)
    expect(await fixture.auditFindings()).toEqual([])
  },
)
