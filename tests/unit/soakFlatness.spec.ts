import { expect, test } from 'vitest'
import { describeGauge, findGrowth, type Gauge } from '../scorecard/soak/flatness.js'

const SECONDS = 400

/** Builds a gauge with one measurement per second. */
function buildGauge(valueAt: (second: number) => number, limit = { factor: 1.1, slack: 10 }): Gauge {
  const points = Array.from({ length: SECONDS }, (_, at) => ({ at, value: valueAt(at) }))
  return { name: 'workerMib', points, ...limit }
}

test('a gauge whose last quarter stays within factor and slack has no defect', () => {
  const atLimit = buildGauge((second) => (second < 300 ? 100 : 120))
  expect(findGrowth([atLimit], SECONDS)).toEqual([])
  expect(describeGauge(atLimit, SECONDS)).toBe('100 → 120')
})

test('a gauge whose last quarter exceeds factor and slack is a defect with both medians', () => {
  const leak = buildGauge((second) => 100 + second)
  expect(findGrowth([leak], SECONDS)).toEqual(['workerMib grew from 250 to 450, expected at most 285'])
})

test('the first and third quarter, and peaks in less than half of a quarter, do not count', () => {
  const peaks = buildGauge((second) => (second < 100 || (second >= 200 && second < 300) || second % 3 === 0 ? 999 : 50))
  expect(findGrowth([peaks], SECONDS)).toEqual([])
})

test('a gauge without a measurement in a compared quarter is a defect', () => {
  const { points, ...gauge } = buildGauge(() => 1)
  const early = { ...gauge, points: points.filter(({ at }) => at < 300) }
  expect(findGrowth([early], SECONDS)).toEqual(['workerMib was not measured in the second and the last quarter'])
})
