import { nowMs } from '../data/clock.js'
import { absolute, relative } from '../data/format.js'

export function RelativeTime({ at }: { readonly at: string | null }) {
  if (at === null) return <span class="quiet">–</span>
  return (
    <time class="nowrap" dateTime={at} title={absolute(at)}>
      {relative(at, nowMs.value)}
    </time>
  )
}
