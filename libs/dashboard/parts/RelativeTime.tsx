import { nowMs } from '../data/clock.js'
import { absolute, relative } from '../data/format.js'

/** Shows a time relative to now, with the full time as a tooltip. */
export function RelativeTime({ at }: { readonly at: string | null }) {
  if (at === null) return <span class="quiet">–</span>
  return (
    <time class="nowrap" dateTime={at} title={absolute(at)}>
      {relative(at, nowMs.value)}
    </time>
  )
}
