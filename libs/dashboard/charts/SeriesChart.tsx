import { useMemo, useState } from 'preact/hooks'
import type uPlot from 'uplot'
import type { Series, SeriesPoint } from '../../http/index.js'
import { count, timeSpan } from '../data/format.js'
import { Icon } from '../parts/Icon.js'
import { styleOfState } from '../parts/states.js'
import { usePlot } from './usePlot.js'

interface Layer {
  readonly name: string
  readonly state: string
  readonly colour: string
  readonly count: (point: SeriesPoint) => number
}

/**
 * Layers from bottom to top. Their colours also differ in lightness, so that colour-blind readers can distinguish them.
 */
const LAYERS: readonly Layer[] = [
  { name: 'dispatched', state: 'DISPATCHED', colour: '--good', count: ({ dispatched }) => dispatched },
  {
    name: 'retryable',
    state: 'RETRYABLE',
    colour: '--chart-retry',
    count: ({ retried, unknown }) => retried - unknown,
  },
  { name: 'unknown', state: 'OUTCOME_UNKNOWN', colour: '--unknown', count: ({ unknown }) => unknown },
  { name: 'failed', state: 'FAILED', colour: '--bad', count: ({ failed }) => failed },
  { name: 'held', state: 'HELD', colour: '--held', count: ({ held }) => held },
  { name: 'returned', state: 'RETURNED', colour: '--chart-return', count: ({ returned }) => returned },
  { name: 'cancelled', state: 'CANCELLED', colour: '--wait', count: ({ cancelled }) => cancelled },
]

interface SeriesChartProps {
  readonly series: Series
  /** Range in words, such as `last hour`. */
  readonly range: string
  readonly onSelect: (from: number, to: number) => void
}

/** Outcomes, holds and returns per interval, as stacked bars. A selection with the mouse narrows the range. */
export function SeriesChart({ series: { points, grain }, range, onSelect }: SeriesChartProps) {
  const [pointedAt, setPointedAt] = useState<number | null>(null)
  const data = useMemo(() => stacked(points), [points])
  const { place, isDrawn } = usePlot({ data, series: barsOf, valueText: count, onPoint: setPointedAt, onSelect })
  const shown = pointedAt === null ? undefined : points[pointedAt]
  const total = (layer: Layer) => points.reduce((sum, point) => sum + layer.count(point), 0)
  const summary = LAYERS.map((layer) => `${count(total(layer))} ${styleOfState(layer.state).word.toLowerCase()}`).join(
    ', ',
  )
  return (
    <figure>
      <div ref={place} class="throughput" role="img" aria-label={`Outcomes per ${grain}, ${range}: ${summary}`}>
        {isDrawn === false ? <p class="quiet">This browser cannot draw the chart. The numbers are below.</p> : null}
      </div>
      <figcaption class="legend">
        <span class="legend-when">{shown === undefined ? range : timeSpan(shown.at, grain)}</span>
        {LAYERS.map((layer) => {
          const { word, icon } = styleOfState(layer.state)
          return (
            <span key={layer.name} class={`legend-item layer-${layer.name}`}>
              <Icon name={icon} size={12} />
              {word}
              <b>{count(shown === undefined ? total(layer) : layer.count(shown))}</b>
            </span>
          )
        })}
      </figcaption>
    </figure>
  )
}

/**
 * Returns the upper edge of each layer: its count plus the counts of all layers below. The topmost layer is drawn
 * first, and lower layers are drawn over it.
 */
function stacked(points: readonly SeriesPoint[]): uPlot.AlignedData {
  const times = points.map(({ at }) => Date.parse(at) / 1_000)
  const tops: number[][] = []
  let below = points.map(() => 0)
  for (const layer of LAYERS) {
    below = points.map((point, index) => (below[index] ?? 0) + layer.count(point))
    tops.unshift(below)
  }
  return [times, ...tops]
}

function barsOf(Plot: typeof uPlot, colour: (name: string) => string): readonly uPlot.Series[] {
  const build = Plot.paths.bars
  // uPlot's types declare this function as optional.
  if (build === undefined) throw new Error('this build of uPlot has no bars')
  const paths = build({ size: [0.72, 14], align: 1 })
  return LAYERS.toReversed().map((layer) => ({
    fill: colour(layer.colour),
    width: 0,
    points: { show: false },
    paths,
  }))
}
