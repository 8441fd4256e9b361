import { spawnSync } from 'node:child_process'
import * as fc from 'fast-check'
import { describe, expect, test, vi } from 'vitest'
import {
  count,
  duration,
  exactDuration,
  milliseconds,
  plural,
  relative,
  share,
  shortId,
} from '../../libs/dashboard/data/format.js'
import { shellQuoted } from '../../libs/dashboard/data/shellQuoted.js'
import { EventReader } from '../../libs/dashboard/data/sse.js'
import { pageForAlert } from '../../libs/dashboard/pages/overview/pageForAlert.js'
import { ALERT_RULES } from '../../libs/observability/index.js'

const STREAM = [
  ': heartbeat\n\n',
  'event: status\ndata: {"a":1}\n\n',
  'id: 7\r\nevent: items\r\ndata: one\r\ndata: two\r\n\r\n',
  'data\n\n',
  'retry: 10\nunknown: field\n\n',
  'data:no space\n\n',
].join('')

const EVENTS = [
  { type: 'status', data: '{"a":1}', id: undefined },
  { type: 'items', data: 'one\ntwo', id: '7' },
  { type: 'message', data: '', id: '7' },
  { type: 'message', data: 'no space', id: '7' },
]

describe('EventReader', () => {
  test('returns the events of a stream, and nothing for heartbeats and unknown fields', () => {
    expect(new EventReader().read(STREAM)).toEqual(EVENTS)
  })

  test('returns the same events wherever the stream is split', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(STREAM.length), { maxLength: 6 }), (cuts) => {
        const places = [0, ...cuts.toSorted((a, b) => a - b), STREAM.length]
        const reader = new EventReader()
        const read = places.slice(1).flatMap((end, index) => reader.read(STREAM.slice(places[index], end)))
        expect(read).toEqual(EVENTS)
      }),
    )
  })

  test('returns an event only after its empty line', () => {
    const reader = new EventReader()
    expect(reader.read('data: a\n')).toEqual([])
    expect(reader.read('\n')).toEqual([{ type: 'message', data: 'a', id: undefined }])
  })
})

describe('with formatted values,', () => {
  test.each([
    [0, '0 s'],
    [0.25, '250 ms'],
    [1, '1 s'],
    [99, '99 s'],
    [100, '2 min'],
    [5_999, '100 min'],
    [6_000, '2 h'],
    [172_799, '48 h'],
    [172_800, '2 d'],
    [-5, '0 s'],
  ])('a duration of %d seconds is "%s"', (seconds, text) => {
    expect(duration(seconds)).toBe(text)
  })

  test('exactDuration() writes a duration in the largest unit that divides it, and never rounds', () => {
    const texts = [1, 90, 3_600, 6_000, 86_400, 90_000, 604_800].map(exactDuration)
    expect(texts).toEqual(['1 s', '90 s', '1 h', '100 min', '1 d', '25 h', '7 d'])
  })

  test('relative() writes a time as its distance from now, past or future', () => {
    const now = Date.parse('2026-01-01T00:00:00Z')
    expect(relative('2026-01-01T00:00:01.000000Z', now)).toBe('now')
    expect(relative('2026-01-01T00:04:00.000000Z', now)).toBe('in 4 min')
    expect(relative('2025-12-31T23:59:30.000000Z', now)).toBe('30 s ago')
  })

  test('count() keeps all digits below a million and abbreviates above, for text and numbers', () => {
    expect([count('999999'), count(1_000_000), count('12345678901')]).toEqual(['999,999', '1M', '12.3B'])
  })

  test.each([
    [0, 'payments'],
    [1, 'payment'],
    ['1', 'payment'],
    [2, 'payments'],
    ['1000000', 'payments'],
  ])('plural() of "payment" for the number %s is "%s"', (value, word) => {
    expect(plural(value, 'payment')).toBe(word)
  })

  test('plural() returns the given singular for 1, and else the given plural', () => {
    expect([0, 1, 2].map((value) => plural(value, 'it is', 'they are'))).toEqual(['they are', 'it is', 'they are'])
  })

  test('timeSpan() names the day of a bar in UTC, also west of it', async () => {
    vi.stubEnv('TZ', 'America/New_York')
    vi.resetModules()
    try {
      const { timeSpan } = await import('../../libs/dashboard/data/format.js')
      expect(timeSpan('2026-11-17T00:00:00.000000Z', 'hour')).toBe('16 Nov 19:00')
      expect(timeSpan('2026-11-17T00:00:00.000000Z', 'day')).toBe('17 Nov')
    } finally {
      vi.unstubAllEnvs()
    }
  })

  test('milliseconds(), share() and shortId() return short text that is never empty', () => {
    expect([milliseconds(null), milliseconds(0), milliseconds(999), milliseconds(1_000), milliseconds(12_345)]).toEqual(
      ['–', '0 ms', '999 ms', '1.00 s', '12.3 s'],
    )
    expect([share(0, 0), share(1, 3), share(9_999, 10_000), share(3, 3)]).toEqual(['–', '33.3 %', '99.9 %', '100 %'])
    expect([shortId('short'), shortId('019a2b3c-0000-7000-8000-000000000001')]).toEqual(['short', '…0000000001'])
  })
})

test('shellQuoted quotes any text as one shell word that runs nothing', () => {
  for (const text of ["'; echo hacked; '", '$(echo hacked)', '`echo hacked`', "it's", '\\', 'a\nb', '']) {
    const { stdout } = spawnSync('sh', ['-c', `printf %s ${shellQuoted(text)}`], { encoding: 'utf8' })
    expect(stdout).toBe(text)
  }
})

test('pageForAlert returns a page for fifteen alert rules and undefined for all others', () => {
  const led = ALERT_RULES.flatMap(({ name }) => (pageForAlert(name) === undefined ? [] : [name]))
  expect(led).toEqual([
    'SymphonyOldestPendingAge',
    'SymphonyOldestUnfinishedAge',
    'SymphonyDispatchFrozen',
    'SymphonyAllPaused',
    'SymphonyDlqGrowing',
    'SymphonyExpiredLeases',
    'SymphonyRetryableSpike',
    'SymphonyPaymentsHeld',
    'SymphonyOutcomeNotDelivered',
    'SymphonyMessagesHeld',
    'SymphonyMessagesLate',
    'SymphonyMessagesFailed',
    'SymphonyEndingContradicted',
    'SymphonyInboxDead',
    'SymphonySchedulerLate',
  ])
  expect(pageForAlert('SymphonyDispatchFrozen')?.href).toBe('#/dispatch')
  expect(pageForAlert('SymphonyInboxDead')?.href).toBe('#/inbox?state=dead')
  expect(pageForAlert('constructor')).toBeUndefined()
})
