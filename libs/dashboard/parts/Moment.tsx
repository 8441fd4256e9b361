import { nowMs } from '../data/clock.js'
import { absolute, relative } from '../data/format.js'

/** A time as its distance from now, with the whole of it for whoever points at it. */
export function Moment({ at }: { readonly at: string | null }) {
  if (at === null) return <span class="quiet">–</span>
  return (
    <time class="nowrap" dateTime={at} title={absolute(at)}>
      {relative(at, nowMs.value)}
    </time>
  )
}
