import { expect, onTestFinished, test } from 'vitest'
import { OutboxStore } from '../../libs/outbox/index.js'
import { withTestDatabase, type TestDatabase } from '../support/database.js'
import { ledger, pendingRow } from '../support/outboxItems.js'
import {
  startTopicWorker,
  type TopicKillPoint,
  type TopicWorkerProcess,
  type TopicWorkerProcessOptions,
} from '../support/topicWorkerProcess.js'

/**
 * Kills real worker processes while their handlers write through `tx`. Each message must have its effect once.
 * TOPIC_TEST_MESSAGES=20000 runs the long form.
 */

const MESSAGES = Number(process.env['TOPIC_TEST_MESSAGES'] ?? 100)
const KILLS = Math.max(4, Math.ceil(MESSAGES / 500))
const TOPIC = 'effect'

type Settings = Omit<TopicWorkerProcessOptions, 'workerId' | 'killAt'>

/** Creates the application's table and a login that may act as the application and as executor. */
async function setUpShop(db: TestDatabase): Promise<Settings> {
  const { name: handlerRole } = await db.createLogin('shop')
  await db.queryNoRole(`
    CREATE SCHEMA shop; GRANT USAGE ON SCHEMA shop TO ${handlerRole};
    CREATE TABLE shop.effects (message_id text, process integer);
    GRANT SELECT, INSERT ON shop.effects TO ${handlerRole}`)
  const { url } = await db.createLogin('fleet', { roles: ['symphony_executor', handlerRole] })
  return { url, schema: db.schema, handlerRole, leaseSeconds: 2 }
}

async function start(settings: Settings, workerId: string, killAt?: TopicKillPoint): Promise<TopicWorkerProcess> {
  const worker = await startTopicWorker({ ...settings, workerId, ...(killAt === undefined ? {} : { killAt }) })
  onTestFinished(() => worker.kill())
  return worker
}

test.each<[TopicKillPoint, readonly string[]]>([
  ['written', ['1 ZOMBIE_REQUEUE', '2 DISPATCHED']],
  ['recorded', ['1 ZOMBIE_REQUEUE', '2 DISPATCHED']],
  ['committed', ['1 DISPATCHED']],
])(
  'a message has one effect although its worker is killed as soon as the effect is %s',
  { timeout: 60_000 },
  async (killAt, expected) => {
    await withTestDatabase(async (db) => {
      // Uses a long lease, so that its deadline does not end the first attempt on a slow machine. The test expires the
      // lease.
      const settings = { ...(await setUpShop(db)), leaseSeconds: 60 }
      const { outboxId } = await new OutboxStore(db.database).enqueue({ topic: TOPIC, payload: {}, messageId: 'm-1' })
      const victim = await start(settings, 'victim', killAt)
      expect(await victim.exited).toBe('SIGKILL')
      if ((await pendingRow(db, outboxId)) !== undefined) await db.expireLease(outboxId)
      const survivor = await start(settings, 'survivor')
      await expect.poll(() => ledger(db, outboxId), { timeout: 30_000 }).toEqual(expected)
      await survivor.stop()
      const { rows } = await db.queryNoRole('SELECT message_id FROM shop.effects')
      expect(rows).toEqual([{ message_id: 'm-1' }])
    })
  },
)

test(
  'every message has one effect despite two workers, kills and failing handlers',
  { timeout: 60_000 + MESSAGES * 20 },
  async () => {
    await withTestDatabase(async (db) => {
      const settings = await setUpShop(db)
      const store = new OutboxStore(db.database)
      const fleet = [await start(settings, 'worker-0'), await start(settings, 'worker-1')]
      const perKill = Math.ceil(MESSAGES / KILLS)
      for (let kills = 0; kills < KILLS; kills += 1) {
        const numbers = Array.from({ length: Math.min(perKill, MESSAGES - kills * perKill) }, (_, n) => n)
        await Promise.all(
          numbers.map((n) => store.enqueue({ topic: TOPIC, payload: {}, messageId: `m-${kills * perKill + n}` })),
        )
        const victim = fleet.shift()!
        await Promise.race([victim.untilRecorded(3 + (kills % 5)), finished(db)])
        await victim.kill()
        fleet.push(await start(settings, `worker-${kills + 2}`))
      }
      await finished(db)
      await Promise.all(fleet.map((worker) => worker.stop()))
      const { rows } = await db.queryNoRole(`
        SELECT (SELECT count(*) FROM shop.effects)::int AS effects,
          (SELECT count(DISTINCT message_id) FROM shop.effects)::int AS messages,
          (SELECT count(*) FROM payment_outbox_attempts WHERE state = 'DISPATCHED')::int AS dispatched,
          (SELECT count(*) FROM payment_outbox_attempts WHERE state = 'FAILED')::int AS failed`)
      expect(rows).toEqual([{ effects: MESSAGES, messages: MESSAGES, dispatched: MESSAGES, failed: 0 }])
    })
  },
)

/**
 * Waits until no message is pending. Makes retries due at once and resets expiry streaks, so that no message is held.
 */
async function finished(db: TestDatabase): Promise<void> {
  const isOver = async () => {
    await db.queryNoRole(`
      UPDATE payment_outbox_pending SET next_attempt_at = now(), expiry_streak = 0
      WHERE lease_token IS NULL AND (next_attempt_at > now() OR expiry_streak > 0)`)
    const { rows } = await db.queryNoRole('SELECT FROM payment_outbox_pending LIMIT 1')
    return rows.length === 0
  }
  await expect.poll(isOver, { interval: 100, timeout: 50_000 + MESSAGES * 15 }).toBe(true)
}
