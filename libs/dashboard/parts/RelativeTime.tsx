import { nowMs } from '../data/clock.js'
import { absolute, dayAndTime, relative } from '../data/format.js'

/** Time relative to now, then the time of day, because a phone shows no tooltip. */
export function RelativeTime({ at }: { readonly at: string | null }) {
  if (at === null) return <span class="quiet">–</span>
  return (
    <time dateTime={at} title={absolute(at)}>
      <span class="nowrap">{relative(at, nowMs.value)}</span>
      <span class="time-of-day">
        , <span class="nowrap">{dayAndTime(at, nowMs.value)}</span>
      </span>
    </time>
  )
}
