import type { LatencyStats } from '../../http/index.js'
import { count, milliseconds, plural } from '../data/format.js'

const WIDTH = 320
const HEIGHT = 60
const LEFT = 14
const RIGHT = 306
const AXIS_Y = 26
const TICKS_MS = [1, 10, 100, 1_000, 10_000, 60_000]

/** Latency of rails on a logarithmic scale, with marks at p50, p90, p99 and the maximum. */
export function LatencyScale({ latency }: { readonly latency: LatencyStats }) {
  const marks = [
    { name: 'p50', ms: latency.p50Ms, size: 7 },
    { name: 'p90', ms: latency.p90Ms, size: 6 },
    { name: 'p99', ms: latency.p99Ms, size: 5 },
    { name: 'max', ms: latency.maxMs, size: 4 },
  ]
  const p50 = latency.p50Ms
  const p99 = latency.p99Ms
  return (
    <figure class="latency">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={labelFor(marks)}>
        <line x1={LEFT} x2={RIGHT} y1={AXIS_Y} y2={AXIS_Y} class="latency-axis" />
        {TICKS_MS.map((ms) => (
          <g key={ms}>
            <line x1={xOf(ms)} x2={xOf(ms)} y1={AXIS_Y - 4} y2={AXIS_Y + 4} class="latency-axis" />
            <text x={xOf(ms)} y={AXIS_Y + 20} text-anchor="middle" class="latency-tick">
              {ms < 1_000 ? `${ms} ms` : ms < 60_000 ? `${ms / 1_000} s` : '1 min'}
            </text>
          </g>
        ))}
        {p50 === null || p99 === null ? null : (
          <line x1={xOf(p50)} x2={xOf(p99)} y1={AXIS_Y} y2={AXIS_Y} class="latency-span" />
        )}
        {marks.map(({ name, ms, size }) =>
          ms === null ? null : <circle key={name} cx={xOf(ms)} cy={AXIS_Y} r={size} class={`latency-mark ${name}`} />,
        )}
      </svg>
      <dl class="latency-figures">
        {marks.map(({ name, ms }) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{milliseconds(ms)}</dd>
          </div>
        ))}
      </dl>
      <figcaption class="quiet">
        {latency.sampled === 0
          ? 'No call to a rail was measured in the last hour.'
          : `Measured over ${count(latency.sampled)} ${plural(latency.sampled, 'attempt')}, the newest of the last hour.`}
      </figcaption>
    </figure>
  )
}

function xOf(ms: number): number {
  const least = Math.log10(TICKS_MS[0] ?? 1)
  const most = Math.log10(TICKS_MS.at(-1) ?? 60_000)
  const at = Math.min(most, Math.max(least, Math.log10(Math.max(ms, 0.001))))
  return LEFT + ((at - least) / (most - least)) * (RIGHT - LEFT)
}

function labelFor(marks: readonly { readonly name: string; readonly ms: number | null }[]): string {
  return `Rail latency: ${marks.map(({ name, ms }) => `${name} ${milliseconds(ms)}`).join(', ')}`
}
