import { describe, expect, test } from 'vitest'
import { TokenBucket } from '../../libs/core/index.js'

describe('TokenBucket', () => {
  test('starts full and refills at its rate up to the burst', () => {
    const { bucket, time } = bucketAt(2, 4)
    expect(bucket.available).toBe(4)
    bucket.take(4)
    expect(bucket.available).toBe(0)
    time.ms += 750
    expect(bucket.available).toBe(1)
    time.ms += 60_000
    expect(bucket.available).toBe(4)
  })

  test('returns the waiting time until enough tokens are available', () => {
    const { bucket } = bucketAt(2, 4)
    expect(bucket.waitMs(4)).toBe(0)
    bucket.take(3)
    expect(bucket.waitMs()).toBe(0)
    expect(bucket.waitMs(2)).toBe(500)
  })

  test('makes later callers wait longer after a caller took more tokens than were available', () => {
    const { bucket, time } = bucketAt(1, 1)
    bucket.take(3)
    expect(bucket.available).toBe(-2)
    expect(bucket.waitMs()).toBe(3_000)
    time.ms += 3_000
    expect(bucket.waitMs()).toBe(0)
  })
})

function bucketAt(perSecond: number, burst: number) {
  const time = { ms: 1_000 }
  const clock = { now: () => new Date(time.ms), monotonicMs: () => time.ms }
  return { bucket: new TokenBucket({ perSecond, burst, clock }), time }
}
