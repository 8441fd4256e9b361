import { createHash } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { Inbox, type InboxMessage } from '../../libs/inbox/index.js'
import { withTestDatabase, type TestDatabase } from '../support/database.js'
import { startInboxWorker, type InboxWorkerProcess } from '../support/inboxWorkerProcess.js'

/**
 * Kills worker processes, sends duplicates and uses the same ids in two sources. Handlers fail now and then. Each
 * message must have its effect once. INBOX_TEST_MESSAGES=100000 runs the long form.
 */

const MESSAGES = Number(process.env['INBOX_TEST_MESSAGES'] ?? 500)
const KILLS = Math.max(3, Math.ceil(MESSAGES / 2_000))
const WORKERS = 3
/** Lease of a message: short, so that the messages of a killed worker are soon claimed again. */
const LEASE_SECONDS = 2

test(
  'each inbox message has exactly one effect despite duplicates and killed workers',
  { timeout: 30_000 + MESSAGES * 20 },
  async () => {
    await withTestDatabase(async (db) => {
      const handlerRole = await setUpShop(db)
      const fleet = await Fleet.start(db, handlerRole)
      onTestFinished(() => fleet.end())

      const answers: Answers = { created: 0, differing: 0, sent: 0 }
      const inbox = new Inbox(db.database)
      const perKill = Math.ceil(MESSAGES / KILLS)
      for (let start = 0; start < MESSAGES; start += perKill) {
        await send(inbox, start, Math.min(start + perKill, MESSAGES), answers)
        await fleet.killOneAtWork((signal) => finished(db, signal))
      }
      await finished(db)
      await fleet.end()

      // Compares the messages with their effects.
      expect(answers.created).toBe(MESSAGES)
      const { rows } = await db.queryNoRole(
        `SELECT (SELECT count(*) FROM inbox_messages WHERE state = 'done')::int AS done,
           (SELECT count(*) FROM inbox_messages)::int AS messages,
           (SELECT count(*) FROM shop.effects)::int AS effects,
           (SELECT count(DISTINCT (source, message_id)) FROM shop.effects)::int AS distinct_effects,
           (SELECT count(*) FROM inbox_events WHERE event_type = 'CONTENT_DIFFERS')::int AS differing,
           (SELECT count(*) FROM inbox_events WHERE event_type <> 'CONTENT_DIFFERS')::int AS deaths,
           (SELECT sum(sightings) FROM inbox_messages)::int AS sightings`,
      )
      expect(rows).toEqual([
        {
          done: MESSAGES,
          messages: MESSAGES,
          effects: MESSAGES,
          distinct_effects: MESSAGES,
          differing: answers.differing,
          deaths: 0,
          sightings: answers.sent,
        },
      ])
      expect(answers.differing).toBeGreaterThan(0)
      expect(fleet.kills).toBe(KILLS)
      process.stdout.write(`inbox: ${MESSAGES} effects, ${fleet.kills} kills\n`)
    })
  },
)

async function setUpShop(db: TestDatabase): Promise<string> {
  const { name } = await db.createLogin('shop')
  await db.queryNoRole(`
    CREATE SCHEMA shop; GRANT USAGE ON SCHEMA shop TO ${name};
    CREATE TABLE shop.effects (source text, message_id text, process integer);
    GRANT SELECT, INSERT ON shop.effects TO ${name}`)
  return name
}

/** Waits until every message is done, or until the signal aborts. */
async function finished(db: TestDatabase, signal?: AbortSignal): Promise<void> {
  const isOver = async () => signal?.aborted === true || !(await isAnyLeft(db))
  await expect.poll(isOver, { interval: 100, timeout: 25_000 + MESSAGES * 10 }).toBe(true)
}

async function isAnyLeft(db: TestDatabase): Promise<boolean> {
  // Makes failed messages due at once instead of after their backoff of five seconds.
  await db.queryNoRole(`UPDATE inbox_messages SET due_at = now() WHERE state = 'seen' AND due_at > now()`)
  const { rows } = await db.queryNoRole<{ any_left: boolean }>(
    `SELECT EXISTS (SELECT 1 FROM inbox_messages WHERE state <> 'done') AS any_left`,
  )
  return rows[0]!.any_left
}

interface Answers {
  created: number
  differing: number
  sent: number
}

/** Sends each message, repeats about 29 of 100 at once or later, and repeats one of 100 with other content. */
async function send(inbox: Inbox, start: number, end: number, answers: Answers): Promise<void> {
  for (let next = start; next < end; next += BATCH) {
    const numbers = Array.from({ length: Math.min(BATCH, end - next) }, (_, n) => next + n)
    const batch = numbers.flatMap((n) => {
      const again = duplicateOf(n)
      return again === undefined ? [buildMessage(n)] : [buildMessage(n), again]
    })
    for (const { created, contentDiffers } of await inbox.enqueueMany(batch)) {
      answers.sent += 1
      if (created) answers.created += 1
      if (contentDiffers) answers.differing += 1
    }
  }
}

const BATCH = 100

/** Builds a message of one of two sources, which use the same ids. */
function buildMessage(n: number): InboxMessage {
  return { source: n % 2 === 0 ? 'bank' : 'shop', messageId: String(n >> 1), topic: 'effect', payload: { n } }
}

function duplicateOf(n: number): InboxMessage | undefined {
  const lot = createHash('sha256').update(String(n)).digest().readUInt16BE(0) % 100
  if (lot === 0) return { ...buildMessage(n), payload: { n, other: true } }
  if (lot >= 30) return undefined
  // Repeats this message, or an earlier one that may already be done.
  return buildMessage(lot < 15 ? n : Math.max(0, n - 40))
}

/** Keeps a number of worker processes running and replaces killed ones. */
class Fleet {
  kills = 0
  readonly #start: (workerId: string) => Promise<InboxWorkerProcess>
  readonly #workers: InboxWorkerProcess[] = []

  private constructor(start: (workerId: string) => Promise<InboxWorkerProcess>) {
    this.#start = start
  }

  static async start(db: TestDatabase, handlerRole: string): Promise<Fleet> {
    const { url } = await db.createLogin('fleet', { roles: ['symphony_executor', handlerRole] })
    const settings = { url, schema: db.schema, handlerRole, leaseSeconds: LEASE_SECONDS, concurrency: 5 }
    const fleet = new Fleet((workerId) => startInboxWorker({ ...settings, workerId }))
    await Promise.all(Array.from({ length: WORKERS }, () => fleet.#replace()))
    return fleet
  }

  /** Kills a worker after it has done a few messages, or when no message is left, and starts another. */
  async killOneAtWork(allDone: (signal: AbortSignal) => Promise<unknown>): Promise<void> {
    const victim = this.#workers.shift()!
    const killed = new AbortController()
    await Promise.race([victim.untilDone(3 + (this.kills % 5)), allDone(killed.signal)])
    killed.abort()
    await Promise.all([victim.kill(), this.#replace()])
    this.kills += 1
  }

  async end(): Promise<void> {
    await Promise.all(this.#workers.splice(0).map((worker) => worker.stop()))
  }

  async #replace(): Promise<void> {
    this.#workers.push(await this.#start(`worker-${this.#workers.length}-${this.kills}`))
  }
}
