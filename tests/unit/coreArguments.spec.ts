import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  ArgumentRangeError,
  BATCH_SIZE,
  boundedInteger,
  createWorkerId,
  ERROR_MESSAGE_LENGTH_MAX,
  ID_LENGTH_MAX,
  InvalidArgumentError,
  LEASE_SECONDS,
  requiredId,
  requiredIdempotencyKey,
  requiredText,
  systemClock,
} from '../../libs/core/index.js'
import { sanitizeErrorText } from '../../libs/core/redact.js'

describe('boundedInteger', () => {
  test.each([
    ['leaseSeconds', LEASE_SECONDS, [1, 2, 3_599, 3_600]],
    ['batchSize', BATCH_SIZE, [1, 1_000]],
    ['attempt', { min: 0, max: 20 }, [0, 20]],
  ])('accepts both bounds of %s', (name, bounds, values) => {
    for (const value of values) expect(boundedInteger(name, value, bounds)).toBe(value)
  })

  test.each([0, -1, -0, 3_601, 1.5, 1e300, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])(
    'refuses %s as out of range',
    (value) => {
      expect(() => boundedInteger('leaseSeconds', value, LEASE_SECONDS)).toThrow(ArgumentRangeError)
      expect(() => boundedInteger('leaseSeconds', value, LEASE_SECONDS)).toThrow(/^leaseSeconds: .* from 1 to 3600/)
    },
  )

  test('refuses negative zero even where zero is allowed', () => {
    expect(() => boundedInteger('attempt', -0, { min: 0, max: 20 })).toThrow(/got -0$/)
  })

  test.each([undefined, null, '5', '', true, 5n, [5], { valueOf: () => 5 }, Object(5)])(
    'refuses %o, which is no number',
    (value) => {
      expect(() => boundedInteger('leaseSeconds', value, LEASE_SECONDS)).toThrow(InvalidArgumentError)
    },
  )
})

describe('with id arguments,', () => {
  test.each(['a', '~', '!', 'x'.repeat(ID_LENGTH_MAX), "Robert');DROP-TABLE", '{"a":1}'])(
    'requiredId accepts %.30s',
    (id) => {
      expect(requiredId('instructionId', id)).toBe(id)
    },
  )

  test.each<unknown>([
    '',
    ' ',
    'a b',
    'a\n',
    '\ta',
    'a\0',
    '\u007F',
    'é',
    'а',
    '\u200B',
    '😀',
    '\uD83D',
    undefined,
    null,
    1,
    {},
    ['a'],
  ])('requiredId refuses %j', (id) => {
    expect(() => requiredId('instructionId', id)).toThrow(InvalidArgumentError)
    expect(() => requiredId('instructionId', id)).toThrow(/^instructionId: expected /)
  })

  test('requiredId refuses 129 characters as out of range', () => {
    expect(() => requiredId('railType', 'x'.repeat(ID_LENGTH_MAX + 1))).toThrow(ArgumentRangeError)
  })

  test('requiredId accepts exactly the texts that match ^[!-~]{1,128}$', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 130 }), (text) => {
        expect(accepts(text)).toBe(/^[!-~]{1,128}$/.test(text))
      }),
    )
  })

  test.each(['k~redrive~1', '~redrive~0', 'k~redrive~2~redrive~31'])(
    'requiredIdempotencyKey refuses %s, which is reserved for redrives',
    (key) => {
      expect(() => requiredIdempotencyKey('idempotencyKey', key)).toThrow(InvalidArgumentError)
      expect(requiredId('instructionId', key)).toBe(key)
    },
  )

  test.each(['k', 'k~redrive~', 'k~redrive~x', 'k~redrive~1x', 'redrive~1'])(
    'requiredIdempotencyKey accepts %s',
    (key) => {
      expect(requiredIdempotencyKey('idempotencyKey', key)).toBe(key)
    },
  )
})

describe('createWorkerId', () => {
  test('returns a unique id that contains the process id', () => {
    expect(createWorkerId()).toContain(`:${process.pid}:`)
    expect(createWorkerId()).not.toBe(createWorkerId())
  })

  test('shortens a long host name and keeps the process id and the unique part', () => {
    expect(createWorkerId('h'.repeat(300), 1)).toMatch(/^h{89}:1:[0-9a-f-]{36}$/)
  })

  test('returns a valid id for any host name', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary', maxLength: 300 }),
        fc.integer({ min: 1, max: 4_194_304 }),
        (host, pid) => {
          expect(requiredId('workerId', createWorkerId(host, pid))).toMatch(/:\d+:[0-9a-f-]{36}$/)
        },
      ),
    )
  })
})

describe('with text arguments,', () => {
  test.each(['a', ' a ', 'x'.repeat(10), 'é😀', 'a\t\r\nb'])('requiredText accepts %s', (text) => {
    expect(requiredText('reason', text, 10)).toBe(text)
  })

  test.each<[unknown, new (...args: never[]) => Error]>([
    ['', InvalidArgumentError],
    [' \n\u00A0', InvalidArgumentError],
    ['a\0', InvalidArgumentError],
    ['a\u0007', InvalidArgumentError],
    ['a\u007F', InvalidArgumentError],
    ['a\u009B', InvalidArgumentError],
    ['\uD83D', InvalidArgumentError],
    [undefined, InvalidArgumentError],
    [null, InvalidArgumentError],
    [1, InvalidArgumentError],
    ['x'.repeat(11), ArgumentRangeError],
  ])('requiredText refuses %j', (text, kind) => {
    expect(() => requiredText('reason', text, 10)).toThrow(kind)
  })

  test('sanitizeErrorText makes any text storable and short; a second call changes nothing', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 40 }), fc.nat(100), (odd, times) => {
        const stored = sanitizeErrorText(odd.repeat(times) + '\uD83D\0\u001B'.slice(0, times))
        expect(requiredText('stored', stored, ERROR_MESSAGE_LENGTH_MAX)).toBe(stored)
        expect(sanitizeErrorText(stored)).toBe(stored)
      }),
    )
  })

  test.each(['', ' \n'])('sanitizeErrorText replaces %j by (no text)', (text) => {
    expect(sanitizeErrorText(text)).toBe('(no text)')
  })

  test('sanitizeErrorText leaves no half surrogate pair when it shortens a text', () => {
    expect(sanitizeErrorText('ab😀', 3)).toBe('ab…')
    expect(sanitizeErrorText('ab😀c', 4)).toBe('ab\uFFFD…')
  })
})

test('systemClock.monotonicMs never decreases, and systemClock.now returns a Date', () => {
  const before = systemClock.monotonicMs()
  expect(systemClock.monotonicMs()).toBeGreaterThanOrEqual(before)
  expect(systemClock.now()).toBeInstanceOf(Date)
})

function accepts(id: string): boolean {
  try {
    return requiredId('id', id) === id
  } catch (error) {
    if (error instanceof InvalidArgumentError || error instanceof ArgumentRangeError) return false
    throw error
  }
}
