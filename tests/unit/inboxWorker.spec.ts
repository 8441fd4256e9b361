import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ArgumentRangeError, InvalidArgumentError, PermanentFailureError } from '../../libs/core/index.js'
import { openDatabase, type Queryable } from '../../libs/db/index.js'
import {
  InboxWorker,
  InboxWorkerOptionError,
  readInboxEvents,
  type InboxClaim,
  type InboxHandler,
  type InboxHandlerContext,
  type InboxWorkerEvent,
  type InboxWorkerOptions,
} from '../../libs/inbox/index.js'
import { sleep } from '../../libs/worker/index.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { gate } from '../support/gate.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { buildMessage, claimOf, enqueued, expireClaim, makeDue, rowOf } from '../support/inboxMessages.js'
import { openConnection, untilTableWaits } from '../support/race.js'

/** Database of one test, because a worker claims every due message of its database. */
let db: TestDatabase
let events: InboxWorkerEvent[]
let stopping: (() => Promise<void>)[]
beforeEach(async () => {
  db = await createTestDatabase()
  events = []
  stopping = []
  await setUpApplication()
})
afterEach(async () => {
  for (const stop of stopping) await stop()
  await db.drop()
})

/** Role of the application, which may write its own table and nothing of Symphony. */
let application: string

async function setUpApplication(): Promise<void> {
  application = (await db.createLogin('application')).name
  await db.queryNoRole(`GRANT ${application} TO symphony_test_login;
    CREATE SCHEMA shop; GRANT USAGE ON SCHEMA shop TO ${application};
    CREATE TABLE shop.effects (source text, message_id text);
    GRANT SELECT, INSERT ON shop.effects TO ${application}`)
}

const write: InboxHandler = async ({ source, messageId }, { tx }) => {
  await tx.query('INSERT INTO shop.effects VALUES ($1, $2)', [source, messageId])
}

const swallowing: InboxHandler = async (claimed, handling) => {
  await write(claimed, handling)
  await handling.tx.query('SELECT 1 / 0').catch(() => {})
}

async function effects(): Promise<number> {
  const { rows } = await db.queryNoRole<{ count: bigint }>('SELECT count(*) FROM shop.effects')
  return Number(rows[0]!.count)
}

function worker(
  handlers: Readonly<Record<string, InboxHandler>>,
  options: Partial<InboxWorkerOptions> = {},
): InboxWorker {
  const made = new InboxWorker(db.database, handlers, { handlerRole: application, ...options }, (event) =>
    events.push(event),
  )
  stopping.push(() => made.stop())
  return made
}

const typesOf = () => events.map(({ type }) => type)

describe('InboxWorker.runOnce', () => {
  test('calls the handler of each topic, and commits its writes together with the state done', async () => {
    const seen: InboxClaim[] = []
    const one = await enqueued(db, { topic: 'one', payload: { n: 1 } })
    const two = await enqueued(db, { topic: 'two' })
    const handlers: Record<string, InboxHandler> = {
      one: async (message, handling) => {
        seen.push(message)
        await write(message, handling)
      },
      two: write,
    }
    expect(await worker(handlers).runOnce()).toEqual({
      claimed: 2,
      done: 2,
      retried: 0,
      deadLettered: 0,
      handlersMissing: 0,
      handlerNotCalled: 0,
      fencesLost: 0,
    })
    expect(seen).toMatchObject([{ ...one, attemptCount: 1 }])
    for (const message of [one, two]) expect(await rowOf(db, message)).toMatchObject({ state: 'done' })
    expect(await effects()).toBe(2)
    expect(await worker(handlers).runOnce()).toMatchObject({ claimed: 0 })
  })

  test('runs the handler in the role of the application, without the rights of Symphony', async () => {
    const roles: string[] = []
    const message = await enqueued(db)
    await worker({
      [message.topic]: async (_message, { tx }) => {
        const { rows } = await tx.query<{ role: string; may: boolean }>(
          `SELECT current_user AS role, has_schema_privilege($1, 'USAGE') AS may`,
          [db.schema],
        )
        roles.push(`${rows[0]!.role} ${rows[0]!.may}`)
        await tx.query(`SELECT * FROM ${db.qualify('ack_inbox_messages')}('{}', '{}', '{}', 'w')`)
      },
    }).runOnce()
    expect(roles).toEqual([`${application} false`])
    expect(await rowOf(db, message)).toMatchObject({ state: 'seen', last_error: expect.stringContaining('permission') })
  })

  test('rolls back the writes of a handler that throws; the message is due later, with the error', async () => {
    const message = await enqueued(db)
    const failing: InboxHandler = async (claimed, handling) => {
      await write(claimed, handling)
      throw new Error('the warehouse is closed', { cause: new Error('until Monday') })
    }
    expect(await worker({ [message.topic]: failing }).runOnce()).toMatchObject({ done: 0, retried: 1 })
    expect(await effects()).toBe(0)
    expect(await rowOf(db, message)).toMatchObject({
      state: 'seen',
      attempt_count: 1,
      due_later: true,
      last_error: 'Error: the warehouse is closed (Error: until Monday)',
    })
    await makeDue(db, message)
    expect(await worker({ [message.topic]: write }).runOnce()).toMatchObject({ done: 1 })
    expect(await effects()).toBe(1)
  })

  test('commits nothing if the handler ignored the error of a failed statement', async () => {
    const message = await enqueued(db)
    await worker({ [message.topic]: swallowing }).runOnce()
    expect(await effects()).toBe(0)
    expect(await rowOf(db, message)).toMatchObject({
      state: 'seen',
      last_error: expect.stringContaining('22012'),
    })
  })

  test('makes the message dead if the handler throws an error named PermanentFailureError', async () => {
    class Foreign extends Error {
      override readonly name = 'PermanentFailureError'
    }
    for (const failure of [new PermanentFailureError('malformed'), new Foreign('malformed')]) {
      const message = await enqueued(db)
      const counts = await worker({ [message.topic]: () => Promise.reject(failure) }).runOnce()
      expect(counts).toMatchObject({ deadLettered: 1, retried: 0 })
      expect(await rowOf(db, message)).toMatchObject({
        state: 'dead',
        attempt_count: 1,
        last_error: 'PermanentFailureError: malformed',
      })
    }
  })

  test('makes the message dead after its last failed attempt', async () => {
    const message = await enqueued(db)
    const failing = worker({ [message.topic]: () => Promise.reject(new Error('no')) }, { attemptsMax: 1 })
    expect(await failing.runOnce()).toMatchObject({ deadLettered: 1 })
    expect(await readInboxEvents(db.as('symphony_control'), message)).toMatchObject([
      { eventType: 'DIED', actor: failing.workerId, detail: { error: 'Error: no' } },
    ])
  })

  test('retries a message later if its topic has no handler, and counts no attempt', async () => {
    const message = await enqueued(db)
    const other = worker({ other: write }, { attemptsMax: 1 })
    for (let round = 0; round < 3; round += 1) {
      expect(await other.runOnce()).toMatchObject({ claimed: 1, handlersMissing: 1, deadLettered: 0 })
      expect(await rowOf(db, message)).toMatchObject({
        state: 'seen',
        attempt_count: 0,
        due_later: true,
        last_error: `no handler for the topic ${message.topic} in worker ${other.workerId}`,
      })
      await makeDue(db, message)
    }
    expect(events).toContainEqual({
      type: 'inbox.handlerMissing',
      source: message.source,
      messageId: message.messageId,
      topic: message.topic,
      attemptCount: 1,
    })
    // Only own properties are handlers, not those that every object inherits.
    const odd = await enqueued(db, { topic: 'constructor' })
    await worker({ [message.topic]: write }, { attemptsMax: 1 }).runOnce()
    expect(await rowOf(db, odd)).toMatchObject({ state: 'seen' })
    expect(await rowOf(db, message)).toMatchObject({ state: 'done' })
  })

  test('counts no attempt if the login may not use handlerRole', async () => {
    const message = await enqueued(db)
    const { name: unprivileged } = await db.createLogin('unprivileged')
    const kept = worker({ [message.topic]: write }, { attemptsMax: 1, handlerRole: unprivileged })
    for (let round = 0; round < 2; round += 1) {
      expect(await kept.runOnce()).toMatchObject({ claimed: 1, handlerNotCalled: 1, retried: 0, deadLettered: 0 })
      expect(await rowOf(db, message)).toMatchObject({
        state: 'seen',
        attempt_count: 0,
        due_later: true,
        last_error: expect.stringMatching(/^handler not called: .*role/),
      })
      await makeDue(db, message)
    }
    expect(events).toContainEqual(
      expect.objectContaining({ type: 'inbox.handlerNotCalled', messageId: message.messageId }),
    )
    expect(await worker({ [message.topic]: write }, { attemptsMax: 1 }).runOnce()).toMatchObject({ done: 1 })
  })

  test('counts no attempt if no connection is free for the handler', async () => {
    const messages = [await enqueued(db), await enqueued(db)]
    const { url } = await db.createLogin('narrow', { roles: ['symphony_executor', application] })
    const database = openDatabase({ url, schema: db.schema, connectionsMax: 1, connectTimeoutMs: 100 })
    stopping.push(() => database.close())
    // Opens the connection before the worker runs, because connecting can take longer than 100 ms on a busy machine.
    await expect.poll(() => database.as('symphony_executor').query('SELECT 1'), POLL_OPTIONS).toBeDefined()
    const { opened, open } = gate()
    const handlers = {
      [messages[0]!.topic]: async (claimed: InboxClaim, handling: InboxHandlerContext) => {
        await opened
        await write(claimed, handling)
      },
    }
    const busy = new InboxWorker(database, handlers, { handlerRole: application, attemptsMax: 1 }, (event) => {
      if (event.type === 'inbox.fault') open()
    })
    expect(await busy.runOnce()).toMatchObject({ claimed: 2, done: 1, handlerNotCalled: 1, deadLettered: 0 })
    const { rows } = await db.queryNoRole('SELECT state, attempt_count FROM inbox_messages ORDER BY state')
    expect(rows).toEqual([
      { state: 'done', attempt_count: 1 },
      { state: 'seen', attempt_count: 0 },
    ])
  })

  test('rolls back the writes of a handler whose claim expired', async () => {
    const message = await enqueued(db)
    const slow: InboxHandler = async (claimed, handling) => {
      await write(claimed, handling)
      await expireClaim(db, claimed)
    }
    expect(await worker({ [message.topic]: slow }).runOnce()).toMatchObject({ done: 0, fencesLost: 1, retried: 0 })
    expect(await effects()).toBe(0)
    expect(await rowOf(db, message)).toMatchObject({ state: 'processing' })
    expect(await worker({ [message.topic]: write }).runOnce()).toMatchObject({ claimed: 1, done: 1 })
    expect(await effects()).toBe(1)
    expect(events).toContainEqual({ type: 'inbox.claimed', messages: 1, takeovers: 1 })
  })

  test('commits only the writes of the new holder if a claim expires while its handler runs', async () => {
    const message = await enqueued(db)
    const second = await db.createLogin('second', { roles: ['symphony_executor', application] })
    const overtaken: InboxHandler = async (claimed, handling) => {
      await write(claimed, handling)
      await expireClaim(db, claimed)
      // The second worker has its own login and connections, like another process.
      await new InboxWorker(second.database, { [message.topic]: write }, { handlerRole: application }).runOnce()
    }
    expect(await worker({ [message.topic]: overtaken }).runOnce()).toMatchObject({ done: 0, fencesLost: 1 })
    expect(await effects()).toBe(1)
    expect(await rowOf(db, message)).toMatchObject({ state: 'done', attempt_count: 2 })
  })

  test('leaves a new claim unchanged if the handler of the old claim fails', async () => {
    for (const failure of [new Error('late'), new PermanentFailureError('late')]) {
      const message = await enqueued(db)
      let fence: string | undefined
      const overtaken: InboxHandler = async (claimed) => {
        await expireClaim(db, claimed)
        fence = (await claimOf(db, message, { workerId: 'worker-2' }))[0]!.fence
        throw failure
      }
      expect(await worker({ [message.topic]: overtaken }).runOnce()).toMatchObject({ fencesLost: 1, deadLettered: 0 })
      expect(await rowOf(db, message)).toMatchObject({ state: 'processing', claimed_by: 'worker-2', fence })
    }
  })

  test('claims and handles at most `concurrency` messages at once', async () => {
    for (let n = 0; n < 7; n += 1) await enqueued(db)
    let running = 0
    let most = 0
    const { topic } = buildMessage()
    const counting: InboxHandler = async (claimed, handling) => {
      running += 1
      most = Math.max(most, running)
      await write(claimed, handling)
      running -= 1
    }
    const bounded = worker({ [topic]: counting }, { concurrency: 3 })
    expect((await bounded.runOnce()).claimed).toBe(3)
    expect((await bounded.runOnce()).claimed).toBe(3)
    expect((await bounded.runOnce()).claimed).toBe(1)
    expect(most).toBeLessThanOrEqual(3)
    expect(await effects()).toBe(7)
  })
})

test('stop() waits for the messages of a round whose claim is answered meanwhile', async () => {
  const message = await enqueued(db)
  const single = worker({ [message.topic]: write })
  const blocker = await openConnection(db)
  await blocker.query('BEGIN; LOCK TABLE inbox_messages IN ACCESS EXCLUSIVE MODE')
  const round = single.runOnce()
  await untilTableWaits(db, 'inbox_messages')
  const isDoneAtStop = single.stop().then(() => events.some(({ type }) => type === 'inbox.done'))
  await Promise.race([isDoneAtStop, sleep(100)])
  await blocker.query('ROLLBACK')
  await blocker.close()
  expect(await isDoneAtStop).toBe(true)
  await round
})

describe('a started InboxWorker', () => {
  test('handles waiting messages, and new ones on notification without waiting for a poll', async () => {
    const { topic } = await enqueued(db)
    const running = worker({ [topic]: write }, { pollMs: 60_000 })
    await running.start()
    await expect.poll(effects).toBe(1)
    for (let n = 0; n < 20; n += 1) await enqueued(db)
    await expect.poll(effects).toBe(21)
    await running.stop()
    await running.stop()
    await enqueued(db)
    expect(typesOf().filter((type) => type === 'inbox.done')).toHaveLength(21)
    expect(typesOf()).toContain('inbox.notified')
    expect(typesOf()).not.toContain('inbox.fault')
  })

  test('wakes when a message becomes due, without notification and polling', async () => {
    const running = worker({ [buildMessage().topic]: write }, { pollMs: 60_000, listen: false })
    await enqueued(db, { notBefore: new Date(Date.now() + 400) })
    await running.start()
    await expect.poll(effects).toBe(1)
  })

  test('waits for a running handler when it stops, and aborts the handler after shutdownMs', async () => {
    const first = await enqueued(db, { topic: 'obedient' })
    const { opened: begun, open: begin } = gate()
    const { opened: finished, open: finish } = gate()
    const waiting = worker({
      obedient: async (claimed, handling) => {
        begin()
        await finished
        await write(claimed, handling)
      },
    })
    await waiting.start()
    await begun
    const stopped = waiting.stop()
    finish()
    await stopped
    expect(await rowOf(db, first)).toMatchObject({ state: 'done' })

    const second = await enqueued(db, { topic: 'stubborn' })
    const { opened: begunAgain, open: beginAgain } = gate()
    const { opened: aborted, open: abort } = gate()
    const limited = worker(
      {
        stubborn: async (_claimed, { signal }) => {
          signal.addEventListener('abort', abort)
          beginAgain()
          await aborted
          signal.throwIfAborted()
        },
      },
      { shutdownMs: 0 },
    )
    await limited.start()
    await begunAgain
    await limited.stop()
    await expect.poll(async () => (await rowOf(db, second))['last_error']).toBe('Error: the worker is shutting down')
  })

  test('aborts the signal of a handler before its claim ends', async () => {
    const message = await enqueued(db)
    const reasons: unknown[] = []
    const waiting: InboxHandler = (_claimed, { signal }) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          reasons.push(signal.reason)
          reject(signal.reason instanceof Error ? signal.reason : new Error('aborted'))
        })
      })
    expect(await worker({ [message.topic]: waiting }, { leaseSeconds: 1 }).runOnce()).toMatchObject({ done: 0 })
    expect(reasons).toEqual([new Error('the claim is about to end')])
  })

  test('ends a round, and stops, although a handler ignores its aborted signal', async () => {
    const message = await enqueued(db)
    const { opened, open } = gate()
    const ignoring = worker({ [message.topic]: () => opened }, { leaseSeconds: 1, concurrency: 1 })
    expect(await ignoring.runOnce()).toMatchObject({ claimed: 1, done: 0, retried: 0 })
    // The handler still runs, so its slot is not free.
    expect(await ignoring.runOnce()).toMatchObject({ claimed: 0 })
    await ignoring.stop()
    open()
    await expect.poll(typesOf, POLL_OPTIONS).toContain('inbox.fenceLost')
  })

  test('does not complete a message whose handler returns after its signal aborted', async () => {
    const message = await enqueued(db)
    const late = worker({ [message.topic]: untilAborted }, { leaseSeconds: 1 })
    expect(await late.runOnce()).toMatchObject({ done: 0 })
    expect(await rowOf(db, message)).not.toMatchObject({ state: 'done' })
  })

  test('reports a failed release (inbox.fault), and leaves the claim to expire', async () => {
    const message = await enqueued(db)
    const cutting: InboxHandler = async () => {
      await db.queryNoRole('REVOKE ALL ON FUNCTION abandon_inbox_messages FROM symphony_executor')
      throw new Error('and now nothing can be recorded')
    }
    expect(await worker({ [message.topic]: cutting }).runOnce()).toMatchObject({ retried: 0, deadLettered: 0 })
    expect(events).toContainEqual({ type: 'inbox.fault', during: 'releasing a message', error: expect.any(Error) })
    expect(await rowOf(db, message)).toMatchObject({ state: 'processing', claim_live: true })
  })
})

test('InboxWorker refuses invalid options, and names an option that is out of range', () => {
  for (const [option, value] of Object.entries({
    leaseSeconds: 0,
    attemptsMax: 1_001,
    batchSize: 0,
    concurrency: 101,
    missingHandlerDelaySeconds: 0,
    pollMs: 9,
    debounceMs: -1,
    shutdownMs: 600_001,
  })) {
    expect(() => worker({}, { [option]: value })).toThrow(ArgumentRangeError)
    expect(() => worker({}, { [option]: value })).toThrow(`${option}: `)
  }
  expect(() => worker({}, { workerId: 'a b' })).toThrow(InvalidArgumentError)
  expect(() => worker({}, { handlerRole: '' })).toThrow(InvalidArgumentError)
  expect(() => worker({}, { handlerRole: 'symphony_executor' })).toThrow(InboxWorkerOptionError)
})

/** Resolves like a successful handler, but only after the abort. */
const untilAborted: InboxHandler = (_claimed, { signal }) =>
  new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve())
  })

async function roleOf(tx: Queryable): Promise<string> {
  return (await tx.query<{ role: string }>('SELECT current_user::text AS role')).rows[0]!.role
}

describe('a handler that changes its role', () => {
  test('gets the rights of the login, and no more', async () => {
    const roles: string[] = []
    const message = await enqueued(db)
    const taking: InboxHandler = async (claimed, handling) => {
      const { tx } = handling
      await write(claimed, handling)
      roles.push(await roleOf(tx))
      await tx.query('RESET ROLE')
      roles.push(await roleOf(tx))
      // The login is a member of Symphony's role, so a handler can switch to it.
      await tx.query('SET LOCAL ROLE symphony_executor')
      roles.push(await roleOf(tx))
      await tx.query('SAVEPOINT beyond')
      await expect(tx.query('SET LOCAL ROLE symphony_owner')).rejects.toMatchObject({ sqlstate: '42501' })
      await tx.query('ROLLBACK TO SAVEPOINT beyond')
    }
    expect(await worker({ [message.topic]: taking }).runOnce()).toMatchObject({ done: 1 })
    expect(roles).toEqual([application, 'symphony_test_login', 'symphony_executor'])
    expect(await effects()).toBe(1)
  })

  test('does not change the role of the next handler on the same connection', async () => {
    const login = await db.createLogin('narrow', { roles: ['symphony_executor'] })
    await db.queryNoRole(`GRANT ${application} TO ${login.name}`)
    const database = openDatabase({ url: login.url, schema: db.schema, connectionsMax: 1 })
    stopping.push(() => database.close())
    const roles: string[] = []
    await enqueued(db, { topic: 'takes' })
    const made = new InboxWorker(
      database,
      {
        takes: async (_, { tx }) => {
          await tx.query('SET LOCAL ROLE symphony_executor')
        },
        looks: async (_, { tx }) => void roles.push(await roleOf(tx)),
      },
      { handlerRole: application },
    )
    expect(await made.runOnce()).toMatchObject({ done: 1 })
    await enqueued(db, { topic: 'looks' })
    expect(await made.runOnce()).toMatchObject({ done: 1 })
    await made.stop()
    expect(roles).toEqual([application])
  })
})
