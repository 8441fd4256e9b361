import { mkdir, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { spawnSymphony } from '../support/commandLine.js'
import { makeTestFolder, removeTestFolder } from '../support/server.js'

/** Creates a TMPDIR for the demo, so that a test can check that it leaves no file behind. */
async function temporaryFolder(): Promise<string> {
  const folder = await makeTestFolder()
  onTestFinished(() => removeTestFolder(folder))
  await mkdir(join(folder, 'tmp'), { mode: 0o777 })
  return join(folder, 'tmp')
}

test(
  'symphony demo kills workers and fails rail calls; no payment is lost or paid twice',
  { timeout: 300_000 },
  async () => {
    const TMPDIR = await temporaryFolder()
    const { exitCode, stdout, stderr } = await spawnSymphony(
      ['demo', '--payments', '120', '--workers', '2', '--seed', 'smoke', '--json'],
      // The file of a production worker. A demo worker with this setting would write it, and the last check finds it.
      { TMPDIR, SYMPHONY_EPOCH_FILE: join(TMPDIR, 'epoch.json') },
    ).ended
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    const result: Record<string, number> = JSON.parse(stdout)
    expect(Object.keys(result)).toEqual([
      'payments',
      'dispatched',
      'failed',
      'held',
      'railEffects',
      'doublePaid',
      'lost',
      'matched',
      'criticalFindings',
      'workerKills',
      'seconds',
    ])
    const { payments, dispatched = 0, failed = 0, held = 0, railEffects = 0, workerKills } = result
    expect(result).toMatchObject({ payments: 120, doublePaid: 0, lost: 0, matched: dispatched, criticalFindings: 0 })
    expect(dispatched + failed + held).toBe(payments)
    expect(railEffects).toBeGreaterThanOrEqual(dispatched)
    expect(failed).toBeGreaterThan(0)
    expect(workerKills).toBeGreaterThan(0)
    expect(await readdir(TMPDIR)).toEqual([])
  },
)

test('symphony demo exits with 130 on SIGINT and leaves no file behind', { timeout: 120_000 }, async () => {
  const TMPDIR = await temporaryFolder()
  const demo = spawnSymphony(['demo', '--payments', '5000', '--workers', '2', '--seed', 'interrupted'], { TMPDIR })
  const [made = ''] = await expect
    .poll(() => readdir(TMPDIR), { timeout: 60_000 })
    .toHaveLength(1)
    .then(() => readdir(TMPDIR))
  await expect.poll(() => readdir(join(TMPDIR, made)), { timeout: 60_000 }).toContain('workers.log')
  demo.child.kill('SIGINT')
  expect(await demo.ended).toMatchObject({ exitCode: 130, stdout: '' })
  expect(await readdir(TMPDIR)).toEqual([])
})
