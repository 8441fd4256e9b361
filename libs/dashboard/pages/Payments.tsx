import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import type { OutboxItem } from '../../http/index.js'
import { wantsSearch } from '../app/keys.js'
import { pathTo, route, setQuery } from '../app/router.js'
import { countPayments, listPayments, type PaymentFilter } from '../data/api.js'
import { count, plural } from '../data/format.js'
import { itemsOf } from '../data/items.js'
import { hasScope } from '../data/me.js'
import { onServerEvent } from '../data/stream.js'
import { useFreshPages } from '../data/useFreshPages.js'
import { usePages, type PagesHandle } from '../data/usePages.js'
import { useResource } from '../data/useResource.js'
import { Empty } from '../parts/Empty.js'
import { ExportButton } from '../parts/ExportButton.js'
import { Filters } from '../parts/Filters.js'
import { Icon } from '../parts/Icon.js'
import { RelativeTime } from '../parts/RelativeTime.js'
import { Amount, Destination, moneyTitle } from '../parts/Money.js'
import {
  filterSoon,
  KindFilter,
  knownRails,
  NoMatches,
  NameFilter,
  RailFilter,
  toQuery,
} from '../parts/PaymentFilters.js'
import { ProblemNote } from '../parts/ProblemNote.js'
import { Dialog } from '../parts/Dialog.js'
import { SelectBox, SelectionBar, useSelection, type Selection } from '../parts/Selection.js'
import { Skeleton } from '../parts/Skeleton.js'
import { styleOfState } from '../parts/states.js'
import { StateTag } from '../parts/StateTag.js'
import { TimeRangeFilter, timeRangeOf, type TimeRange } from '../parts/TimeRange.js'
import { VirtualList } from '../parts/VirtualList.js'
import { EnqueueForm } from './payment/dialogs.js'

/** Maximum page size of the API, so that scrolling needs few requests. */
const PAGE_SIZE = 500
const STATES = ['DUE', 'SCHEDULED', 'LEASED', 'EXPIRED', 'BLOCKED', 'HELD', 'DISPATCHED', 'FAILED']
/** Value of the state filter for returned payments. It is no state: a returned payment stays DISPATCHED. */
const RETURNED = 'RETURNED'
const COLUMNS = ['Payment', 'State', 'Amount', 'Rail', 'Participant', 'Attempts', 'Last answer', 'Created']

export function Payments() {
  // The destination is not in the address, because links and the browser's history must not contain account numbers.
  const [destination, setDestination] = useState('')
  const filter = { ...filterOf(route.value.query), ...(destination === '' ? {} : { destination }) }
  const key = JSON.stringify(filter)
  const payments = usePages<Row>(key, (cursor, signal) =>
    listPayments({ ...toQuery(filter), limit: PAGE_SIZE, ...(cursor === undefined ? {} : { cursor }) }, signal),
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
          <ExportButton path="/v1/outbox" query={toQuery(filter)} />
          {hasScope('ingest') ? (
            <button type="button" class="button" onClick={() => setIsEnqueuing(true)}>
              New payment
            </button>
          ) : null}
        </div>
      </header>
      <PaymentFilters filter={filter} onDestination={setDestination} />
      <Counts filter={filter} />
      <section class="panel" aria-label="Payments">
        {problem === undefined ? null : <ProblemNote problem={problem} onRetry={payments.refresh} />}
        <SelectionBar
          rows={rows.map((item) => ({ item, isOutdated: item.isOutdated === true }))}
          selection={selection}
          onDone={payments.refresh}
        />
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
          <span>{next === null ? 'End of list' : isLoading && next !== undefined ? 'Loading more' : ''}</span>
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

/** Payment of the list. `isOutdated`: an event has changed its state since it was read, and not its other fields. */
type Row = OutboxItem & { readonly isOutdated?: boolean }

/** Filters in the address, so that a bookmark or link opens the same view. */
type Filter = PaymentFilter & TimeRange

function filterOf(query: Readonly<Record<string, string>>): Filter {
  const named = ['q', 'kind', 'state', 'returned', 'rail', 'participant', 'currency', 'amountMin', 'amountMax', 'sort']
  return {
    ...timeRangeOf(query),
    ...Object.fromEntries(named.flatMap((name) => (query[name] ? [[name, query[name]]] : []))),
  }
}

/** Filter that lists the payments of each count; undefined if no filter lists exactly them. */
const COUNTED = {
  PENDING: undefined,
  HELD: { state: 'HELD', returned: '' },
  DISPATCHED: { state: 'DISPATCHED', returned: '' },
  FAILED: { state: 'FAILED', returned: '' },
  CANCELLED: undefined,
} as const

/** Number of payments per state that match the filters other than the state. A search by word has no counts. */
function Counts({ filter }: { readonly filter: Filter }) {
  const { q, state: _state, returned: _returned, sort: _sort, ...others } = filter
  const counts = useResource({
    key: JSON.stringify(others),
    load: (signal) => countPayments(toQuery(others), signal),
    concerns: ({ type }) => type === 'items',
    everyMs: COUNT_EVERY_MS,
  })
  const { value } = counts.state.value
  if (q !== undefined) return null
  const number = (size: number | undefined) =>
    size === undefined ? '–' : `${count(size)}${value?.truncated === true ? '+' : ''}`
  return (
    <ul class="state-counts" aria-label="Payments per state">
      {Object.entries(COUNTED).map(([state, query]) => (
        <li key={state}>
          {query === undefined ? (
            <span class="quiet">{state === 'PENDING' ? 'Pending' : styleOfState(state).word}</span>
          ) : (
            <a href={pathTo(route.value.parts, { ...route.value.query, ...query })}>{styleOfState(state).word}</a>
          )}{' '}
          <strong>{number(value?.states[isCounted(state) ? state : 'PENDING'])}</strong>
        </li>
      ))}
      <li>
        <a href={pathTo(route.value.parts, { ...route.value.query, state: '', returned: 'true' })}>Returned</a>{' '}
        <strong>{number(value?.returned)}</strong>
      </li>
    </ul>
  )
}

function isCounted(state: string): state is keyof typeof COUNTED {
  return Object.hasOwn(COUNTED, state)
}

/** Interval of reading the counts. Workers update them about once a second, after a block is sealed. */
const COUNT_EVERY_MS = 10_000

/** Updates loaded rows by events. Loads new payments while the list is scrolled to the top. */
function useLiveRows(payments: PagesHandle<Row>): void {
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

function withState(row: Row, state: OutboxItem['state'] | undefined): Row {
  return state === undefined || state === row.state ? row : { ...row, state, isOutdated: true }
}

interface PaymentFiltersProps {
  readonly filter: Filter
  readonly onDestination: (destination: string) => void
}

function PaymentFilters({ filter, onDestination }: PaymentFiltersProps) {
  const search = useRef<HTMLInputElement>(null)
  // Sets the focus before the first paint, so that letters typed right after `/` are not lost.
  useLayoutEffect(() => {
    if (!wantsSearch.peek()) return
    wantsSearch.value = false
    search.current?.focus()
  }, [])
  return (
    <Filters
      filter={filter}
      search={
        <div class="search">
          <Icon name="search" />
          <input
            ref={search}
            data-search
            class="input"
            type="search"
            aria-label="Search payments by id, instruction, key or rail reference"
            placeholder="Search an id or reference"
            defaultValue={filter.q ?? ''}
            onInput={({ currentTarget }) => filterSoon({ q: currentTarget.value.trim() })}
          />
        </div>
      }
    >
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
      <NameFilter label="Participant" value={filter.participant} />
      <TimeRangeFilter range={filter} of="Created" />
      <AmountFilter filter={filter} />
      {hasScope('audit') ? (
        <input
          class="input"
          aria-label="Destination"
          placeholder="Any destination"
          title="The whole destination, such as an IBAN"
          autocomplete="off"
          defaultValue={filter.destination ?? ''}
          onChange={({ currentTarget }) => onDestination(currentTarget.value.trim())}
        />
      ) : null}
    </Filters>
  )
}

/**
 * Filter by amount, and the order of the list. Amounts can be compared only within one currency, so the fields of the
 * amount and the order by amount appear after a currency is chosen.
 */
function AmountFilter({ filter }: { readonly filter: Filter }) {
  const { currency, amountMin, amountMax, sort } = filter
  return (
    <>
      <input
        class="input"
        aria-label="Currency"
        placeholder="Any currency"
        maxLength={3}
        pattern="[A-Za-z]{3}"
        defaultValue={currency ?? ''}
        onInput={({ currentTarget: { value, validity } }) => {
          if (!validity.valid) return
          // The orders with and without a currency differ, and amounts need a currency.
          const cleared =
            value === '' ? { amountMin: '', amountMax: '', sort: '' } : sort === 'oldest' ? { sort: '' } : {}
          filterSoon({ currency: value.toUpperCase(), ...cleared })
        }}
      />
      {currency === undefined ? null : <AmountField name="amountMin" label="Amount from" value={amountMin} />}
      {currency === undefined ? null : <AmountField name="amountMax" label="Amount to" value={amountMax} />}
      <select
        class="input"
        aria-label="Order"
        value={sort ?? ''}
        onChange={({ currentTarget }) => setQuery({ sort: currentTarget.value })}
      >
        <option value="">{currency === undefined ? 'Newest first' : 'Largest first'}</option>
        {currency === undefined ? (
          <option value="oldest">Oldest first</option>
        ) : (
          <option value="smallest">Smallest first</option>
        )}
      </select>
    </>
  )
}

interface AmountFieldProps {
  readonly name: 'amountMin' | 'amountMax'
  readonly label: string
  readonly value: string | undefined
}

function AmountField({ name, label, value }: AmountFieldProps) {
  return (
    <input
      class="input"
      inputMode="decimal"
      pattern="[0-9]+([.][0-9]{1,4})?"
      aria-label={label}
      placeholder={label}
      defaultValue={value ?? ''}
      onInput={({ currentTarget }) => {
        if (currentTarget.validity.valid) filterSoon({ [name]: currentTarget.value.trim() })
      }}
    />
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
      {/* Shows one tag, because two would not fit: "returned" implies DISPATCHED. */}
      <StateTag state={item.returned ? RETURNED : state} />{' '}
      {item.outcomeUnknown ? <StateTag state="OUTCOME_UNKNOWN" short="Unknown" /> : null}
    </span>,
    <span key="amount" title={moneyTitle(item)}>
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

/** Returns `500+ payments` if more pages exist, because the API returns no total. */
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
