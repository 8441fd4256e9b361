import { useEffect, useRef, useState } from 'preact/hooks'
import type uPlot from 'uplot'
import type { ThroughputMinute } from '../../http/index.js'
import { theme } from '../app/theme.js'
import { clockTime, count } from '../data/format.js'
import { staleSince } from '../data/freshness.js'
import { Icon } from '../parts/Icon.js'
import { styleOfState } from '../parts/states.js'

interface Layer {
  readonly name: 'dispatched' | 'retryable' | 'unknown' | 'failed'
  readonly state: string
  readonly colour: string
  readonly count: (minute: ThroughputMinute) => number
}

/** Layers from bottom to top. Their tones differ in lightness too, so that they can be told apart without colour. */
const LAYERS: readonly Layer[] = [
  { name: 'dispatched', state: 'DISPATCHED', colour: '--good', count: ({ dispatched }) => dispatched },
  {
    name: 'retryable',
    state: 'RETRYABLE',
    colour: '--chart-retry',
    count: ({ retryable, zombieRequeue, outcomeUnknown }) => retryable + zombieRequeue - outcomeUnknown,
  },
  {
    name: 'unknown',
    state: 'OUTCOME_UNKNOWN',
    colour: '--unknown',
    count: ({ outcomeUnknown }) => outcomeUnknown,
  },
  { name: 'failed', state: 'FAILED', colour: '--bad', count: ({ failed }) => failed },
]

export function ThroughputChart({ minutes }: { readonly minutes: readonly ThroughputMinute[] }) {
  const [pointedAt, setPointedAt] = useState<number | null>(null)
  const { place, isDrawn } = useStackedBars(minutes, setPointedAt)
  const shown = pointedAt === null ? undefined : minutes[pointedAt]
  const total = (layer: Layer) => minutes.reduce((sum, minute) => sum + layer.count(minute), 0)
  const summary = LAYERS.map((layer) => `${count(total(layer))} ${styleOfState(layer.state).word.toLowerCase()}`).join(
    ', ',
  )
  return (
    <figure>
      <div ref={place} class="throughput" role="img" aria-label={`Attempts per minute over the last hour: ${summary}`}>
        {isDrawn === false ? <p class="quiet">This browser cannot draw the chart. The numbers are below.</p> : null}
      </div>
      <figcaption class="legend">
        <span class="legend-when">{shown === undefined ? 'Last hour' : clockTime(shown.minute).slice(0, 5)}</span>
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
 * Draws the chart, and again when the colours change. Loads uPlot with the first chart: it is a third of all code, and
 * no other page needs it. Without uPlot the page shows only the numbers.
 */
function useStackedBars(minutes: readonly ThroughputMinute[], onPoint: (index: number | null) => void) {
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(undefined)
  const latest = useRef(minutes)
  latest.current = minutes
  const [isDrawn, setIsDrawn] = useState<boolean>()
  const colours = `${theme.value} ${staleSince.value === null}`
  useEffect(() => {
    let observer: ResizeObserver | undefined
    let isLeft = false
    const draw = async (element: HTMLElement) => {
      requireKnownLocale()
      const [{ default: Plot }] = await Promise.all([import('uplot'), import('uplot/dist/uPlot.min.css')])
      if (isLeft) return
      const drawn = new Plot(optionsFor(Plot, element, onPoint), stacked(latest.current), element)
      observer = new ResizeObserver(() => drawn.setSize({ width: element.clientWidth, height: HEIGHT }))
      observer.observe(element)
      plot.current = drawn
      setIsDrawn(true)
    }
    if (place.current !== null) draw(place.current).catch(() => setIsDrawn(false))
    return () => {
      isLeft = true
      observer?.disconnect()
      plot.current?.destroy()
      plot.current = undefined
    }
  }, [colours])
  useEffect(() => plot.current?.setData(stacked(minutes)), [minutes])
  return { place, isDrawn }
}

const HEIGHT = 200

/**
 * Replaces an invalid locale: uPlot reads `navigator.language` when loaded, and `en-US@posix` (LANG=C) makes it throw.
 */
function requireKnownLocale(): void {
  try {
    Intl.getCanonicalLocales(navigator.language)
  } catch {
    Object.defineProperty(navigator, 'language', { value: 'en', configurable: true })
  }
}

/**
 * Returns the upper edge of each layer: its count plus the counts of all layers below. The topmost layer comes first
 * and is drawn first; the lower layers are drawn over it.
 */
function stacked(minutes: readonly ThroughputMinute[]): uPlot.AlignedData {
  const times = minutes.map(({ minute }) => Date.parse(minute) / 1_000)
  const tops: number[][] = []
  let below = minutes.map(() => 0)
  for (const layer of LAYERS) {
    below = minutes.map((minute, index) => (below[index] ?? 0) + layer.count(minute))
    tops.unshift(below)
  }
  return [times, ...tops]
}

function optionsFor(Plot: typeof uPlot, element: HTMLElement, onPoint: (index: number | null) => void): uPlot.Options {
  const style = getComputedStyle(element)
  const colour = (name: string) => style.getPropertyValue(name).trim()
  const font = `11px ${colour('--sans')}`
  const axis = { stroke: colour('--ink-3'), font, ticks: { show: false } }
  const bars = barsPath(Plot, { size: [0.72, 14], align: 1 })
  return {
    width: element.clientWidth,
    height: HEIGHT,
    padding: [8, 18, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    scales: { y: { range: (_plot, _min, max) => [0, Math.max(4, Math.ceil((max ?? 0) * 1.1))] } },
    axes: [
      { ...axis, size: 30, space: 70, grid: { show: false }, values: (_plot, ticks) => ticks.map(hourAndMinute) },
      {
        ...axis,
        size: 44,
        grid: { stroke: colour('--line'), width: 1 },
        values: (_plot, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? count(tick) : '')),
      },
    ],
    series: [
      {},
      ...LAYERS.toReversed().map((layer) => ({
        fill: colour(layer.colour),
        width: 0,
        points: { show: false },
        paths: bars,
      })),
    ],
    hooks: { setCursor: [(plot) => onPoint(plot.cursor.idx ?? null)] },
  }
}

/** Returns uPlot's function that draws bars. Its types declare the function as optional. */
function barsPath(Plot: typeof uPlot, options: uPlot.Series.BarsPathBuilderOpts): uPlot.Series.PathBuilder {
  const build = Plot.paths.bars
  if (build === undefined) throw new Error('this build of uPlot has no bars')
  return build(options)
}

function hourAndMinute(seconds: number): string {
  return clockTime(new Date(seconds * 1_000).toISOString()).slice(0, 5)
}
