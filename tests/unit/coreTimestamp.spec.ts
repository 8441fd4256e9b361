import { expect, test } from 'vitest'
import { parseTimestamp } from '../../libs/core/index.js'
import { parseInstruction } from '../../libs/outbox/index.js'

test.each([
  ['2026-01-31T12:00:00Z', '2026-01-31T12:00:00.000Z'],
  ['2024-02-29T00:00:00+05:45', '2024-02-28T18:15:00.000Z'],
  ['2000-02-29T23:59:59.123456-01:00', '2000-03-01T00:59:59.123Z'],
  ['0001-12-31T00:00:00Z', '0001-12-31T00:00:00.000Z'],
])('parseTimestamp reads %s as %s', (text, time) => {
  expect(parseTimestamp(text)?.toISOString()).toBe(time)
})

test.each([
  '2026-02-29T00:00:00Z',
  '2026-02-30T00:00:00Z',
  '2100-02-29T00:00:00Z',
  '2026-04-31T00:00:00+02:00',
  '2026-13-01T00:00:00Z',
  '2026-00-10T00:00:00Z',
  '2026-01-00T00:00:00Z',
  '2026-01-31T25:00:00Z',
  '2026-01-31T12:00:00',
  '2026-01-31',
  'now',
  '',
])('parseTimestamp refuses %j', (text) => {
  expect(parseTimestamp(text)).toBeUndefined()
})

test('parseInstruction uses the instruction id as the default key, and refuses a null key', () => {
  const instruction = { instructionId: 'i', participantId: 'p', railType: 'r', payload: {} }
  expect(parseInstruction(instruction).idempotencyKey).toBe('i')
  expect(() => parseInstruction({ ...instruction, idempotencyKey: null })).toThrow(/^idempotencyKey: /)
})

test('parseInstruction names an unknown field, or only its position if the name may be secret', () => {
  expect(() => readLine('amount')).toThrow(/^line 7, amount: unknown field/)
  expect(() => readLine('4929 1234 5678 9015')).toThrow(/^line 7, \[key 2\]: unknown field/)
})

function readLine(field: string): unknown {
  return parseInstruction({ instructionId: 'i', [field]: 1 }, { place: 'line 7, ' })
}
