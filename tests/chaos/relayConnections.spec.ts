import { expect, onTestFinished, test } from 'vitest'
import { eventRows } from '../support/outboxItems.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { RelayFixture } from '../support/relayFixture.js'
import { DISPATCHED_ONCE } from '../support/relayOutcomes.js'
import { TcpProxy } from '../support/tcpProxy.js'

/** Tests a network between a worker and its server that fails without an error on either side. */

async function proxyBefore({ db }: RelayFixture): Promise<TcpProxy> {
  const proxy = await TcpProxy.before(db.url)
  onTestFinished(() => proxy.close())
  return proxy
}

/** Timeout that is long enough to start and stop processes on a busy machine. */
const SLOWLY = { timeout: 60_000 }

interface Path {
  readonly words: readonly string[]
  /** Whether the LISTEN connection stops delivering bytes, without a reset or an end. */
  readonly frozen: boolean
  readonly listening: number
  readonly isWoken: boolean
}

const PATHS: Readonly<Record<string, Path>> = {
  'a poll while its LISTEN connection is frozen': {
    words: [],
    frozen: true,
    // The worker cannot know yet that its connection is dead.
    listening: 1,
    isWoken: false,
  },
  'a poll with --no-listen': { words: ['--no-listen'], frozen: false, listening: 0, isWoken: false },
  'a notification long before the next poll': {
    words: ['--poll-ms', '60000'],
    frozen: false,
    listening: 1,
    isWoken: true,
  },
}

test.each(Object.entries(PATHS))(
  'a worker claims and dispatches a new payment after %s',
  SLOWLY,
  async (_path, { words, frozen, listening, isWoken }) => {
    const fixture = await RelayFixture.set()
    const proxy = await proxyBefore(fixture)
    const first = await fixture.startWorker('first', {
      words: ['--port', '0', ...words],
      env: { SYMPHONY_LISTEN_URL: fixture.urlThrough(proxy.port) },
    })
    if (frozen) proxy.traffic = 'vanishes'
    const { outboxId } = await fixture.enqueue('inquire')
    await expect.poll(() => fixture.outcomeOf(outboxId), POLL_OPTIONS).toEqual(DISPATCHED_ONCE)
    expect(await fixture.metricOf(first, 'notify_listening')).toBe(listening)
    await expect
      .poll(async () => (await fixture.metricOf(first, 'notify_wakeups_total')) > 0, POLL_OPTIONS)
      .toBe(isWoken)
    expect(await fixture.auditFindings()).toEqual([])
  },
)

test('a worker repeats a completion whose answer was lost; the outcome is recorded once', SLOWLY, async () => {
  const fixture = await RelayFixture.set()
  const proxy = await proxyBefore(fixture)
  fixture.checkpoints.close('first', 'answered')
  const words = ['--port', '0', '--log-level', 'debug']
  const first = await fixture.startWorker('first', { words, port: proxy.port })
  const { outboxId } = await fixture.enqueue('inquire')
  await expect.poll(() => fixture.checkpoints.count('first', 'answered'), POLL_OPTIONS).toBe(1)

  proxy.traffic = 'answers vanish'
  fixture.checkpoints.release()
  await expect.poll(() => fixture.outcomeOf(outboxId), POLL_OPTIONS).toEqual(DISPATCHED_ONCE)
  proxy.cut()
  proxy.traffic = 'flows'

  await expect.poll(first.stderr, POLL_OPTIONS).toContain('"msg":"alreadyRecorded"')
  expect(await fixture.metricOf(first, 'lease_lost_count')).toBe(0)
  expect(await fixture.metricOf(first, 'late_outcomes_total')).toBe(0)
  expect(await fixture.metricOf(first, 'attempts_total{state="DISPATCHED",kind="payment"}')).toBe(1)
  expect(await fixture.outcomeOf(outboxId)).toEqual(DISPATCHED_ONCE)
  expect(await eventRows(fixture.db, outboxId)).toEqual([])
  expect(await fixture.auditFindings()).toEqual([])
})
