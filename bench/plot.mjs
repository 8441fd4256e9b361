// Draws plots as SVG text without a library, so that a diff shows changes and the colours follow the reader's theme.
const COLOURS = ['#1f6feb', '#bf8700', '#8250df', '#1a7f37', '#cf222e']
const GREY = '#8b949e'
const STYLE = `<style>
text { fill: #57606a } .axis { stroke: #8b949e; stroke-opacity: .5 } .bound { stroke: #cf222e; stroke-dasharray: 5 4 }
@media (prefers-color-scheme: dark) { text { fill: #9da7b3 } .bound { stroke: #ff7b72 } }
</style>`

/** Draws bars in groups with titles. Bars with `ours` are coloured. */
export function barPlot({ title, groups }) {
  const most = Math.max(...groups.flatMap(({ bars }) => bars.map(({ value }) => value)), 1)
  const shapes = []
  let y = 10
  for (const group of groups) {
    shapes.push(`<text x="10" y="${y + 14}" font-weight="600">${escape(group.title)}</text>`)
    y += 24
    for (const { name, value, ours } of group.bars) {
      const width = Math.max(1, Math.round((value / most) * 400))
      shapes.push(
        `<text x="180" y="${y + 13}" text-anchor="end">${escape(name)}</text>`,
        `<rect x="190" y="${y}" width="${width}" height="18" rx="2" fill="${ours ? COLOURS[0] : GREY}"/>`,
        `<text x="${196 + width}" y="${y + 13}">${short(value)}</text>`,
      )
      y += 24
    }
    y += 14
  }
  return svg({ title, height: y, shapes })
}

/** Draws lines over a numeric axis, logarithmic if `x.log`. `bound` is drawn as a limit. */
export function linePlot({ title, x, y, series, bound }) {
  const [left, right, top, bottom] = [70, 690, 56, 296]
  const points = series.flatMap((one) => one.points)
  const across = scaleOf(
    points.map(([at]) => at),
    { from: left, to: right, log: x.log },
  )
  const levels = [0, ...points.map(([, value]) => value), ...(bound === undefined ? [] : [bound.value])]
  const up = scaleOf(levels, { from: bottom, to: top })
  const shapes = [
    `<text x="10" y="20" font-weight="600">${escape(title)}</text>`,
    `<text x="10" y="40">${escape(y.label)}</text>`,
    `<text x="${right}" y="${bottom + 36}" text-anchor="end">${escape(x.label)}</text>`,
    `<path class="axis" d="M${left} ${top}V${bottom}H${right}" fill="none"/>`,
    ...up.ticks.map((tick) => `<text x="${left - 6}" y="${up.at(tick) + 4}" text-anchor="end">${short(tick)}</text>`),
    ...across.ticks.map(
      (tick) => `<text x="${across.at(tick)}" y="${bottom + 18}" text-anchor="middle">${short(tick)}</text>`,
    ),
  ]
  if (bound !== undefined) {
    const level = up.at(bound.value)
    shapes.push(
      `<path class="bound" d="M${left} ${level}H${right}" fill="none"/>`,
      `<text x="${right}" y="${level - 5}" text-anchor="end">${escape(bound.label)}</text>`,
    )
  }
  series.forEach(({ name, points: ofLine }, n) => {
    const colour = COLOURS[n % COLOURS.length]
    const line = ofLine.map(([at, value]) => `${across.at(at)},${up.at(value)}`)
    shapes.push(`<polyline points="${line.join(' ')}" fill="none" stroke="${colour}" stroke-width="2"/>`)
    // A line of many points needs no marks.
    if (ofLine.length <= 20) shapes.push(...line.map((point) => mark(point.split(','), colour)))
    // Two names per row of the legend.
    const [legendX, legendY] = [left + (n % 2) * 310, bottom + 44 + Math.floor(n / 2) * 18]
    shapes.push(
      `<rect x="${legendX}" y="${legendY}" width="10" height="10" fill="${colour}"/>`,
      `<text x="${legendX + 15}" y="${legendY + 10}">${escape(name)}</text>`,
    )
  })
  return svg({ title, height: bottom + 50 + Math.ceil(series.length / 2) * 18, shapes })
}

function mark([cx, cy], colour) {
  return `<circle cx="${cx}" cy="${cy}" r="3" fill="${colour}"/>`
}

function scaleOf(values, { from, to, log = false }) {
  const [least, most] = [Math.min(...values), Math.max(...values)]
  const place = log ? Math.log10 : (value) => value
  const span = place(most) - place(least) || 1
  return {
    ticks: log ? [...new Set(values)] : roundNumbers(least, most),
    at: (value) => Math.round(from + ((place(value) - place(least)) / span) * (to - from)),
  }
}

/** Returns ticks at multiples of 1, 2 or 5 times a power of ten, in at most six steps. */
function roundNumbers(least, most) {
  if (most <= least) return [least]
  const power = 10 ** Math.floor(Math.log10((most - least) / 6))
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => (most - least) / size <= 6)
  const first = Math.ceil(least / step)
  return Array.from({ length: Math.floor(most / step) - first + 1 }, (_, n) => (first + n) * step)
}

function svg({ title, height, shapes }) {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 ${height}" font-family="system-ui, sans-serif" font-size="13">
<title>${escape(title)}</title>
${STYLE}
${shapes.join('\n')}
</svg>
`
}

/** Shortens a number for an axis: 5,000,000 becomes 5 M. */
function short(value) {
  if (value >= 1e6) return `${trimmed(value / 1e6)} M`
  if (value >= 1e4) return `${trimmed(value / 1e3)} k`
  return trimmed(value)
}

function trimmed(value) {
  return Number(value.toPrecision(3)).toLocaleString('en')
}

function escape(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')
}
