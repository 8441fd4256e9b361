import { useState } from 'preact/hooks'
import type { InboxMessageView } from '../../http/index.js'
import { pathTo, route, setQuery } from '../app/router.js'
import { listInbox, reviveMessage } from '../data/api.js'
import { plural } from '../data/format.js'
import { hasScope } from '../data/me.js'
import { useFreshPages } from '../data/useFreshPages.js'
import { usePages } from '../data/usePages.js'
import { useResource } from '../data/useResource.js'
import { Empty } from '../parts/Empty.js'
import { ExportButton } from '../parts/ExportButton.js'
import { RelativeTime } from '../parts/RelativeTime.js'
import { PagedTable } from '../parts/PagedTable.js'
import { ReasonDialog } from '../parts/ReasonDialog.js'
import { StateTag } from '../parts/StateTag.js'
import { styleOfState } from '../parts/states.js'
import { boundsOf, TimeRangeFilter, timeRangeOf } from '../parts/TimeRange.js'

const STATES = ['seen', 'processing', 'dead', 'done']

export function Inbox() {
  const state = route.value.query['state'] ?? 'seen'
  const range = timeRangeOf(route.value.query)
  const messages = usePages<InboxMessageView>(JSON.stringify([state, range]), (cursor, signal) =>
    listInbox({ state, ...boundsOf(range), ...(cursor === undefined ? {} : { cursor }) }, signal),
  )
  const [chosen, setChosen] = useState<InboxMessageView | null>(null)
  useFreshPages(messages)
  return (
    <>
      <header class="page-head">
        <h1>Inbox</h1>
        <p class="lead">Messages from other systems: each is handled once, however often it is delivered.</p>
        <div class="actions">
          <ExportButton path="/v1/inbox" query={{ state, ...boundsOf(range) }} />
        </div>
      </header>
      <div class="filters">
        <select
          class="input"
          aria-label="State"
          value={state}
          onChange={({ currentTarget }) => setQuery({ state: currentTarget.value })}
        >
          {STATES.map((name) => (
            <option key={name} value={name}>
              {styleOfState(name).word}
            </option>
          ))}
        </select>
        <TimeRangeFilter range={range} of={state === 'dead' || state === 'done' ? 'Ended' : 'First seen'} />
      </div>
      {state === 'dead' ? null : <DeadNote />}
      <section class="panel" aria-label="Messages">
        <PagedTable
          label="Messages"
          from={messages}
          columns={['Message', 'State', 'Topic', 'Attempts', 'Seen', 'Last error', '']}
          row={(message) => (
            <MessageRow
              key={`${message.source} ${message.messageId}`}
              message={message}
              onChoose={() => setChosen(message)}
            />
          )}
          empty={<NoMessages state={state} />}
        />
      </section>
      {chosen === null ? null : (
        <ReasonDialog
          title="Revive the message"
          action="Revive it"
          explanation={`${chosen.messageId} of ${chosen.source} becomes due at once, and its attempts are reset.`}
          onClose={() => setChosen(null)}
          act={async (reason) => {
            await reviveMessage(chosen.source, chosen.messageId, reason)
            messages.refresh()
            return `${chosen.messageId} is due again.`
          }}
        />
      )}
    </>
  )
}

/** Note on the other lists that dead messages wait for an operator. */
function DeadNote() {
  const dead = useResource({
    key: 'dead',
    load: (signal) => listInbox({ state: 'dead', limit: 1 }, signal),
    everyMs: 5_000,
  })
  if ((dead.state.value.value?.items.length ?? 0) === 0) return null
  return (
    <p>
      <StateTag state="dead" /> Some messages have failed all their attempts.{' '}
      <a href={pathTo(['inbox'], { state: 'dead' })}>Show them</a>
    </p>
  )
}

function MessageRow({ message, onChoose }: { readonly message: InboxMessageView; readonly onChoose: () => void }) {
  const { source, messageId, topic, state, sightings, attemptCount, attemptsMax, lastSeenAt, lastError } = message
  const mayRevive = hasScope('operate') && state === 'dead' && topic !== null
  return (
    <tr>
      <td data-label="Message">
        <span class="mono">{messageId}</span>
        <div class="quiet">from {source}</div>
      </td>
      <td data-label="State">
        <StateTag state={state} />
      </td>
      <td data-label="Topic">{topic ?? <span class="quiet">none</span>}</td>
      <td data-label="Attempts" class="nowrap">
        {attemptCount} of {attemptsMax}
      </td>
      <td data-label="Seen">
        {sightings} {plural(sightings, 'time')}, <RelativeTime at={lastSeenAt} />
      </td>
      <td data-label="Last error">
        <span class="clamp">{lastError ?? <span class="quiet">–</span>}</span>
      </td>
      <td class={mayRevive ? 'actions' : 'empty-cell'}>
        {mayRevive ? (
          <button type="button" class="button small" aria-label={`Revive ${messageId}`} onClick={onChoose}>
            Revive
          </button>
        ) : null}
      </td>
    </tr>
  )
}

function NoMessages({ state }: { readonly state: string }) {
  return (
    <Empty title={state === 'dead' ? 'No dead messages' : `No message is ${styleOfState(state).word.toLowerCase()}`}>
      <p>
        Webhooks and other messages come in by <code>POST /v1/webhooks/SOURCE</code> or from your own code. One that
        fails all its attempts is dead until an operator revives it.
      </p>
    </Empty>
  )
}
