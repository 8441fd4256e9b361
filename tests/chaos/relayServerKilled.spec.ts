import { expect, inject, onTestFinished, test } from 'vitest'
import type { EmbeddedServer } from '../../embedded/index.js'
import { killServer } from '../support/killServer.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { RelayFixture } from '../support/relayFixture.js'
import { startPrivateServer } from '../support/server.js'

const WORKERS = ['first', 'second', 'third']
const SERVER_KILLS = 2
const PAYMENTS_PER_KILL = 80

test('workers pay each payment once although PostgreSQL is killed twice under load', async () => {
  const server = await startPrivateServer({ version: inject('postgresVersion') })
  onTestFinished(() => server.remove())
  const fixture = await RelayFixture.set({ serverUrl: server.url })
  // If the server dies before it answers a claim, no worker knows the new leases. They expire after 3 s.
  const words = ['--no-http', '--lease-seconds', '3', '--rail-timeout-ms', '2000', '--concurrency', '4']
  const workers = await Promise.all(WORKERS.map((name) => fixture.startWorker(name, { words })))

  let running: EmbeddedServer = server
  for (let kill = 0; kill < SERVER_KILLS; kill += 1) {
    // When the server dies, the first worker has answers to record and the second has calls in progress.
    const { checkpoints } = fixture
    const [answered, called] = [checkpoints.count('first', 'answered'), checkpoints.count('second', 'called')]
    checkpoints.close('first', 'answered')
    checkpoints.close('second', 'called')
    await fixture.enqueueMany(PAYMENTS_PER_KILL, ['inquire', 'resend'])
    await expect.poll(() => checkpoints.count('first', 'answered'), POLL_OPTIONS).toBeGreaterThan(answered)
    await expect.poll(() => checkpoints.count('second', 'called'), POLL_OPTIONS).toBeGreaterThan(called)
    await killServer(running)
    // The rail continues to answer. The workers must record its outcomes after the server is back.
    checkpoints.openAll()
    await running.stop()
    running = await server.restart()
  }
  await expect.poll(() => fixture.leftCount(), { ...POLL_OPTIONS, timeout: 60_000 }).toBe(0)
  expect(await fixture.paidCount()).toBe(PAYMENTS_PER_KILL * SERVER_KILLS)
  expect(await fixture.auditFindings()).toEqual([])

  expect(workers.map(({ child }) => child.exitCode ?? child.signalCode)).toEqual([null, null, null])
  for (const { child } of workers) child.kill('SIGTERM')
  expect((await Promise.all(workers.map(({ ended }) => ended))).map(({ exitCode }) => exitCode)).toEqual([0, 0, 0])
}, 120_000)
