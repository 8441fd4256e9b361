import { expect, test } from 'vitest'
import { Cancellation } from '../../libs/core/index.js'

test('tells each listener once, and the first reason stays', () => {
  const told: unknown[] = []
  const cancellation = new Cancellation()
  cancellation.addEventListener('abort', () => told.push(cancellation.reason))
  expect(cancellation).toMatchObject({ aborted: false, reason: undefined })
  cancellation.abort('first')
  cancellation.abort('second')
  expect(told).toEqual(['first'])
  expect(cancellation).toMatchObject({ aborted: true, reason: 'first' })
})

test('tells nobody who has left, and nobody who came too late: he asks', () => {
  const told: string[] = []
  const cancellation = new Cancellation()
  const leave = () => told.push('left')
  cancellation.addEventListener('abort', leave)
  cancellation.removeEventListener('abort', leave)
  cancellation.abort('now')
  cancellation.addEventListener('abort', () => told.push('late'))
  expect(told).toEqual([])
  expect(cancellation.aborted).toBe(true)
})

test.each(['before', 'after'])('its signal is a real one, asked for %s the end, and the same each time', (when) => {
  const cancellation = new Cancellation()
  const reason = new Error('enough')
  const early = when === 'before' ? cancellation.signal : undefined
  cancellation.abort(reason)
  const { signal } = cancellation
  expect(signal).toBeInstanceOf(AbortSignal)
  expect(early ?? signal).toBe(signal)
  expect(signal.aborted).toBe(true)
  expect(signal.reason).toBe(reason)
})
