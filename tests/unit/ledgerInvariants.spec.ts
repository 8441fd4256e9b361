import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { RowNumbers, Sequences } from '../../libs/ledger/invariants.js'

const identity = (subject: string) => ({ kind: 'identity', subject, number: 0n, ends: false }) as const
const attempt = (subject: string, number: bigint, ends: boolean) =>
  ({ kind: 'attempt', subject, number, ends }) as const
const event = (subject: string, number: bigint) => ({ kind: 'event', subject, number, ends: false }) as const

const item = (participant: string, number: number) =>
  ({ kind: 'identity', field: (name: string) => (name === 'participant_id' ? participant : String(number)) }) as const

const TOO_LARGE = { code: 'EXPORT_TOO_LARGE', remedy: expect.stringContaining('without --export') }

function errorOf(body: () => void): unknown {
  try {
    body()
  } catch (error) {
    return error
  }
  throw new Error('expected an error')
}

describe('RowNumbers', () => {
  test('keeps no complete item, and refuses more incomplete ones than fit (EXPORT_TOO_LARGE)', () => {
    const numbers = new RowNumbers(undefined, 2)
    for (let count = 0; count < 5; count += 1) {
      const subject = randomUUID()
      for (const row of [identity(subject), attempt(subject, 1n, false), attempt(subject, 2n, true)]) numbers.add(row)
    }
    for (let count = 0; count < 2; count += 1) numbers.add(identity(randomUUID()))
    expect(errorOf(() => numbers.add(identity(randomUUID())))).toMatchObject(TOO_LARGE)
    expect(errorOf(() => numbers.add(event(randomUUID(), 1n)))).toMatchObject(TOO_LARGE)
    expect([...numbers.suspects(), ...numbers.gaps()]).toEqual([])
  })

  test('finds gaps of pending items, also those without an identity', () => {
    const numbers = new RowNumbers()
    const rows = [
      [identity('sound'), event('sound', 1n), attempt('sound', 1n, false), event('sound', 2n)],
      [identity('event'), event('event', 2n)],
      [identity('attempt'), attempt('attempt', 2n, false)],
      [identity('huge'), event('huge', 2n ** 63n - 1n)],
      [event('scope', 2n)],
    ]
    for (const row of rows.flat()) numbers.add(row)
    expect(numbers.gaps()).toEqual(['event', 'attempt', 'huge', 'scope'])
  })

  test('suspects an attempt before the identity or after the terminal attempt', () => {
    const numbers = new RowNumbers()
    const rows = [
      [attempt('before', 1n, false), identity('before')],
      [identity('after'), attempt('after', 1n, true), attempt('after', 1n, true)],
      [identity('sound'), attempt('sound', 1n, true)],
    ]
    for (const row of rows.flat()) numbers.add(row)
    expect([...numbers.suspects()]).toEqual(['before', 'after'])
  })
})

test('Sequences refuses more participants than fit (EXPORT_TOO_LARGE)', () => {
  const sequences = new Sequences(1)
  sequences.add(item('one', 1))
  sequences.add(item('one', 2))
  expect(errorOf(() => sequences.add(item('two', 1)))).toMatchObject(TOO_LARGE)
  expect(sequences.gaps()).toEqual([])
})
