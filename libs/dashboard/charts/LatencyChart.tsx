import { useMemo, useState } from 'preact/hooks'
import type uPlot from 'uplot'
import type { LatencySeries } from '../../http/index.js'
import { milliseconds, timeSpan } from '../data/format.js'
import { usePlot } from './usePlot.js'

const LINES = [
  { name: 'p50', key: 'p50Ms', colour: '--good' },
  { name: 'p95', key: 'p95Ms', colour: '--flight' },
  { name: 'p99', key: 'p99Ms', colour: '--unknown' },
] as const

interface LatencyChartProps {
  readonly series: LatencySeries
  readonly range: string
  readonly onSelect: (from: number, to: number) => void
}

/** Percentiles of the latency of a rail, as lines with points. */
export function LatencyChart({ series: { points, grain }, range, onSelect }: LatencyChartProps) {
  const [pointedAt, setPointedAt] = useState<number | null>(null)
  const data = useMemo<uPlot.AlignedData>(
    () => [points.map(({ at }) => Date.parse(at) / 1_000), ...LINES.map(({ key }) => points.map((one) => one[key]))],
    [points],
  )
  const { place, isDrawn } = usePlot({
    data,
    series: linesOf,
    valueText: milliseconds,
    onPoint: setPointedAt,
    onSelect,
  })
  const shown = pointedAt === null ? points.at(-1) : points[pointedAt]
  return (
    <figure>
      <div ref={place} class="throughput" role="img" aria-label={`Time at the rail per ${grain}, ${range}`}>
        {isDrawn === false ? <p class="quiet">This browser cannot draw the chart. The numbers are below.</p> : null}
      </div>
      <figcaption class="legend">
        <span class="legend-when">{shown === undefined ? range : timeSpan(shown.at, grain)}</span>
        {LINES.map(({ name, key }) => (
          <span key={name} class={`legend-item line-${name}`}>
            {name}
            <b>{milliseconds(shown?.[key] ?? null)}</b>
          </span>
        ))}
      </figcaption>
    </figure>
  )
}

function linesOf(_Plot: typeof uPlot, colour: (name: string) => string): readonly uPlot.Series[] {
  return LINES.map((line) => ({
    stroke: colour(line.colour),
    width: 1.5,
    points: { show: true, size: 4, fill: colour(line.colour) },
    spanGaps: true,
  }))
}
