import type { Status } from '../../../http/index.js'
import { pathTo } from '../../app/router.js'
import { ShareBar } from '../../charts/ShareBar.js'
import { count, duration, milliseconds, plural, share } from '../../data/format.js'
import { Icon } from '../../parts/Icon.js'
import { styleOfState, type Tone } from '../../parts/states.js'
import { Tile } from '../../parts/Tile.js'

export function QueueStatsPanel({ status }: { readonly status: Status }) {
  const { queue, latency } = status
  const { messages } = queue
  const deadLastHour = without(queue.failedLastHour, queue.cancelledLastHour, messages.deadLastHour)
  const held = without(queue.heldCount, messages.heldCount)
  // Includes messages, because the number of dispatched items does.
  const ended = Number(queue.dispatchedLastHour) + Number(queue.failedLastHour) - Number(queue.cancelledLastHour)
  return (
    <section class="panel" aria-label="Queue">
      <dl class="figures">
        <Tile name="Pending" value={count(queue.pendingCount)} href={pathTo(['payments'])}>
          oldest {duration(queue.oldestPendingAgeSeconds)}
          {queue.countsAgeSeconds >= 1 && `, counted ${duration(queue.countsAgeSeconds)} ago`}
        </Tile>
        <Tile name="Oldest due" value={duration(queue.oldestDueAgeSeconds)}>
          {count(queue.dueUnleasedCount)} due now
        </Tile>
        <Tile
          name="Dispatched"
          value={count(queue.dispatchedLastHour)}
          href={pathTo(['payments'], { state: 'DISPATCHED' })}
        >
          {share(Number(queue.dispatchedLastHour), ended)}, last hour
        </Tile>
        <Tile name="At the rail, p50" value={milliseconds(latency.p50Ms)}>
          p99 {milliseconds(latency.p99Ms)}
        </Tile>
        <Tile
          name="Unknown"
          value={count(queue.outcomeUnknownCount)}
          tone={toneOf('unknown', queue.outcomeUnknownCount)}
        >
          may be paid
        </Tile>
        <Tile name="Held" value={count(held)} href={pathTo(['holds'])} tone={toneOf('held', held)}>
          {plural(held, 'needs', 'need')} a decision
        </Tile>
        <Tile
          name="Dead letters"
          value={count(without(queue.dlqDepth, queue.cancelledTotal, messages.deadCount))}
          href={pathTo(['dlq'])}
          tone={toneOf('bad', deadLastHour)}
        >
          {count(deadLastHour)} in the last hour
        </Tile>
      </dl>
      <Composition status={status} />
    </section>
  )
}

/** Subtracts cancelled items and messages from a count, because the lists do not show them. */
function without(all: string, ...others: readonly string[]): string {
  return String(others.reduce((left, other) => left - Number(other), Number(all)))
}

function toneOf(tone: Tone, number: string): Tone | undefined {
  return Number(number) === 0 ? undefined : tone
}

/** States of the queue. Each pending payment is in exactly one. */
function Composition({ status: { queue } }: { readonly status: Status }) {
  const parts = [
    { name: 'LEASED', count: Number(queue.leasedCount) },
    { name: 'DUE', count: Number(queue.dueUnleasedCount) },
    { name: 'SCHEDULED', count: Number(queue.scheduledCount) },
    { name: 'BLOCKED', count: Number(queue.blockedCount) },
    { name: 'EXPIRED', count: Number(queue.expiredLeaseCount) },
    { name: 'HELD', count: Number(queue.heldCount) },
  ].map(({ name, count: size }) => ({ name, count: size, tone: styleOfState(name).tone }))
  return (
    <div class="composition">
      <ShareBar parts={parts} />
      <ul>
        {parts.map(({ name, count: size, tone }) => (
          <li key={name}>
            <a class={`state tone-${tone}`} href={pathTo(['payments'], { state: name })}>
              <Icon name={styleOfState(name).icon} size={12} />
              {styleOfState(name).word} <b>{count(size)}</b>
            </a>
          </li>
        ))}
      </ul>
    </div>
  )
}
