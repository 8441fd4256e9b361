import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { LargeBodyQueue } from '../../libs/http/requestBody.js'

test('LargeBodyQueue runs one task per event loop turn, in order, between other work', async () => {
  const done: string[] = []
  const queue = new LargeBodyQueue()
  for (const name of ['long 1', 'long 2', 'long 3']) queue.run(() => done.push(name))
  expect(done).toEqual([])
  for (const name of ['short 1', 'short 2', 'short 3']) {
    await turn()
    done.push(name)
  }
  expect(done).toEqual(['long 1', 'short 1', 'long 2', 'short 2', 'long 3', 'short 3'])
  queue.run(() => done.push('long 4'))
  await turn()
  expect(done.at(-1)).toBe('long 4')
})
