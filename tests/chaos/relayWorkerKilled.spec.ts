import { expect, test } from 'vitest'
import type { Client } from 'pg'
import type { Running } from '../support/commandLine.js'
import type { Enqueued } from '../support/outboxItems.js'
import { PATIENTLY } from '../support/patiently.js'
import { RelayStage, type RelayPoint } from '../support/relayStage.js'
import { CARRIED, FOUND_BY_ASKING, HELD, SENT_AGAIN, SENT_BY_SECOND, type Story } from '../support/relayStories.js'

/** A worker is killed with payments in hand; another finishes them. Nothing is lost, nothing is paid twice. */

type Policy = 'inquire' | 'resend' | 'hold'

interface Scene {
  readonly stage: RelayStage
  readonly items: readonly Enqueued[]
  readonly kill: () => Promise<void>
}

interface Kill {
  /** The victim waits here. Where there is no such place, it is what the rail does that keeps it. */
  readonly at: RelayPoint | undefined
  /** For the rail: what it does with the first attempt and the second. */
  readonly simulate?: readonly string[]
  /** Brings the victim from there to the point of its death, and kills it. */
  readonly die: (scene: Scene) => Promise<void>
  readonly stories: Partial<Record<Policy, Story>>
}

const KILLS: Readonly<Record<string, Kill>> = {
  'after the claim, before the dispatch': {
    at: 'claimed',
    die: ({ kill }) => kill(),
    stories: { inquire: SENT_BY_SECOND, resend: SENT_BY_SECOND, hold: SENT_BY_SECOND },
  },
  'during the dispatch, before the rail has paid': {
    at: 'called',
    die: ({ kill }) => kill(),
    stories: { inquire: SENT_AGAIN, resend: SENT_AGAIN, hold: { ...HELD, paid: 0 } },
  },
  'during the dispatch, after the rail has paid': {
    at: undefined,
    simulate: ['timeoutAfterPaying', 'success'],
    die: async ({ stage, items, kill }) => {
      await expect.poll(() => stage.paidCount(), PATIENTLY).toBe(items.length)
      await kill()
    },
    stories: { inquire: FOUND_BY_ASKING, resend: SENT_AGAIN, hold: HELD },
  },
  'after the rail’s answer, before the completion': {
    at: 'answered',
    die: ({ kill }) => kill(),
    stories: { inquire: FOUND_BY_ASKING, resend: SENT_AGAIN, hold: HELD },
  },
  'during the completion, which the server finishes without it': {
    at: 'answered',
    die: async (scene) => {
      const keeper = await holdUpCompletions(scene)
      await scene.kill()
      await keeper.query('COMMIT')
    },
    stories: { inquire: CARRIED, hold: CARRIED },
  },
  'during the completion, which comes too late for its lease': {
    at: 'answered',
    die: async (scene) => {
      const keeper = await holdUpCompletions(scene)
      await scene.kill()
      await keeper.query(`UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() - interval '1 second'`)
      await keeper.query('COMMIT')
    },
    stories: { inquire: FOUND_BY_ASKING, hold: HELD },
  },
}

/** The completion of each item has reached the server and waits there for the row, until the transaction ends. */
async function holdUpCompletions({ stage: { db, checkpoints }, items }: Scene): Promise<Client> {
  const keeper = await db.connect()
  await keeper.query('BEGIN')
  await keeper.query('SELECT 1 FROM payment_outbox_pending FOR UPDATE')
  for (const [index, { outboxId }] of items.entries()) {
    // One by one: a relayer has two completions under way at the most, and a third would wait in its memory.
    checkpoints.release(outboxId)
    await expect
      .poll(async () => {
        const { rows } = await db.queryNoRole(
          `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'symphony worker'
             AND wait_event_type = 'Lock' AND query LIKE '%complete_outbox_packed%'`,
        )
        return rows.length
      }, PATIENTLY)
      .toBe(index + 1)
  }
  return keeper
}

async function killForGood({ child, ended }: Running): Promise<void> {
  child.kill('SIGKILL')
  expect((await ended).exitCode).toBe('SIGKILL')
}

/** Whatever the server was still doing for the dead is done. */
async function untilNoSessionIsLeft({ db }: RelayStage): Promise<void> {
  const sessions = async () => {
    const { rows } = await db.queryNoRole(
      `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'symphony worker'`,
    )
    return rows.length
  }
  await expect.poll(sessions, PATIENTLY).toBe(0)
}

test.each(Object.entries(KILLS))(
  'a worker killed %s: the next one finishes its payments',
  // Processes start and stop, also on a busy machine.
  { timeout: 180_000 },
  async (_when, { at, simulate, die, stories }) => {
    const stage = await RelayStage.set()
    const policies = (['inquire', 'resend', 'hold'] as const).filter((policy) => stories[policy] !== undefined)
    if (at !== undefined) stage.checkpoints.close('first', at)
    const first = await stage.startWorker('first', { words: ['--no-http'] })
    const payload = simulate === undefined ? {} : { simulate: [...simulate] }
    const items = await Promise.all(policies.map((policy) => stage.enqueue(policy, payload)))
    await expect.poll(() => stage.checkpoints.count('first', at ?? 'called'), PATIENTLY).toBe(items.length)

    await die({ stage, items, kill: () => killForGood(first) })
    await untilNoSessionIsLeft(stage)
    await stage.expireLeases()

    // What may still be on its way is given no more than this to arrive.
    await stage.startWorker('second', { words: ['--no-http', '--rail-timeout-ms', '2000'] })
    await expect.poll(() => stage.leftCount(), PATIENTLY).toBe(0)
    expect(await stage.storiesOf(items)).toEqual(stories)
    expect(await stage.auditFindings()).toEqual([])
  },
)
