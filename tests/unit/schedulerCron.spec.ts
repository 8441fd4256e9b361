import { Cron } from 'croner'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { ArgumentRangeError, InvalidArgumentError } from '../../libs/core/index.js'
import { CronSchedule, requiredCron, requiredSchedule, requiredTimeZone } from '../../libs/scheduler/cron.js'
import { MISSED_RUNS_MAX, planRuns } from '../../libs/scheduler/createJobRunsFromDueJobs.js'
import type { DueJob, MissedRuns } from '../../libs/scheduler/types.js'

/** Tests cron expressions and missed runs, without a database. */

/** Returns `count` occurrences after a time, in ISO format without milliseconds. */
function after(cron: string, timeZone: string, from: string, count: number): string[] {
  const schedule = requiredSchedule(cron, timeZone)
  const found: string[] = []
  for (let at = new Date(from); found.length < count; found.push(shortly(at))) at = schedule.next(at)
  return found
}

function shortly(at: Date): string {
  return at.toISOString().replace('.000', '')
}

describe('a cron expression', () => {
  test.each([
    ['* * * * *', '2026-11-15T10:01:00Z'],
    ['*/20 * * * * *', '2026-11-15T10:00:20Z'],
    ['30 */5 * * * *', '2026-11-15T10:00:30Z'],
    ['0 12 * * 1-5', '2026-11-16T12:00:00Z'],
    ['0 0 1 JAN *', '2027-01-01T00:00:00Z'],
    ['0 0 29 2 *', '2028-02-29T00:00:00Z'],
    ['0 0 L * *', '2026-11-30T00:00:00Z'],
    ['0 0 * * MON#1', '2026-12-07T00:00:00Z'],
    ['0 0 13 * FRI', '2026-11-20T00:00:00Z'],
    ['@yearly', '2027-01-01T00:00:00Z'],
    ['@annually', '2027-01-01T00:00:00Z'],
    ['@monthly', '2026-12-01T00:00:00Z'],
    ['@weekly', '2026-11-22T00:00:00Z'],
    ['@daily', '2026-11-16T00:00:00Z'],
    ['@midnight', '2026-11-16T00:00:00Z'],
    ['@hourly', '2026-11-15T11:00:00Z'],
  ])('such as %s is next due at %s after 2026-11-15T10:00:00Z', (cron, next) => {
    expect(after(cron, 'UTC', '2026-11-15T10:00:00Z', 1)).toEqual([next])
  })

  test('runs on 1 March, after the shorter February, if it has a day and a weekday', () => {
    const march = ['2026-02-23T12:00:00Z', '2026-03-01T12:00:00Z', '2026-03-02T12:00:00Z', '2026-03-09T12:00:00Z']
    expect(after('0 12 1 * MON', 'UTC', '2026-02-17T00:00:00Z', 4)).toEqual(march)
    expect(new CronSchedule('0 12 1 * MON', 'UTC').latest(4, new Date(march[3]!)).map(shortly)).toEqual(march)
  })

  test('finds the first of 86,400 occurrences on 1 March in at most 100 steps', () => {
    const steps = vi.spyOn(Cron.prototype, 'previousRuns')
    onTestFinished(() => steps.mockRestore())
    for (const cron of ['* * * 1,30 * *', '7 * * 1,30 * *', '* * 1,30 * *']) {
      const first = cron.startsWith('7') ? '2026-03-01T00:00:07Z' : '2026-03-01T00:00:00Z'
      expect(after(cron, 'UTC', '2026-02-02T00:00:00Z', 1)).toEqual([first])
    }
    expect(steps.mock.calls.length).toBeGreaterThan(3)
    expect(steps.mock.calls.length).toBeLessThanOrEqual(300)
  })

  test.each(['1,30', '1,31', '1,15,30', '2,31', '*/3', '*/5', '*/10', '1-3,29-31', '28,L', '1W,31', '31'])(
    'has the same occurrences forwards as backwards with the days %s, in any time zone',
    (days) => {
      for (const [weekday, zone] of [
        ['*', 'UTC'],
        ['+SUN,MON', 'America/New_York'],
        ['FRI', 'Asia/Tokyo'],
      ] as const) {
        const schedule = new CronSchedule(`0 12 ${days} * ${weekday}`, zone)
        const backwards = schedule
          .latest(400, new Date('2029-01-01T00:00:00Z'))
          .filter((at) => at >= new Date('2027-01-05'))
        const forwards: Date[] = []
        for (let at = new Date('2027-01-05'); forwards.length < backwards.length; forwards.push(at))
          at = schedule.next(at)
        expect(forwards).toEqual(backwards)
      }
    },
  )

  test.each([
    ['0 12 ? * MON', '2026-11-16T12:00:00Z'],
    ['0 12 15 * ?', '2026-11-15T12:00:00Z'],
    ['0 12 15W * +FRI', '2027-01-15T12:00:00Z'],
    ['0 12 30 2 MON', '2027-02-01T12:00:00Z'],
  ])('%s needs both fields, or only the one that is given, and is next due at %s', (cron, next) => {
    expect(after(cron, 'UTC', '2026-11-15T10:00:00Z', 1)).toEqual([next])
  })

  test('is normalised: extra spaces and the case of macros do not matter', () => {
    expect(requiredCron('cron', '  0   12 \t* * * ')).toBe('0 12 * * *')
    expect(requiredCron('cron', '@Daily')).toBe('@daily')
  })

  test.each([
    ['nothing', ''],
    ['blanks', '   '],
    ['a number', 5],
    ['null', null],
    ['four fields', '* * * *'],
    ['seven fields', '* * * * * * 2030'],
    ['a timestamp', '2026-01-01T00:00:00'],
    ['an unknown macro', '@reboot'],
    ['a macro with more', '@daily x'],
    ['letters', 'a b c d e'],
    ['a range backwards', '5-1 * * * *'],
    ['a step of zero', '*/0 * * * *'],
    ['a step beyond the field', '*/61 * * * *'],
    ['a fraction', '1.5 * * * *'],
    ['a negative number', '-1 * * * *'],
  ])('is refused with an InvalidArgumentError that names cron: %s', (_what, cron) => {
    expect(() => requiredSchedule(requiredCron('cron', cron), 'UTC')).toThrow(InvalidArgumentError)
    expect(() => requiredSchedule(requiredCron('cron', cron), 'UTC')).toThrow(/^cron: /)
  })

  test.each([
    ['a minute of 60', '60 * * * *'],
    ['a second of 60', '60 * * * * *'],
    ['an hour of 24', '0 24 * * *'],
    ['a day of 0', '0 0 0 * *'],
    ['a day of 32', '0 0 32 * *'],
    ['a month of 13', '0 0 1 13 *'],
    ['a weekday of 8', '0 0 * * 8'],
    ['30 February', '0 0 30 2 *'],
    ['31 April', '0 0 31 4 *'],
    ['257 characters', `${'0,'.repeat(128)}0 * * * *`],
  ])('is refused with an ArgumentRangeError that names cron: %s', (_what, cron) => {
    expect(() => requiredSchedule(requiredCron('cron', cron), 'UTC')).toThrow(ArgumentRangeError)
    expect(() => requiredSchedule(requiredCron('cron', cron), 'UTC')).toThrow(/^cron: /)
  })
})

describe('a time zone of a job', () => {
  test.each(['UTC', 'Africa/Cairo', 'America/New_York', 'Australia/Lord_Howe', 'Etc/GMT-5'])(
    'is accepted: %s',
    (zone) => {
      expect(requiredTimeZone('timeZone', zone)).toBe(zone)
    },
  )

  test.each([['Mars/Base'], ['GMT+2'], ['local'], [''], [' '], [null], [2], ['Africa/Cairo '], ['x'.repeat(129)]])(
    'is refused with an error that names timeZone: %j',
    (zone) => {
      expect(() => requiredTimeZone('timeZone', zone)).toThrow(/^timeZone: /)
    },
  )
})

/**
 * The rule of docs/concepts/scheduler.md: a fixed time occurs once on each of its days. In a gap it occurs when the gap
 * ends, in a repeated hour the first time. All other expressions follow local time.
 */
describe('a clock change (daylight saving)', () => {
  test.each([
    // Clocks go from 02:00 to 03:00 at 07:00 UTC.
    ['America/New_York', '30 2 * * *', '2027-03-13T12:00:00Z', ['2027-03-14T07:00:00Z', '2027-03-15T06:30:00Z']],
    // Clocks go from 00:00 to 01:00 at 22:00 UTC, so the day begins at 01:00.
    ['Africa/Cairo', '0 0 * * *', '2027-04-29T12:00:00Z', ['2027-04-29T22:00:00Z', '2027-04-30T21:00:00Z']],
    ['Africa/Cairo', '30 0 * * *', '2027-04-29T12:00:00Z', ['2027-04-29T22:00:00Z', '2027-04-30T21:30:00Z']],
    // Clocks go from 02:00 to 02:30 at 15:30 UTC.
    ['Australia/Lord_Howe', '15 2 * * *', '2026-10-03T12:00:00Z', ['2026-10-03T15:30:00Z', '2026-10-04T15:15:00Z']],
  ])('delays a fixed daily time inside the gap until the gap ends: %s, cron %s', (zone, cron, from, expected) => {
    expect(after(cron, zone, from, 2)).toEqual(expected)
  })

  test.each([
    // 01:30 occurs at 05:30 and at 06:30 UTC.
    ['America/New_York', '30 1 * * *', '2026-10-31T12:00:00Z', ['2026-11-01T05:30:00Z', '2026-11-02T06:30:00Z']],
    // 23:30 occurs at 20:30 and at 21:30 UTC.
    ['Africa/Cairo', '30 23 * * *', '2026-10-29T12:00:00Z', ['2026-10-29T20:30:00Z', '2026-10-30T21:30:00Z']],
    // 01:45 occurs at 14:45 and at 15:15 UTC.
    ['Australia/Lord_Howe', '45 1 * * *', '2027-04-03T12:00:00Z', ['2027-04-03T14:45:00Z', '2027-04-04T15:15:00Z']],
  ])('runs a fixed daily time of a repeated hour only the first time: %s, cron %s', (zone, cron, from, expected) => {
    expect(after(cron, zone, from, 2)).toEqual(expected)
  })

  test.each([
    ['America/New_York', '2027-03-14T06:30:00Z'],
    ['America/New_York', '2026-11-01T04:30:00Z'],
    ['Africa/Cairo', '2027-04-29T21:30:00Z'],
    ['Africa/Cairo', '2026-10-29T19:30:00Z'],
    ['Australia/Lord_Howe', '2026-10-03T15:00:00Z'],
    ['Australia/Lord_Howe', '2027-04-03T14:00:00Z'],
  ])('does not interrupt a job of every 10 minutes in %s after %s', (zone, from) => {
    const expected = Array.from({ length: 18 }, (_, index) =>
      shortly(new Date(new Date(from).getTime() + (index + 1) * 600_000)),
    )
    expect(after('*/10 * * * *', zone, from, 18)).toEqual(expected)
  })

  test('leaves "30 1,2 * * *" on local time: no run in a missing hour, two in a repeated hour', () => {
    expect(after('30 1,2 * * *', 'America/New_York', '2027-03-14T00:00:00Z', 2)).toEqual([
      '2027-03-14T06:30:00Z',
      '2027-03-15T05:30:00Z',
    ])
    expect(after('30 1,2 * * *', 'America/New_York', '2026-11-01T00:00:00Z', 3)).toEqual([
      '2026-11-01T05:30:00Z',
      '2026-11-01T06:30:00Z',
      '2026-11-01T07:30:00Z',
    ])
  })

  test('gives the same occurrences from any start time, computed forwards and backwards', () => {
    const changes = ['2026-10-03', '2026-10-29', '2026-11-01', '2027-03-14', '2027-04-03', '2027-04-29']
    for (const zone of ['America/New_York', 'Africa/Cairo', 'Australia/Lord_Howe']) {
      for (const cron of ['30 1 * * *', '30 2 * * *', '0 0 * * *', '30 23 * * *', '15 2 * * *', '7,37 * * * *']) {
        const schedule = new CronSchedule(cron, zone)
        for (const day of changes) {
          const from = new Date(`${day}T00:00:00Z`)
          const until = new Date(from.getTime() + 86_400_000)
          const forwards: Date[] = []
          for (let at = schedule.next(from); at <= until; at = schedule.next(at)) forwards.push(at)
          const backwards = schedule.latest(forwards.length, until)
          expect([zone, cron, day, backwards]).toEqual([zone, cron, day, forwards])
          for (let hour = 0; hour < 24; hour += 1) {
            const start = new Date(from.getTime() + hour * 3_600_000 + 1_000)
            const expected = forwards.find((at) => at > start) ?? schedule.next(until)
            expect([zone, cron, start, schedule.next(start)]).toEqual([zone, cron, start, expected])
          }
        }
      }
    }
  })
})

describe('planRuns', () => {
  const now = new Date('2026-11-15T12:00:30Z')
  const job = (missedRuns: MissedRuns, nextDueAt: string, cron = '* * * * *'): DueJob => ({
    name: 'job',
    cron,
    timeZone: 'UTC',
    missedRuns,
    nextDueAt: new Date(nextDueAt),
    revision: 1n,
    observedAt: now,
  })
  const plan = (missedRuns: MissedRuns, nextDueAt: string, cron?: string) => {
    const { occurrences, nextDueAt: next, missed } = planRuns(job(missedRuns, nextDueAt, cron), 10_000)
    return { occurrences: occurrences.map(shortly), next: shortly(next), missed }
  }
  const everySecond = (policy: MissedRuns) => plan(policy, '2026-11-15T12:00:19Z', '* * * * * *')
  const everyHour = (policy: MissedRuns) => plan(policy, '2026-11-15T11:30:00Z', '30 * * * *')
  const POLICIES: readonly MissedRuns[] = ['skip', 'once', 'all']

  test.each(POLICIES)('runs an occurrence that is due now, under policy %s', (policy) => {
    expect(plan(policy, '2026-11-15T12:00:30Z', '30 * * * * *')).toEqual({
      occurrences: ['2026-11-15T12:00:30Z'],
      next: '2026-11-15T12:01:30Z',
      missed: false,
    })
  })

  test.each(POLICIES)('runs each occurrence of the last 10 s, under policy %s', (policy) => {
    const { occurrences, missed } = plan(policy, '2026-11-15T12:00:20Z', '* * * * * *')
    expect({ occurrences: occurrences.length, first: occurrences[0], missed }).toEqual({
      occurrences: 11,
      first: '2026-11-15T12:00:20Z',
      missed: false,
    })
  })

  test('counts a run as missed after 10 s: "skip" drops it, "once" runs the latest, "all" runs all', () => {
    expect(everySecond('skip')).toMatchObject({ missed: true, next: '2026-11-15T12:00:31Z' })
    expect(everySecond('skip').occurrences.map((at) => at.slice(17, 19))).toEqual(
      Array.from({ length: 11 }, (_, index) => String(20 + index)),
    )
    expect(everySecond('once').occurrences).toEqual(['2026-11-15T12:00:30Z'])
    expect(everySecond('all').occurrences).toHaveLength(12)
  })

  test('runs none of 60 missed occurrences under "skip", the latest under "once", 60 under "all"', () => {
    const hour = '2026-11-15T11:01:00Z'
    const next = '2026-11-15T12:01:00Z'
    expect(plan('skip', hour)).toEqual({ occurrences: [], next, missed: true })
    expect(plan('once', hour)).toEqual({ occurrences: ['2026-11-15T12:00:00Z'], next, missed: true })
    const all = plan('all', hour)
    expect(all).toMatchObject({ next, missed: true })
    expect(all.occurrences).toEqual(
      Array.from({ length: 60 }, (_, index) => shortly(new Date(new Date(hour).getTime() + index * 60_000))),
    )
  })

  test('runs every missed occurrence of a list that mixes plain days and working days (W)', () => {
    const due = { ...job('all', '2026-11-05T09:00:00Z', '0 9 5,15W * *'), observedAt: new Date('2026-12-03T00:00:00Z') }
    const { occurrences } = planRuns(due, 10_000)
    expect(occurrences.map(shortly)).toEqual(['2026-11-05T09:00:00Z', '2026-11-16T09:00:00Z'])
    const once = planRuns({ ...due, missedRuns: 'once' }, 10_000)
    expect(once.occurrences.map(shortly)).toEqual(['2026-11-16T09:00:00Z'])
  })

  test('drops one late occurrence under the policy "skip", and runs it under "once" and "all"', () => {
    expect(everyHour('skip')).toEqual({ occurrences: [], next: '2026-11-15T12:30:00Z', missed: true })
    expect(everyHour('once').occurrences).toEqual(['2026-11-15T11:30:00Z'])
    expect(everyHour('all').occurrences).toEqual(['2026-11-15T11:30:00Z'])
  })

  test('runs at most the latest 1,000 occurrences with the policy all', () => {
    const { occurrences } = plan('all', '2026-11-15T11:00:30Z', '* * * * * *')
    expect(occurrences).toHaveLength(MISSED_RUNS_MAX)
    expect(occurrences.at(-1)).toBe('2026-11-15T12:00:30Z')
    expect(occurrences[0]).toBe('2026-11-15T11:43:51Z')
  })

  test('runs a stored due time even if it does not match the expression', () => {
    expect(plan('all', '2026-11-15T11:59:17Z').occurrences).toEqual(['2026-11-15T11:59:17Z', '2026-11-15T12:00:00Z'])
    expect(plan('once', '2026-11-15T12:00:29Z').occurrences).toEqual(['2026-11-15T12:00:29Z'])
  })
})
