import { constants, PerformanceObserver } from 'node:perf_hooks'
import { setImmediate as turn } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { collectYoungObjects, LargeRequestQueue } from '../../libs/http/requestBody.js'

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

test('LargeRequestQueue frees memory after every 64 requests', async () => {
  let collections = 0
  const queue = new LargeRequestQueue(() => (collections += 1))
  const turns = (length: number) => Promise.all(Array.from({ length }, () => queue.turn()))
  await turns(63)
  expect(collections).toBe(0)
  await turns(1)
  expect(collections).toBe(1)
  await turns(64)
  expect(collections).toBe(2)
})

test('collectYoungObjects collects young objects only, and leaves no global gc', async () => {
  const kinds: unknown[] = []
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      const { kind, flags }: { kind?: number; flags?: number } = Object('detail' in entry ? entry.detail : undefined)
      if (flags === constants.NODE_PERFORMANCE_GC_FLAGS_FORCED) kinds.push(kind)
    }
  })
  observer.observe({ entryTypes: ['gc'] })
  onTestFinished(() => observer.disconnect())
  collectYoungObjects()
  collectYoungObjects()
  await expect.poll(() => kinds).toEqual([constants.NODE_PERFORMANCE_GC_MINOR, constants.NODE_PERFORMANCE_GC_MINOR])
  expect(globalThis).not.toHaveProperty('gc')
})
