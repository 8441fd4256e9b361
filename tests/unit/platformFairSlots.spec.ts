import { describe, expect, test } from 'vitest'
import { FairSlots } from '../../libs/platform/FairSlots.js'

const never = new AbortController().signal

/** Returns slots, and a function that acquires one and records the order. */
function fixture(size: number) {
  const left: string[] = []
  const slots = new FairSlots(size, (name) => left.push(name))
  const given: string[] = []
  const take = async (name: string, signal = never) => {
    const end = await slots.acquire(name, signal)
    given.push(end === undefined ? `${name} gave up` : name)
    return end!
  }
  return { slots, given, left, take }
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

describe('FairSlots', () => {
  test('serves as many databases at once as it has slots, and the others in order of request', async () => {
    const { slots, given, take } = fixture(2)
    const first = await take('a')
    await take('b')
    const waiting = ['c', 'd', 'e'].map((name) => take(name))
    await settled()
    expect(given).toEqual(['a', 'b'])
    expect(slots).toMatchObject({ working: 2, waiting: 3 })
    first()
    const third = await waiting[0]!
    expect(given).toEqual(['a', 'b', 'c'])
    third()
    await waiting[1]
    expect(given).toEqual(['a', 'b', 'c', 'd'])
    expect(slots).toMatchObject({ working: 2, waiting: 1 })
  })

  test('shares a slot between workers of one database while no other database waits', async () => {
    const { slots, left, take } = fixture(1)
    const one = await take('a')
    const two = await take('a')
    expect(slots).toMatchObject({ working: 1, waiting: 0 })
    one()
    expect(left).toEqual([])
    two()
    expect(left).toEqual(['a'])
    expect(slots.working).toBe(0)
  })

  test('does not let a database with endless work starve a waiting database', async () => {
    const { given, take } = fixture(1)
    const busy = await take('a')
    const waiting = take('b')
    const more = take('a')
    await settled()
    expect(given).toEqual(['a'])
    busy()
    const end = await waiting
    await settled()
    expect(given).toEqual(['a', 'b'])
    end()
    await more
    expect(given).toEqual(['a', 'b', 'a'])
  })

  test('serves the next caller when an earlier caller stops waiting', async () => {
    const { slots, given, take } = fixture(1)
    const first = await take('a')
    const aborted = new AbortController()
    const gone = take('b', aborted.signal)
    const behind = take('a')
    await settled()
    aborted.abort()
    await gone
    // No other database waits now, so the second worker of the working database may share its slot.
    await behind
    expect(given).toEqual(['a', 'b gave up', 'a'])
    expect(slots).toMatchObject({ working: 1, waiting: 0 })
    first()
    expect(await slots.acquire('c', AbortSignal.abort())).toBeUndefined()
  })
})
