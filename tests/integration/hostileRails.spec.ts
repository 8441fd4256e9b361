import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { OutboxRelayer } from '../../libs/outbox/index.js'
import { loadRails } from '../../libs/rails/index.js'
import { spawnSymphony, type Running } from '../support/commandLine.js'
import { useTestDatabase } from '../support/database.js'
import { buildInstruction, attemptRows, enqueue, eventRows, pendingRow } from '../support/outboxItems.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { PAYABLE } from '../support/railRequest.js'

const db = await useTestDatabase({ countBranches: false })
let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'symphony-hostile-rails-'))
})
afterAll(async () => {
  await rm(folder, { recursive: true })
})

const fail = (): never => {
  throw new Error('read me not')
}
const HUGE = 'x'.repeat(10_000_000)

function cyclic(): object {
  const answer: Record<string, unknown> = { outcome: 'success', reference: 'paid' }
  answer['self'] = answer
  return answer
}

const THEN = 'then'

/** Builds an object with its own `then`, which `await` calls. */
function thenable(onThen: () => unknown): object {
  const answer = {}
  Reflect.set(answer, THEN, onThen)
  return answer
}

const ANSWERS: readonly (readonly [string, () => unknown, 'DISPATCHED' | 'held'])[] = [
  ['a getter that throws', () => Object.defineProperty({}, 'outcome', { enumerable: true, get: fail }), 'held'],
  ['a proxy that throws at everything', () => new Proxy({}, { get: fail, ownKeys: fail, has: fail }), 'held'],
  ['a thenable whose then throws', () => thenable(fail), 'held'],
  ['a thenable that never calls back', () => thenable(() => undefined), 'held'],
  ['a promise that never settles', () => new Promise(() => {}), 'held'],
  ['a cyclic object', cyclic, 'DISPATCHED'],
  ['a message of 10 MB', () => ({ outcome: 'unknown', code: 'ODD', message: HUGE }), 'held'],
  [
    'a success with a further field of 10 MB',
    () => ({ outcome: 'success', reference: 'paid', body: HUGE }),
    'DISPATCHED',
  ],
  ['a reference of 10 MB', () => ({ outcome: 'success', reference: HUGE }), 'held'],
  [
    'a rejection with a proxy',
    () => Promise.reject(new Proxy(new Error('x'), { get: fail, getPrototypeOf: fail })),
    'held',
  ],
  ['a rejection with an error of 10 MB', () => Promise.reject(new Error(HUGE)), 'held'],
  ['a rejection with nothing', () => Promise.reject(), 'held'],
]

test.for(ANSWERS)(
  'a rail that answers with %s is called once; any answer but a valid success causes a hold',
  async ([, answer, result]) => {
    const { railType } = buildInstruction()
    let calls = 0
    const dispatch = () => {
      calls += 1
      return answer()
    }
    const rails = loadRails([{ type: railType, onUnknown: 'hold', money: false, timeoutMs: 200, dispatch }])
    const item = await enqueue(db, { railType })
    const relayer = new OutboxRelayer(db.database, rails, { listen: false })
    await relayer.runOnce()
    await relayer.runOnce()
    await relayer.stop()
    expect(calls).toBe(1)
    const [attempt, ...others] = await attemptRows(db, item.outboxId)
    expect(others).toEqual([])
    expect(attempt?.state).toBe(result === 'held' ? 'RETRYABLE' : result)
    const pending = await pendingRow(db, item.outboxId)
    const found = pending && {
      unknown: pending.outcome_unknown,
      leased: pending.lease_token !== null,
      held: pending.hold_reason !== null,
    }
    expect(found).toEqual(result === 'DISPATCHED' ? undefined : { unknown: true, leased: false, held: true })
  },
)

/** Rails that make the worker `first` exit or block. Each call first appends its reference to a file. */
const RAILS = `
import { appendFileSync, readFileSync } from 'node:fs'
const { CALLS_FILE, WORKER_NAME } = process.env
const rail = (type, onUnknown, misbehave) => ({
  type, onUnknown, money: false, timeoutMs: 500,
  dispatch: ({ reference }) => {
    appendFileSync(CALLS_FILE, reference + '\\n')
    if (WORKER_NAME === 'first') misbehave()
    return { outcome: 'success', reference: 'paid-' + reference }
  },
})
const exit = () => process.exit(0)
// Blocks the event loop like an endless loop, but without CPU.
const block = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 6_000)
export default [
  rail('exit-hold', 'hold', exit), rail('exit-resend', 'resend', exit),
  rail('block-hold', 'hold', block), rail('block-resend', 'resend', block),
]
`

describe.for(['exit', 'block'] as const)('a rail that ends or blocks its worker process (%s)', (what) => {
  test('causes no lost payment; a hold rail is called once per payment', async () => {
    const callsFile = join(folder, `${what}.calls`)
    const railsFile = join(folder, `${what}.mjs`)
    await writeFile(railsFile, RAILS)
    await writeFile(callsFile, '')
    const login = await db.createLogin(what, { roles: ['symphony_executor', 'symphony_readonly'] })
    const start = (name: string): Running => {
      const worker = spawnSymphony(['worker', '--rails', railsFile, '--lease-seconds', '3'], {
        DATABASE_URL: login.url,
        SYMPHONY_SCHEMA: db.schema,
        CALLS_FILE: callsFile,
        WORKER_NAME: name,
      })
      onTestFinished(async () => {
        worker.child.kill('SIGKILL')
        await worker.ended
      })
      return worker
    }
    const callsOf = async (outboxId: string) =>
      (await readFile(callsFile, 'utf8')).split('\n').filter((line) => line === outboxId).length
    const hold = await enqueue(db, { railType: `${what}-hold`, payload: PAYABLE })
    const first = start('first')
    await expect.poll(() => callsOf(hold.outboxId), POLL_OPTIONS).toBe(1)
    if (what === 'exit') await first.ended
    const resend = await enqueue(db, { railType: `${what}-resend`, payload: PAYABLE })
    start('second')
    // A resend rail is called until it answers.
    await expect
      .poll(async () => (await attemptRows(db, resend.outboxId)).at(-1)?.state, POLL_OPTIONS)
      .toBe('DISPATCHED')
    // A hold rail is never called again. A blocked worker reports its answer late, or still within its lease.
    await expect
      .poll(async () => {
        const [pending, events, attempts] = await Promise.all([
          pendingRow(db, hold.outboxId),
          eventRows(db, hold.outboxId),
          attemptRows(db, hold.outboxId),
        ])
        const isPaid = attempts.some(({ state }) => state === 'DISPATCHED')
        const isHeld = typeof pending?.hold_reason === 'string'
        return isPaid || (isHeld && (what === 'exit' || events.some(({ event_type }) => event_type === 'LATE_OUTCOME')))
      }, POLL_OPTIONS)
      .toBe(true)
    expect(await callsOf(hold.outboxId)).toBe(1)
  })
})
