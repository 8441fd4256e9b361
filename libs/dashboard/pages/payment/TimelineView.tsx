import type { Timeline } from '../../../http/index.js'
import { readClock } from '../../data/clock.js'
import { absolute, dayAndTime } from '../../data/format.js'
import { Icon } from '../../parts/Icon.js'
import { RelativeTime } from '../../parts/RelativeTime.js'
import { StateTag } from '../../parts/StateTag.js'
import { styleOfState } from '../../parts/states.js'
import { timelineEntries, type Entry } from './timelineEntries.js'

/** Timeline of a payment, oldest first. The last line shows the current state. */
export function TimelineView({ timeline }: { readonly timeline: Timeline }) {
  return (
    <ol class="timeline">
      {timelineEntries(timeline).map((entry) => (
        <EntryLine key={entry.key} entry={entry} />
      ))}
      <Now timeline={timeline} />
    </ol>
  )
}

function EntryLine({ entry }: { readonly entry: Entry }) {
  const { at, title, icon, tone, actor, note, facts } = entry
  return (
    <li class={`tone-${tone}`}>
      <span class="timeline-icon">
        <Icon name={icon} size={12} />
      </span>
      <div class="timeline-head">
        <strong>{title}</strong>
        {actor === null ? null : <code class="quiet">{actor}</code>}
        {at === '' ? null : (
          <time class="quiet timeline-time" dateTime={at} title={absolute(at)}>
            {dayAndTime(at, readClock())}
          </time>
        )}
      </div>
      {note === null ? null : <p class="quiet">{note}</p>}
      {facts.length === 0 ? null : (
        <dl class="facts small">
          {facts.map(([name, value]) => (
            <div key={name} class="fact">
              <dt>{name}</dt>
              <dd class="mono">{TIME.test(value) ? <When at={value} /> : value}</dd>
            </div>
          ))}
        </dl>
      )}
    </li>
  )
}

const TIME = /^\d{4}-\d{2}-\d{2}T[\d:.]+Z$/

function When({ at }: { readonly at: string }) {
  return (
    <time dateTime={at} title={absolute(at)}>
      {dayAndTime(at, readClock())}
    </time>
  )
}

function Now({ timeline: { item } }: { readonly timeline: Timeline }) {
  const { state, claimedBy, leaseExpiresAt, nextAttemptAt, heldAt } = item
  const { tone, icon, meaning } = styleOfState(state)
  return (
    <li class={`now tone-${tone}`} aria-current="step">
      <span class="timeline-icon">
        <Icon name={icon} size={12} />
      </span>
      <div class="timeline-head">
        <StateTag state={state} />
        {item.outcomeUnknown ? <StateTag state="OUTCOME_UNKNOWN" /> : null}
        {claimedBy === null ? null : <code class="quiet">{claimedBy}</code>}
      </div>
      <p class="quiet">
        {meaning}{' '}
        {leaseExpiresAt === null ? null : (
          <>
            Lease ends <RelativeTime at={leaseExpiresAt} />.
          </>
        )}
        {state === 'SCHEDULED' ? (
          <>
            Next attempt <RelativeTime at={nextAttemptAt} />.
          </>
        ) : null}
        {state === 'HELD' ? (
          <>
            Since <RelativeTime at={heldAt} />.
          </>
        ) : null}
      </p>
    </li>
  )
}
