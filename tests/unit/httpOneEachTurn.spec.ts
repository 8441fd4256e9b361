import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { OneEachTurn } from '../../libs/http/OneEachTurn.js'

test('work passes one piece a turn, in order, and whatever else is due goes in between', async () => {
  const done: string[] = []
  const queue = new OneEachTurn()
  for (const name of ['long 1', 'long 2', 'long 3']) queue.enter(() => done.push(name))
  expect(done).toEqual([])
  for (const name of ['short 1', 'short 2', 'short 3']) {
    await turn()
    done.push(name)
  }
  expect(done).toEqual(['long 1', 'short 1', 'long 2', 'short 2', 'long 3', 'short 3'])
  queue.enter(() => done.push('long 4'))
  await turn()
  expect(done.at(-1)).toBe('long 4')
})
