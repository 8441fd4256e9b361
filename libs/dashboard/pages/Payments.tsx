import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { OutboxItem } from '../../http/index.js'
import { wantsSearch, leaveField } from '../app/keys.js'
import { pathTo, route, setQuery } from '../app/router.js'
import { listPayments, type PaymentFilter } from '../data/api.js'
import { count, plural } from '../data/format.js'
import { itemsOf } from '../data/items.js'
import { hasScope } from '../data/me.js'
import { onServerEvent } from '../data/stream.js'
import { useFreshPages } from '../data/useFreshPages.js'
import { usePages, type PagesHandle } from '../data/usePages.js'
import { Empty } from '../parts/Empty.js'
import { ExportButton } from '../parts/ExportButton.js'
import { Icon } from '../parts/Icon.js'
import { RelativeTime } from '../parts/RelativeTime.js'
import { Amount, Destination } from '../parts/Money.js'
import {
  filterSoon,
  KindFilter,
  knownRails,
  NoMatches,
  ParticipantFilter,
  RailFilter,
} from '../parts/PaymentFilters.js'
import { ProblemNote } from '../parts/ProblemNote.js'
import { Dialog } from '../parts/Dialog.js'
import { SelectBox, SelectionBar, useSelection, type Selection } from '../parts/Selection.js'
import { Skeleton } from '../parts/Skeleton.js'
import { styleOfState } from '../parts/states.js'
import { StateTag } from '../parts/StateTag.js'
import { VirtualList } from '../parts/VirtualList.js'
import { EnqueueForm } from './overview/EnqueueForm.js'

/** Maximum page size of the API, so that scrolling needs few requests. */
const PAGE_SIZE = 500
const STATES = ['DUE', 'SCHEDULED', 'LEASED', 'EXPIRED', 'BLOCKED', 'HELD', 'DISPATCHED', 'FAILED']
/** Not a state: a returned payment stays DISPATCHED. */
const RETURNED = 'RETURNED'
const COLUMNS = ['Payment', 'State', 'Amount', 'Rail', 'Participant', 'Attempts', 'Last answer', 'Created']

export function Payments() {
  const filter = filterOf(route.value.query)
  const key = JSON.stringify(filter)
  const payments = usePages<OutboxItem>(key, (cursor, signal) =>
    listPayments({ ...filter, limit: PAGE_SIZE, ...(cursor === undefined ? {} : { cursor }) }, signal),
  )
  const selection = useSelection(key)
  const cells = useMemo(() => cellsOf(selection), [selection])
  const [isEnqueuing, setIsEnqueuing] = useState(false)
  useLiveRows(payments)
  const { rows, next, problem, isLoading } = payments.state.value
  return (
    <>
      <header class="page-head">
        <h1>Payments</h1>
        <div class="actions">
          <ExportButton path="/v1/outbox" query={{ ...filter }} />
          {hasScope('ingest') ? (
            <button type="button" class="button" onClick={() => setIsEnqueuing(true)}>
              New payment
            </button>
          ) : null}
        </div>
      </header>
      <Filters filter={filter} />
      <section class="panel" aria-label="Payments">
        {problem === undefined ? null : <ProblemNote problem={problem} onRetry={payments.refresh} />}
        <SelectionBar rows={rows.map((item) => ({ item }))} selection={selection} onDone={payments.refresh} />
        {rows.length > 0 ? (
          <VirtualList
            label="payments"
            className="payments"
            rows={rows}
            keyOf={({ outboxId }) => outboxId}
            columns={COLUMNS}
            cells={cells}
            onNearEnd={payments.more}
          />
        ) : next === undefined ? (
          problem === undefined ? (
            <Skeleton lines={14} />
          ) : null
        ) : (
          <NoPayments isFiltered={key !== '{}'} />
        )}
        <footer class="vlist-foot">
          <span>{next === undefined ? 'Loading' : sizeOf(rows.length, next === null)}</span>
          <span>{isLoading && next !== undefined ? 'Loading more' : next === null ? 'End of list' : ''}</span>
        </footer>
      </section>
      {isEnqueuing ? (
        <Dialog title="New payment" onClose={() => setIsEnqueuing(false)}>
          <EnqueueForm rails={knownRails()} />
        </Dialog>
      ) : null}
    </>
  )
}

function filterOf(query: Readonly<Record<string, string>>): PaymentFilter {
  const named = ['q', 'kind', 'state', 'returned', 'rail', 'participant'] as const
  return Object.fromEntries(named.flatMap((name) => (query[name] ? [[name, query[name]]] : [])))
}

/** Updates the states of loaded rows by events. Loads new payments while the list is scrolled to the top. */
function useLiveRows(payments: PagesHandle<OutboxItem>): void {
  useFreshPages(payments, () => (document.querySelector('.vlist-scroll')?.scrollTop ?? 0) === 0)
  useEffect(
    () =>
      onServerEvent((event) => {
        const changed = itemsOf(event)
        if (changed === undefined) return
        const states = new Map(changed.items.map(({ outboxId, state }) => [outboxId, state]))
        payments.patch((row) => withState(row, states.get(row.outboxId)))
      }),
    [payments],
  )
}

function withState(row: OutboxItem, state: OutboxItem['state'] | undefined): OutboxItem {
  return state === undefined || state === row.state ? row : { ...row, state }
}

function Filters({ filter }: { readonly filter: PaymentFilter }) {
  const search = useRef<HTMLInputElement>(null)
  // Sets the focus before the first paint, so that no letter typed after the slash is lost.
  useLayoutEffect(() => {
    if (!wantsSearch.peek()) return
    wantsSearch.value = false
    search.current?.focus()
  }, [])
  return (
    <search class="filters">
      <div class="search">
        <Icon name="search" />
        <input
          ref={search}
          data-search
          class="input"
          type="search"
          aria-label="Search payments by id, instruction or rail reference"
          placeholder="Search an id, instruction or reference"
          defaultValue={filter.q ?? ''}
          onKeyDown={leaveField}
          onInput={({ currentTarget }) => filterSoon({ q: currentTarget.value.trim() })}
        />
      </div>
      <select
        class="input"
        aria-label="State"
        value={filter.returned === undefined ? (filter.state ?? '') : RETURNED}
        onChange={({ currentTarget: { value } }) =>
          setQuery(value === RETURNED ? { state: '', returned: 'true' } : { state: value, returned: '' })
        }
      >
        <option value="">Any state</option>
        {[...STATES, RETURNED].map((state) => (
          <option key={state} value={state}>
            {styleOfState(state).word}
          </option>
        ))}
      </select>
      <KindFilter kind={filter.kind} />
      <RailFilter rail={filter.rail} />
      <ParticipantFilter participant={filter.participant} />
    </search>
  )
}

const cellsOf = (selection: Selection) => (item: OutboxItem) => {
  const { outboxId, instructionId, state, railType, participantId, sequenceId, createdAt } = item
  return [
    <>
      <SelectBox item={item} selection={selection} />
      <a href={pathTo(['payments', outboxId])} title={instructionId}>
        {instructionId}
      </a>
    </>,
    <span key="state">
      <StateTag state={state} /> {item.outcomeUnknown ? <StateTag state="OUTCOME_UNKNOWN" short="Unknown" /> : null}
      {item.returned ? <StateTag state={RETURNED} /> : null}
    </span>,
    <span key="amount">
      <Amount of={item} /> <Destination of={item} />
    </span>,
    railType,
    <>
      {participantId} <span class="quiet">№ {sequenceId}</span>
    </>,
    item.lastAttemptNo ?? '–',
    <span key="answer" class="mono quiet">
      {item.lastRailReference ?? item.lastErrorCode ?? '–'}
    </span>,
    <RelativeTime key="created" at={createdAt} />,
  ]
}

/** Returns `500+ payments` if there are more pages, because the API returns no total. */
function sizeOf(size: number, isAll: boolean): string {
  return isAll ? `${count(size)} ${plural(size, 'payment')}` : `${count(size)}+ payments`
}

function NoPayments({ isFiltered }: { readonly isFiltered: boolean }) {
  if (!isFiltered)
    return (
      <Empty title="No payments yet">
        <p>
          Enqueued payments appear here, newest first, and stay after they end. The <a href={pathTo([])}>overview</a>{' '}
          helps you enqueue the first one.
        </p>
      </Empty>
    )
  return <NoMatches path="payments" />
}
