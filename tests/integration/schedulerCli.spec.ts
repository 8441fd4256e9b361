import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { readJob, readTimer } from '../../libs/scheduler/index.js'
import { symphony, type CommandOutput } from '../support/commandLine.js'
import { useTestDatabase } from '../support/database.js'
import { createEndedTimer, createTimer } from '../support/scheduled.js'

const db = await useTestDatabase({ countBranches: false })
let url: string
beforeAll(async () => {
  url = (await db.createLogin('cli', { roles: ['symphony_control', 'symphony_executor', 'symphony_readonly'] })).url
})
// A list shows every timer and job of the database, so each test begins with none.
beforeEach(async () => {
  for (const table of ['timers', 'jobs', 'job_runs']) await db.queryNoRole(`DELETE FROM scheduler_${table}`)
})

function command(words: readonly string[], signal?: AbortSignal): Promise<CommandOutput> {
  return symphony(words, { DATABASE_URL: url, SYMPHONY_SCHEMA: db.schema }, signal)
}

/** Returns the JSON that a command printed. Fails if it wrote to stderr or exited with an error. */
async function json(words: readonly string[]): Promise<Record<string, unknown>> {
  const { exitCode, stdout, stderr } = await command([...words, '--json'])
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
  const printed: Record<string, unknown> = JSON.parse(stdout)
  return printed
}

const REPORT = ['jobs', 'add', 'report', '--cron', '0 0 1 1 *', '--topic', 'reports']

describe('symphony jobs', () => {
  test('adds, lists, updates, pauses, resumes, triggers and deletes a job, as text and JSON', async () => {
    expect((await command(['jobs', 'list'])).stdout).toBe('There are no jobs.\n')
    expect(await json(REPORT)).toMatchObject({ name: 'report', created: true, state: 'ACTIVE' })
    const options = ['--time-zone', 'Africa/Cairo', '--missed-runs', 'skip', '--participant', 'ACME']
    const updated = await command([...REPORT, ...options, '--payload', '{"kind":"nightly"}'])
    expect(updated.stdout).toMatch(/^The job report is updated; next at 20\d\d-12-31T22:00:00\.000Z\.\n$/)
    expect(await readJob(db.as('symphony_control'), 'report')).toMatchObject({
      timeZone: 'Africa/Cairo',
      missedRuns: 'skip',
      participantId: 'ACME',
    })
    expect((await command(['jobs', 'list'])).stdout).toMatch(/^report 0 0 1 1 \* Africa\/Cairo to reports: next at /)
    expect(await json(['jobs', 'pause', 'report'])).toEqual({ name: 'report', changed: true })
    expect((await command(['jobs', 'pause', 'report'])).stdout).toBe('The job report was paused already.\n')
    expect((await command(['jobs', 'list'])).stdout).toContain('to reports: paused')
    expect((await command([...REPORT])).stdout).toContain('it stays paused')
    expect((await command(['jobs', 'resume', 'report'])).stdout).toBe('The job report is resumed.\n')
    expect(await json(['jobs', 'resume', 'report'])).toEqual({ name: 'report', changed: false })
    expect((await command(['jobs', 'runs'])).stdout).toBe('There are no runs.\n')
    const run = await json(['jobs', 'trigger', 'report'])
    expect((await command(['jobs', 'trigger', 'report'])).stdout).toMatch(/^A run of report is due now: /)
    expect((await json(['jobs', 'runs', 'report']))['runs']).toMatchObject([
      { state: 'READY' },
      { runId: run['runId'], state: 'READY' },
    ])
    expect((await json(['jobs', 'runs', '--limit', '1']))['runs']).toHaveLength(1)
    const { rows } = await db.queryNoRole<{ at: string }>(
      `SELECT to_json(scheduled_for) #>> '{}' AS at FROM scheduler_job_runs WHERE run_id = $1`,
      [run['runId']],
    )
    const at = rows[0]?.at ?? ''
    expect((await json(['jobs', 'runs', '--since', at]))['runs']).toHaveLength(2)
    expect((await json(['jobs', 'runs', '--until', at]))['runs']).toEqual([])
    expect((await command(['jobs', 'runs', 'report'])).stdout).toMatch(/^\S+Z report by cli_\S+ READY \S+\n/)
    expect((await command(['jobs', 'delete', 'report'])).stdout).toContain('is deleted, and 2 runs')
    expect(await json(['jobs', 'delete', 'report'])).toEqual({ name: 'report', deleted: false, runsRemoved: 0 })
  })

  test('jobs add keeps the delivery of an existing job unless --delivery changes it', async () => {
    const words = ['jobs', 'add', 'claimed', '--cron', '@daily', '--topic', 'reports']
    const listed = async () => (await json(['jobs', 'list']))['jobs']
    await json([...words, '--delivery', 'claim'])
    await json(words)
    expect(await listed()).toMatchObject([{ name: 'claimed', delivery: 'claim' }])
    await json([...words, '--delivery', 'outbox'])
    expect(await listed()).toMatchObject([{ name: 'claimed', delivery: 'outbox' }])
    await json(['jobs', 'delete', 'claimed'])
  })

  test.each([
    [['jobs', 'add', 'x', '--topic', 't'], '--cron'],
    [['jobs', 'add', 'x', '--cron', '@daily'], '--topic'],
    [['jobs', 'add', 'x', '--cron', '61 * * * *', '--topic', 't'], 'cron'],
    [['jobs', 'add', 'x', '--cron', '@daily', '--topic', 't', '--time-zone', 'Mars/Base'], 'timeZone'],
    [['jobs', 'add', 'x', '--cron', '@daily', '--topic', 't', '--payload', '[]'], '--payload'],
    [['jobs', 'add', 'x', '--cron', '@daily', '--topic', 't', '--missed-runs', 'maybe'], '--missed-runs'],
    [['jobs', 'runs', '--limit', '0'], 'limit'],
    [['jobs', 'runs', '--since', 'yesterday'], '--since'],
  ])('refuses %j with a usage error that names the option', async (words, named) => {
    const { exitCode, stderr } = await command(words)
    expect(exitCode).toBe(2)
    expect(stderr).toContain(named)
  })

  test('exits with 1 for an unknown job (UNKNOWN_JOB)', async () => {
    const { exitCode, stderr } = await command(['jobs', 'trigger', 'unknown', '--json'])
    expect(exitCode).toBe(1)
    expect(JSON.parse(stderr)).toMatchObject({ error: { code: 'UNKNOWN_JOB' } })
  })
})

describe('symphony timers', () => {
  test('lists timers by due time and cancels one, as text and JSON', async () => {
    expect((await command(['timers', 'list'])).stdout).toBe('There are no timers that are READY.\n')
    const later = await createTimer(db, { topic: 'reminders', dueAt: new Date('2100-01-02T00:00:00Z') })
    const sooner = await createTimer(db, { topic: 'reminders', dueAt: new Date('2100-01-01T00:00:00Z') })
    await createTimer(db, { topic: 'others', dueAt: new Date('2100-01-01T00:00:00Z') })
    const reminders = ['timers', 'list', '--topic', 'reminders']
    expect((await json(reminders))['timers']).toMatchObject([{ timerId: sooner.timerId }, { timerId: later.timerId }])
    expect((await json([...reminders, '--limit', '1']))['timers']).toHaveLength(1)
    expect((await command([...reminders, '--limit', '1'])).stdout).toBe(
      `2100-01-01T00:00:00.000Z reminders READY ${sooner.timerId}\n`,
    )
    expect((await command(['timers', 'cancel', sooner.timerId])).stdout).toBe(
      `The timer ${sooner.timerId} is cancelled.\n`,
    )
    expect(await json(['timers', 'cancel', sooner.timerId])).toEqual({ timerId: sooner.timerId, cancelled: false })
    expect((await json([...reminders, '--state', 'CANCELLED']))['timers']).toMatchObject([{ timerId: sooner.timerId }])
    expect((await command([...reminders, '--state', 'CANCELLED'])).stdout).toContain('reminders CANCELLED, ended 20')
  })

  test.each([
    [['timers', 'cancel', 'not-an-id'], 'timerId'],
    [['timers', 'list', '--state', 'odd'], '--state'],
    [['timers', 'list', '--limit', '0'], 'limit'],
  ])('refuses %j with a usage error that names the option', async (words, named) => {
    const { exitCode, stderr } = await command(words)
    expect(exitCode).toBe(2)
    expect(stderr).toContain(named)
  })
})

test('symphony scheduler enqueues due timers until it is stopped', async () => {
  const stopping = new AbortController()
  const running = command(['scheduler', '--no-http', '--log-level', 'silent'], stopping.signal)
  const { timerId } = await createTimer(db)
  const state = async () => (await readTimer(db.as('symphony_readonly'), timerId))?.state
  await expect.poll(state).toBe('ENQUEUED')
  stopping.abort()
  expect(await running).toMatchObject({
    exitCode: 0,
    stdout: expect.stringContaining('The scheduler turns due timers'),
  })
})

test('symphony scheduler purges timers older than --timer-retention-days, and no younger one', async () => {
  const old = await createEndedTimer(db, '49 hours')
  const young = await createEndedTimer(db, '47 hours')
  const stopping = new AbortController()
  const words = ['scheduler', '--no-http', '--log-level', 'silent', '--timer-retention-days', '2']
  const running = command(words, stopping.signal)
  await expect.poll(() => readTimer(db.as('symphony_readonly'), old)).toBeUndefined()
  expect(await readTimer(db.as('symphony_readonly'), young)).toMatchObject({ state: 'CANCELLED' })
  stopping.abort()
  expect(await running).toMatchObject({ exitCode: 0 })
})
