import { describe, expect, test } from 'vitest'
import { systemClock, type Clock } from '../../libs/core/index.js'
import {
  CircuitBreaker,
  Emitter,
  guardListener,
  PollLoop,
  Semaphore,
  settleWithin,
  sleep,
  Wakeup,
} from '../../libs/worker/index.js'

/** Returns a clock that stands still until `move()`. */
function handClock(): Clock & { move(ms: number): void } {
  let ms = 0
  return { now: () => new Date(ms), monotonicMs: () => ms, move: (by) => void (ms += by) }
}

const never = new AbortController().signal

function breakerOf(clock: Clock, states: string[]): CircuitBreaker {
  return new CircuitBreaker({ failuresMax: 2, openMs: 100, clock, onChange: (state) => states.push(state) })
}

describe('Wakeup', () => {
  test('keeps a notification that arrives before the wait', async () => {
    const wakeup = new Wakeup(0, systemClock)
    wakeup.notify()
    expect(await wakeup.wait(60_000, never)).toBe(true)
    expect(await wakeup.wait(1, never)).toBe(false)
  })

  test('wakes an idle loop at once and counts notifications within the window as one', async () => {
    const wakeup = new Wakeup(30, systemClock)
    const first = wakeup.wait(60_000, never)
    wakeup.notify()
    expect(await first).toBe(true)
    wakeup.notify()
    wakeup.notify()
    expect(await wakeup.wait(60_000, never)).toBe(true)
    expect(await wakeup.wait(1, never)).toBe(false)
  })

  test('does not debounce wakeNow, nor a notification of an idle loop', async () => {
    // A minute of debounce: a wait for its end would exceed the time limit of this test.
    const urgent = new Wakeup(60_000, systemClock)
    urgent.notify()
    expect(await urgent.wait(60_000, never)).toBe(true)
    urgent.notify()
    const debounced = urgent.wait(60_000, never)
    urgent.notify()
    urgent.wakeNow()
    expect(await debounced).toBe(true)
    urgent.wakeNow()
    expect(await urgent.wait(60_000, never)).toBe(true)

    const idle = new Wakeup(60_000, systemClock, () => true)
    for (let round = 0; round < 3; round += 1) {
      idle.notify()
      expect(await idle.wait(60_000, never)).toBe(true)
    }
  })

  test('ends its wait and its debounce on an abort', async () => {
    const debounced = new Wakeup(60_000, systemClock)
    debounced.notify()
    await debounced.wait(60_000, never)
    debounced.notify()
    const ending = new AbortController()
    const inWindow = debounced.wait(60_000, ending.signal)
    ending.abort()
    await inWindow
    const stopping = new AbortController()
    const waiting = new Wakeup(0, systemClock).wait(60_000, stopping.signal)
    stopping.abort()
    expect(await waiting).toBe(false)
  })
})

describe('PollLoop', () => {
  test('polls again at once while there is more work, then waits for a wake-up', async () => {
    const polls: number[] = []
    const wakeup = new Wakeup(0, systemClock)
    const loop = new PollLoop({
      poll: () => {
        polls.push(polls.length)
        return Promise.resolve({ pollAgain: polls.length < 3 })
      },
      pollMs: 60_000,
      wakeup,
      onError: () => {},
    })
    loop.start()
    await expect.poll(() => polls.length).toBe(3)
    wakeup.notify()
    await expect.poll(() => polls.length).toBe(3)
    await loop.stop()
  })

  test('waits the full time for an exact due time, and up to 10 % less otherwise', async () => {
    const waits: number[] = []
    class RecordingWakeup extends Wakeup {
      override wait(ms: number, signal: AbortSignal): Promise<boolean> {
        waits.push(ms)
        return super.wait(waits.length < 40 ? 0 : 60_000, signal)
      }
    }
    let polls = 0
    const loop = new PollLoop({
      poll: () => {
        polls += 1
        return Promise.resolve({ pollAgain: false, idleMs: 1_000, exact: polls % 2 === 1 })
      },
      pollMs: 60_000,
      wakeup: new RecordingWakeup(0, systemClock),
      onError: () => {},
    })
    loop.start()
    await expect.poll(() => waits.length).toBe(40)
    await loop.stop()
    const exact = waits.filter((_, index) => index % 2 === 0)
    const jittered = waits.filter((_, index) => index % 2 === 1)
    expect(new Set(exact)).toEqual(new Set([1_000]))
    expect(jittered.every((ms) => ms >= 900 && ms <= 1_000)).toBe(true)
    expect(new Set(jittered).size).toBeGreaterThan(1)
  })

  test('continues after an error and never overlaps two polls', async () => {
    let running = 0
    let most = 0
    let polls = 0
    const errors: unknown[] = []
    const loop = new PollLoop({
      poll: async () => {
        running += 1
        most = Math.max(most, running)
        polls += 1
        await sleep(1)
        running -= 1
        if (polls === 1) throw new Error('the first poll fails')
        return { pollAgain: false }
      },
      pollMs: 5,
      wakeup: new Wakeup(0, systemClock),
      onError: (error) => errors.push(error),
      errorDelayMs: 1,
    })
    loop.start()
    loop.start()
    await expect.poll(() => polls).toBeGreaterThan(3)
    await loop.stop()
    expect(errors).toHaveLength(1)
    expect(most).toBe(1)
    const after = polls
    await sleep(30)
    expect(polls).toBe(after)
  })

  test('stop() waits for the current poll, and may be called twice and before start', async () => {
    let ended = false
    const loop = new PollLoop({
      poll: async () => {
        await sleep(20)
        ended = true
        return { pollAgain: false }
      },
      pollMs: 60_000,
      wakeup: new Wakeup(0, systemClock),
      onError: () => {},
    })
    await loop.stop()
    loop.start()
    await loop.stop()
    await loop.stop()
    expect(ended).toBe(true)
  })
})

describe('CircuitBreaker', () => {
  test('opens after failures in a row, not if a success is between them', () => {
    const clock = handClock()
    const states: string[] = []
    const breaker = breakerOf(clock, states)
    breaker.failed()
    breaker.succeeded()
    breaker.failed()
    expect(breaker.admits(5)).toBe(5)
    breaker.failed()
    expect(breaker.admits(5)).toBe(0)
    expect(breaker.openForMs).toBe(100)
    expect(states).toEqual(['open'])
  })

  test('admits one trial after openMs; failure doubles the time, success closes the breaker', () => {
    const clock = handClock()
    const breaker = breakerOf(clock, [])
    breaker.failed()
    breaker.failed()
    clock.move(100)
    expect(breaker.admits(5)).toBe(1)
    breaker.started()
    expect(breaker.admits(5)).toBe(0)
    breaker.failed()
    expect(breaker.openForMs).toBe(200)
    clock.move(200)
    breaker.started()
    breaker.succeeded()
    expect(breaker.admits(5)).toBe(5)
  })

  test('admits another trial call after an abandoned one', () => {
    const clock = handClock()
    const breaker = breakerOf(clock, [])
    breaker.failed()
    breaker.failed()
    clock.move(100)
    breaker.started()
    breaker.abandoned()
    expect(breaker.admits(5)).toBe(1)
  })
})

test('Semaphore refuses an acquire above its size and a release without an acquire', () => {
  const slots = new Semaphore(1)
  slots.acquire()
  expect(() => slots.acquire()).toThrow('all 1 slots are taken')
  slots.release()
  expect(() => slots.release()).toThrow('release() without a matching acquire()')
})

test('settleWithin returns whether a promise settled in time, and ignores its error', async () => {
  expect(await settleWithin(Promise.reject(new Error('its owner’s')), 60_000)).toBe(true)
  expect(await settleWithin(new Promise(() => {}), 1)).toBe(false)
})

test('guardListener calls every listener and warns once for each that fails', async () => {
  const warnings: Error[] = []
  const onWarning = (warning: Error) => warnings.push(warning)
  process.on('warning', onWarning)
  try {
    const received: number[] = []
    const notify = guardListener<number>(
      () => {
        throw new Error('first')
      },
      () => Promise.reject(new Error('second')),
      () => {
        throw Object.create(null)
      },
      undefined,
      (event) => received.push(event),
    )
    notify(1)
    notify(2)
    expect(received).toEqual([1, 2])
    await expect.poll(() => warnings.length).toBe(3)
    const causes = warnings.map(({ message }) => /failed: (?:Error: )?(.*?)\. The work/.exec(message)?.[1])
    expect(causes).toEqual(expect.arrayContaining(['first', 'second', 'an unreadable error']))
  } finally {
    process.off('warning', onWarning)
  }
})

test('an Emitter calls each subscribed listener even if another throws', () => {
  const emitter = new Emitter<number>()
  const received: string[] = []
  emitter.on(() => {
    throw new Error('this listener is broken')
  })
  const unsubscribe = emitter.on((event) => received.push(`first ${event}`))
  emitter.on((event) => received.push(`second ${event}`))
  emitter.emit(1)
  unsubscribe()
  emitter.emit(2)
  expect(received).toEqual(['first 1', 'second 1', 'second 2'])
})
