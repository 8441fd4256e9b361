import { expect, onTestFinished, test } from 'vitest'
import { eventRows } from '../support/outboxItems.js'
import { PATIENTLY } from '../support/patiently.js'
import { RelayStage } from '../support/relayStage.js'
import { CARRIED } from '../support/relayStories.js'
import { TcpProxy } from '../support/tcpProxy.js'

/** The network between a worker and its server fails in ways that nobody is told of. */

async function proxyBefore({ db }: RelayStage): Promise<TcpProxy> {
  const proxy = await TcpProxy.before(db.url)
  onTestFinished(() => proxy.close())
  return proxy
}

/** Processes start and stop in each test, also on a busy machine. */
const SLOWLY = { timeout: 60_000 }

interface Path {
  readonly words: readonly string[]
  /** Whether the connection that listens falls silent once it listens: no reset, no end, no byte. */
  readonly frozen: boolean
  readonly listening: number
  readonly isWoken: boolean
}

const PATHS: Readonly<Record<string, Path>> = {
  'by polling, while the connection that listens is frozen without a reset': {
    words: [],
    frozen: true,
    // It cannot know yet.
    listening: 1,
    isWoken: false,
  },
  'by polling alone': { words: ['--no-listen'], frozen: false, listening: 0, isWoken: false },
  'by a notification, long before the next poll': {
    words: ['--poll-ms', '60000'],
    frozen: false,
    listening: 1,
    isWoken: true,
  },
}

test.each(Object.entries(PATHS))(
  'a payment is found %s',
  SLOWLY,
  async (_path, { words, frozen, listening, isWoken }) => {
    const stage = await RelayStage.set()
    const proxy = await proxyBefore(stage)
    const first = await stage.startWorker('first', {
      words: ['--port', '0', ...words],
      env: { SYMPHONY_LISTEN_URL: stage.urlThrough(proxy.port) },
    })
    if (frozen) proxy.traffic = 'vanishes'
    const { outboxId } = await stage.enqueue('inquire')
    await expect.poll(() => stage.storyOf(outboxId), PATIENTLY).toEqual(CARRIED)
    expect(await stage.metricOf(first, 'notify_listening')).toBe(listening)
    await expect.poll(async () => (await stage.metricOf(first, 'notify_wakeups_total')) > 0, PATIENTLY).toBe(isWoken)
    expect(await stage.auditFindings()).toEqual([])
  },
)

test(
  'a completion that was committed and whose answer was lost is recognised: no lost lease, no late outcome, one row',
  SLOWLY,
  async () => {
    const stage = await RelayStage.set()
    const proxy = await proxyBefore(stage)
    stage.checkpoints.close('first', 'answered')
    const words = ['--port', '0', '--log-level', 'debug']
    const first = await stage.startWorker('first', { words, port: proxy.port })
    const { outboxId } = await stage.enqueue('inquire')
    await expect.poll(() => stage.checkpoints.count('first', 'answered'), PATIENTLY).toBe(1)

    proxy.traffic = 'answers vanish'
    stage.checkpoints.release()
    await expect.poll(() => stage.storyOf(outboxId), PATIENTLY).toEqual(CARRIED)
    proxy.cut()
    proxy.traffic = 'flows'

    await expect.poll(first.stderr, PATIENTLY).toContain('"msg":"alreadyRecorded"')
    expect(await stage.metricOf(first, 'lease_lost_count')).toBe(0)
    expect(await stage.metricOf(first, 'late_outcomes_total')).toBe(0)
    expect(await stage.metricOf(first, 'attempts_total{state="DISPATCHED"}')).toBe(1)
    expect(await stage.storyOf(outboxId)).toEqual(CARRIED)
    expect(await eventRows(stage.db, outboxId)).toEqual([])
    expect(await stage.auditFindings()).toEqual([])
  },
)
