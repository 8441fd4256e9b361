import { expect, test } from 'vitest'
import { describeGauge, findGrowth, type Gauge } from '../scorecard/soak/flatness.js'

const SECONDS = 400

/** Builds a gauge with one measurement per second. */
function buildGauge(valueAt: (second: number) => number, limit = { factor: 1.1, slack: 10 }): Gauge {
  const points = Array.from({ length: SECONDS }, (_, at) => ({ at, value: valueAt(at) }))
  return { name: 'workerMib', points, ...limit }
}

test('findGrowth accepts a quarter 4 median of exactly quarter 2 median × factor + slack', () => {
  const atLimit = buildGauge((second) => (second < 300 ? 100 : 120))
  expect(findGrowth([atLimit], SECONDS)).toEqual([])
  expect(describeGauge(atLimit, SECONDS)).toBe('100 → 120')
})

test('findGrowth reports a quarter 4 median above quarter 2 median × factor + slack', () => {
  const leak = buildGauge((second) => 100 + second)
  expect(findGrowth([leak], SECONDS)).toEqual(['workerMib grew from 250 to 450, expected at most 285'])
})

test('findGrowth ignores peaks in quarters 1 and 3, and in under half the points of 2 and 4', () => {
  const peaks = buildGauge((second) => (second < 100 || (second >= 200 && second < 300) || second % 3 === 0 ? 999 : 50))
  expect(findGrowth([peaks], SECONDS)).toEqual([])
})

test('findGrowth reports a gauge without a measurement in the second or last quarter of the run', () => {
  const { points, ...gauge } = buildGauge(() => 1)
  const early = { ...gauge, points: points.filter(({ at }) => at < 300) }
  expect(findGrowth([early], SECONDS)).toEqual(['workerMib was not measured in the second and the last quarter'])
})
