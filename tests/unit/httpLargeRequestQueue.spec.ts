import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { LargeRequestQueue } from '../../libs/http/requestBody.js'

test('LargeRequestQueue continues one request per event loop turn, in order of arrival', async () => {
  const done: string[] = []
  const queue = new LargeRequestQueue()
  for (const name of ['long 1', 'long 2', 'long 3']) void queue.turn().then(() => done.push(name))
  expect(done).toEqual([])
  for (const name of ['short 1', 'short 2', 'short 3']) {
    await turn()
    done.push(name)
  }
  expect(done).toEqual(['long 1', 'short 1', 'long 2', 'short 2', 'long 3', 'short 3'])
  void queue.turn().then(() => done.push('long 4'))
  await turn()
  expect(done.at(-1)).toBe('long 4')
})
