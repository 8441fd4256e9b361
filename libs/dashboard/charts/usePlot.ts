import { useEffect, useRef, useState } from 'preact/hooks'
import type uPlot from 'uplot'
import { theme } from '../app/theme.js'
import { dayAndMonth, hourAndMinute } from '../data/format.js'
import { staleSince } from '../data/freshness.js'

export interface PlotSpec {
  readonly data: uPlot.AlignedData
  readonly series: (Plot: typeof uPlot, colour: (name: string) => string) => readonly uPlot.Series[]
  readonly valueText: (value: number) => string
  readonly onPoint: (index: number | null) => void
  /** Called with the range selected by mouse, in seconds. */
  readonly onSelect: (from: number, to: number) => void
}

export const HEIGHT = 200

/** Minimum width of a selection in pixels. A narrower one is a click. */
const SELECTED_MIN = 8

/**
 * Draws a chart, and redraws it when the colours change. Loads uPlot with the first chart, because uPlot is a third of
 * all code and few pages need it. If uPlot does not load, the page shows only numbers.
 */
export function usePlot(spec: PlotSpec) {
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(undefined)
  const latest = useRef(spec)
  latest.current = spec
  const [isDrawn, setIsDrawn] = useState<boolean>()
  const colours = `${theme.value} ${staleSince.value === null}`
  useEffect(() => {
    let observer: ResizeObserver | undefined
    let isLeft = false
    const draw = async (element: HTMLElement) => {
      requireKnownLocale()
      const [{ default: Plot }] = await Promise.all([import('uplot'), import('uplot/dist/uPlot.min.css')])
      if (isLeft) return
      const drawn = new Plot(optionsFor(Plot, element, latest), latest.current.data, element)
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
  useEffect(() => plot.current?.setData(spec.data), [spec.data])
  return { place, isDrawn }
}

/** Replaces an invalid locale. uPlot reads `navigator.language` when loaded and throws for `en-US@posix` (LANG=C). */
function requireKnownLocale(): void {
  try {
    Intl.getCanonicalLocales(navigator.language)
  } catch {
    Object.defineProperty(navigator, 'language', { value: 'en', configurable: true })
  }
}

function optionsFor(Plot: typeof uPlot, element: HTMLElement, latest: { readonly current: PlotSpec }): uPlot.Options {
  const style = getComputedStyle(element)
  const colour = (name: string) => style.getPropertyValue(name).trim()
  const axis = { stroke: colour('--ink-3'), font: `11px ${colour('--sans')}`, ticks: { show: false } }
  return {
    width: element.clientWidth,
    height: HEIGHT,
    padding: [8, 18, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
    scales: { y: { range: (_plot, _min, max) => [0, Math.max(4, Math.ceil((max ?? 0) * 1.1))] } },
    axes: [
      { ...axis, size: 30, space: 70, grid: { show: false }, values: (_plot, ticks) => tickTexts(ticks) },
      {
        ...axis,
        size: 52,
        grid: { stroke: colour('--line'), width: 1 },
        values: (_plot, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? latest.current.valueText(tick) : '')),
      },
    ],
    series: [{}, ...latest.current.series(Plot, colour)],
    hooks: {
      setCursor: [(plot) => latest.current.onPoint(plot.cursor.idx ?? null)],
      setSelect: [(plot) => select(plot, latest.current.onSelect)],
    },
  }
}

function select(plot: uPlot, onSelect: PlotSpec['onSelect']): void {
  const { left, width } = plot.select
  if (width < SELECTED_MIN) return
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
  onSelect(plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x'))
}

/** Returns the labels of the ticks: times of day, or dates if the ticks are at least a day apart. */
function tickTexts(ticks: readonly number[]): string[] {
  const [first = 0, second = first] = ticks
  const isDays = second - first >= 86_400
  return ticks.map((tick) => (isDays ? dayAndMonth(new Date(tick * 1_000).toISOString()) : hourAndMinute(tick * 1_000)))
}
