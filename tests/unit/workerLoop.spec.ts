import { describe, expect, test } from 'vitest'
import { systemClock, type Clock } from '../../libs/core/index.js'
import {
  BoundedSlots,
  CircuitBreaker,
  Emitter,
  guardListener,
  PollLoop,
  RateLimit,
  settleWithin,
  sleep,
  Wakeup,
} from '../../libs/worker/index.js'

/** A clock that stands still until moved. */
function handClock(): Clock & { move(ms: number): void } {
  let ms = 0
  return { now: () => new Date(ms), monotonicMs: () => ms, move: (by) => void (ms += by) }
}

const never = new AbortController().signal

function breakerOf(clock: Clock, states: string[]): CircuitBreaker {
  return new CircuitBreaker({ failuresMax: 2, openMs: 100, clock, onChange: (state) => states.push(state) })
}

describe('Wakeup', () => {
  test('a word said before anybody waits is not lost', async () => {
    const wakeup = new Wakeup(0, systemClock)
    wakeup.notify()
    expect(await wakeup.wait(60_000, never)).toBe(true)
    expect(await wakeup.wait(1, never)).toBe(false)
  })

  test('an idle waiter is woken at once, and words within the window count as one', async () => {
    const wakeup = new Wakeup(30, systemClock)
    const first = wakeup.wait(60_000, never)
    wakeup.notify()
    expect(await first).toBe(true)
    wakeup.notify()
    wakeup.notify()
    expect(await wakeup.wait(60_000, never)).toBe(true)
    expect(await wakeup.wait(1, never)).toBe(false)
  })

  test('who insists is not debounced, and who is idle again is woken by the first word, however soon', async () => {
    // A minute of debounce: whoever waited for it would be seen by the test's own time limit.
    const insisting = new Wakeup(60_000, systemClock)
    insisting.notify()
    expect(await insisting.wait(60_000, never)).toBe(true)
    insisting.notify()
    const debounced = insisting.wait(60_000, never)
    insisting.notify()
    insisting.insist()
    expect(await debounced).toBe(true)
    insisting.insist()
    expect(await insisting.wait(60_000, never)).toBe(true)

    const idle = new Wakeup(60_000, systemClock, () => true)
    for (let word = 0; word < 3; word += 1) {
      idle.notify()
      expect(await idle.wait(60_000, never)).toBe(true)
    }
  })

  test('an abort ends the wait, and the debounce, without a word', async () => {
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
  test('it turns again at once while there is more, then waits to be woken', async () => {
    const turns: number[] = []
    const wakeup = new Wakeup(0, systemClock)
    const loop = new PollLoop({
      turn: () => {
        turns.push(turns.length)
        return Promise.resolve({ again: turns.length < 3 })
      },
      pollMs: 60_000,
      wakeup,
      onError: () => {},
    })
    loop.start()
    await expect.poll(() => turns.length).toBe(3)
    wakeup.notify()
    await expect.poll(() => turns.length).toBe(3)
    await loop.stop()
  })

  test('what is due exactly then is waited for in full; otherwise up to a tenth is left out, so that nobody polls in step', async () => {
    const waits: number[] = []
    class RecordingWakeup extends Wakeup {
      override wait(ms: number, signal: AbortSignal): Promise<boolean> {
        waits.push(ms)
        return super.wait(waits.length < 40 ? 0 : 60_000, signal)
      }
    }
    let turns = 0
    const loop = new PollLoop({
      turn: () => {
        turns += 1
        return Promise.resolve({ again: false, idleMs: 1_000, exact: turns % 2 === 1 })
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

  test('an error does not end it, and turns never overlap', async () => {
    let running = 0
    let most = 0
    let turns = 0
    const errors: unknown[] = []
    const loop = new PollLoop({
      turn: async () => {
        running += 1
        most = Math.max(most, running)
        turns += 1
        await sleep(1)
        running -= 1
        if (turns === 1) throw new Error('the first turn fails')
        return { again: false }
      },
      pollMs: 5,
      wakeup: new Wakeup(0, systemClock),
      onError: (error) => errors.push(error),
      errorDelayMs: 1,
    })
    loop.start()
    loop.start()
    await expect.poll(() => turns).toBeGreaterThan(3)
    await loop.stop()
    expect(errors).toHaveLength(1)
    expect(most).toBe(1)
    const after = turns
    await sleep(30)
    expect(turns).toBe(after)
  })

  test('stop waits for the turn in hand, and is safe twice and before start', async () => {
    let ended = false
    const loop = new PollLoop({
      turn: async () => {
        await sleep(20)
        ended = true
        return { again: false }
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
  test('failures in a row open it; a success between them does not', () => {
    const clock = handClock()
    const states: string[] = []
    const breaker = breakerOf(clock, states)
    breaker.failed()
    breaker.succeeded()
    breaker.failed()
    expect(breaker.admits(5)).toBe(5)
    breaker.failed()
    expect(breaker.admits(5)).toBe(0)
    expect(breaker.closedForMs).toBe(100)
    expect(states).toEqual(['open'])
  })

  test('after its rest it lets one trial through; its result decides, and the next rest is longer', () => {
    const clock = handClock()
    const breaker = breakerOf(clock, [])
    breaker.failed()
    breaker.failed()
    clock.move(100)
    expect(breaker.admits(5)).toBe(1)
    breaker.started()
    expect(breaker.admits(5)).toBe(0)
    breaker.failed()
    expect(breaker.closedForMs).toBe(200)
    clock.move(200)
    breaker.started()
    breaker.succeeded()
    expect(breaker.admits(5)).toBe(5)
  })

  test('a trial that told nothing gives its place to another', () => {
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

test('RateLimit lets one second’s worth through at once and the rest in time', () => {
  const clock = handClock()
  const rate = new RateLimit(2, clock)
  expect(rate.available).toBe(2)
  rate.take()
  rate.take()
  expect(rate.available).toBe(0)
  expect(rate.nextInMs).toBe(500)
  clock.move(500)
  expect(rate.available).toBe(1)
  clock.move(10_000)
  expect(rate.available).toBe(2)
})

test('BoundedSlots refuses one too many and one too few', () => {
  const slots = new BoundedSlots(1)
  slots.take()
  expect(() => slots.take()).toThrow('all 1 slots are taken')
  slots.give()
  expect(() => slots.give()).toThrow('nobody had taken')
})

test('settleWithin says whether a promise was settled, and swallows its failure', async () => {
  expect(await settleWithin(Promise.reject(new Error('its owner’s')), 60_000)).toBe(true)
  expect(await settleWithin(new Promise(() => {}), 1)).toBe(false)
})

test('guardListener tells every listener, whatever the others do, and warns once for each that fails', async () => {
  const warnings: Error[] = []
  const onWarning = (warning: Error) => warnings.push(warning)
  process.on('warning', onWarning)
  try {
    const heard: number[] = []
    const tell = guardListener<number>(
      () => {
        throw new Error('first')
      },
      () => Promise.reject(new Error('second')),
      () => {
        throw Object.create(null)
      },
      undefined,
      (event) => heard.push(event),
    )
    tell(1)
    tell(2)
    expect(heard).toEqual([1, 2])
    await expect.poll(() => warnings.length).toBe(3)
    const causes = warnings.map(({ message }) => /failed: (?:Error: )?(.*?)\. The work/.exec(message)?.[1])
    expect(causes).toEqual(expect.arrayContaining(['first', 'second', 'an error that cannot be read']))
  } finally {
    process.off('warning', onWarning)
  }
})

test('an Emitter tells each listener, whatever the others do, and none that has unsubscribed', () => {
  const emitter = new Emitter<number>()
  const heard: string[] = []
  emitter.on(() => {
    throw new Error('this listener is broken')
  })
  const unsubscribe = emitter.on((event) => heard.push(`first ${event}`))
  emitter.on((event) => heard.push(`second ${event}`))
  emitter.emit(1)
  unsubscribe()
  emitter.emit(2)
  expect(heard).toEqual(['first 1', 'second 1', 'second 2'])
})
