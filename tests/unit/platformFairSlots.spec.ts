import { describe, expect, test } from 'vitest'
import { Turns } from '../../libs/platform/Turns.js'

const never = new AbortController().signal

/** Takes turns by hand, and keeps the order in which they were given. */
function fixture(size: number) {
  const left: string[] = []
  const turns = new Turns(size, (name) => left.push(name))
  const given: string[] = []
  const take = async (name: string, signal = never) => {
    const end = await turns.take(name, signal)
    given.push(end === undefined ? `${name} gave up` : name)
    return end!
  }
  return { turns, given, left, take }
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

describe('turns', () => {
  test('are given to as many databases at once as there is room for, and then in the order asked', async () => {
    const { turns, given, take } = fixture(2)
    const first = await take('a')
    await take('b')
    const waiting = ['c', 'd', 'e'].map((name) => take(name))
    await settled()
    expect(given).toEqual(['a', 'b'])
    expect(turns).toMatchObject({ working: 2, waiting: 3 })
    first()
    const third = await waiting[0]!
    expect(given).toEqual(['a', 'b', 'c'])
    third()
    await waiting[1]
    expect(given).toEqual(['a', 'b', 'c', 'd'])
    expect(turns).toMatchObject({ working: 2, waiting: 1 })
  })

  test('are shared by the workers of one database while nobody waits, and left when the last has left', async () => {
    const { turns, left, take } = fixture(1)
    const one = await take('a')
    const two = await take('a')
    expect(turns).toMatchObject({ working: 1, waiting: 0 })
    one()
    expect(left).toEqual([])
    two()
    expect(left).toEqual(['a'])
    expect(turns.working).toBe(0)
  })

  test('are not shared past somebody who waits: work without end in one database starves no other', async () => {
    const { given, take } = fixture(1)
    const busy = await take('a')
    const patient = take('b')
    const more = take('a')
    await settled()
    expect(given).toEqual(['a'])
    busy()
    const end = await patient
    await settled()
    expect(given).toEqual(['a', 'b'])
    end()
    await more
    expect(given).toEqual(['a', 'b', 'a'])
  })

  test('are given up by who stops waiting, and those behind move up', async () => {
    const { turns, given, take } = fixture(1)
    const first = await take('a')
    const impatient = new AbortController()
    const gone = take('b', impatient.signal)
    const behind = take('a')
    await settled()
    impatient.abort()
    await gone
    // Nobody else waits now, so the second worker of the working database may join it.
    await behind
    expect(given).toEqual(['a', 'b gave up', 'a'])
    expect(turns).toMatchObject({ working: 1, waiting: 0 })
    first()
    expect(await turns.take('c', AbortSignal.abort())).toBeUndefined()
  })
})
