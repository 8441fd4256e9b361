import { useState } from 'preact/hooks'
import type { Rail as RailView, RailStatistics } from '../../http/index.js'
import { pathTo, route } from '../app/router.js'
import { LatencyChart } from '../charts/LatencyChart.js'
import { listLimits, readLatencySeries, readRailStatistics } from '../data/api.js'
import { count, duration, milliseconds } from '../data/format.js'
import { hasScope } from '../data/me.js'
import { rangeOf, refreshMs, type ChosenRange } from '../data/range.js'
import { refreshStatus, status, statusProblem } from '../data/status.js'
import { useResource, useWorkers } from '../data/useResource.js'
import { Empty } from '../parts/Empty.js'
import { Panel } from '../parts/Panel.js'
import { listFilterOf, NameFilter } from '../parts/PaymentFilters.js'
import { ProblemNote } from '../parts/ProblemNote.js'
import { RelativeTime } from '../parts/RelativeTime.js'
import { ResourceView } from '../parts/ResourceView.js'
import { selectRange, SeriesPanel, wordsOf } from '../parts/SeriesPanel.js'
import { Skeleton } from '../parts/Skeleton.js'
import { StateTag } from '../parts/StateTag.js'
import { Table } from '../parts/Table.js'
import { Tile } from '../parts/Tile.js'
import { WorkerHistory } from '../parts/WorkerHistory.js'
import { LimitTable } from './Limits.js'
import { PauseDialog } from './overview/RailsPanel.js'

/** One rail: queue, outcomes, latencies, errors, circuit breakers and their history, pause and limits. */
export function Rail({ railType }: { readonly railType: string }) {
  const range = rangeOf(route.value.query)
  const { participant } = listFilterOf(route.value.query)
  const now = status.value
  const rail = now?.rails.find((one) => one.railType === railType)
  return (
    <>
      <Head railType={railType} rail={rail} />
      <div class="stack">
        {statusProblem.value === null ? null : (
          <ProblemNote problem={statusProblem.value} onRetry={() => void refreshStatus()} />
        )}
        {now === null ? <Skeleton lines={3} /> : rail === undefined ? <Unserved /> : <Queue rail={rail} />}
        <SeriesPanel filter={{ rail: railType, ...(participant === undefined ? {} : { participant }) }}>
          <NameFilter label="Participant" value={participant} />
        </SeriesPanel>
        <div class="grid wide-narrow">
          <div class="stack">
            <Latency railType={railType} range={range} />
            <Breakers railType={railType} />
            <WorkerHistory of={{ rail: railType }} />
          </div>
          <Errors railType={railType} range={range} />
        </div>
        <RailLimits railType={railType} />
      </div>
    </>
  )
}

function Head({ railType, rail }: { readonly railType: string; readonly rail: RailView | undefined }) {
  // Copy of the rail at the time of the click. A later pause does not change the open dialog.
  const [chosen, setChosen] = useState<RailView | null>(null)
  return (
    <header class="page-head">
      <h1 class="payment-title">{railType}</h1>
      {rail === undefined ? null : <StateTag state={rail.pause === null ? 'ACTIVE' : 'PAUSED'} />}
      {rail?.pause ? (
        <p class="lead">
          <bdi>{rail.pause.reason}</bdi> by {rail.pause.pausedBy}, <RelativeTime at={rail.pause.pausedAt} />
        </p>
      ) : null}
      <div class="actions">
        <a class="button" href={pathTo(['payments'], { rail: railType })}>
          Payments
        </a>
        {rail !== undefined && hasScope('operate') ? (
          <button type="button" class="button" onClick={() => setChosen(rail)}>
            {rail.pause === null ? 'Pause' : 'Resume'}
          </button>
        ) : null}
      </div>
      {chosen === null ? null : <PauseDialog rail={chosen} onClose={() => setChosen(null)} />}
    </header>
  )
}

function Unserved() {
  return (
    <section class="panel" aria-label="Queue">
      <Empty title="No worker serves this rail, and no payment waits for it">
        <p>Its history is below.</p>
      </Empty>
    </section>
  )
}

function Queue({ rail }: { readonly rail: RailView }) {
  const { railType, pending, due, inFlight, calls, held, oldestDueAgeSeconds, workers, breakers } = rail
  const list = (state: string) => pathTo(['payments'], { rail: railType, state })
  return (
    <section class="panel" aria-label="Queue">
      <dl class="figures">
        <Tile name="Pending" value={count(pending)} href={pathTo(['payments'], { rail: railType })}>
          {count(due)} due now
        </Tile>
        <Tile name="Oldest due" value={duration(oldestDueAgeSeconds)}>
          waiting
        </Tile>
        <Tile name="In flight" value={count(inFlight)} href={list('LEASED')}>
          {count(calls)} at the rail
        </Tile>
        <Tile name="Held" value={count(held)} href={list('HELD')} tone={held === 0 ? undefined : 'held'}>
          need a decision
        </Tile>
        <Tile name="Workers" value={count(workers)}>
          {breakers.open === 0 ? 'no open breaker' : `${count(breakers.open)} with an open breaker`}
        </Tile>
      </dl>
    </section>
  )
}

interface RangedProps {
  readonly railType: string
  readonly range: ChosenRange
}

function Latency({ railType, range }: RangedProps) {
  const series = useResource({
    key: `latency ${railType} ${range.key}`,
    load: (signal) => readLatencySeries({ ...range.read(), rail: railType }, signal),
    concerns: () => false,
    ...refreshMs(range),
  })
  return (
    <Panel title="Time at the rail" aside={wordsOf(range)}>
      <ResourceView from={series} lines={8}>
        {(value) =>
          value.points.length === 0 ? (
            <p class="quiet">No call was measured.</p>
          ) : (
            <LatencyChart series={value} range={wordsOf(range)} onSelect={selectRange} />
          )
        }
      </ResourceView>
    </Panel>
  )
}

function Errors({ railType, range }: RangedProps) {
  const statistics = useResource({
    key: `errors ${railType} ${range.key}`,
    load: (signal) => readRailStatistics({ ...range.read(), rail: railType }, signal),
    concerns: () => false,
    ...refreshMs(range),
  })
  return (
    <Panel title="Errors" aside={wordsOf(range)} flush>
      <ResourceView from={statistics} lines={5}>
        {({ rails: [found] }) => <ErrorTable found={found} />}
      </ResourceView>
    </Panel>
  )
}

function ErrorTable({ found }: { readonly found: RailStatistics | undefined }) {
  if (found === undefined || found.errors.length === 0)
    return (
      <Empty title="No errors">
        <p>{count(found?.attempts ?? 0)} attempts, none with an error code.</p>
      </Empty>
    )
  const { errors, attempts, latency } = found
  return (
    <Table label="Errors" columns={['Code', { number: 'Attempts' }]} cards={false}>
      {errors.map(({ errorCode, attempts: size }) => (
        <tr key={errorCode}>
          <td>
            <code>{errorCode}</code>
          </td>
          <td class="numeric">{count(size)}</td>
        </tr>
      ))}
      <tr>
        <td>All attempts</td>
        <td class="numeric">{count(attempts)}</td>
      </tr>
      <tr>
        <td>Time at the rail, p50 and p99</td>
        <td class="numeric">
          {milliseconds(latency.p50Ms)}, {milliseconds(latency.p99Ms)}
        </td>
      </tr>
    </Table>
  )
}

/** Circuit breakers of the rail, one per worker, from the worker's last report. */
function Breakers({ railType }: { readonly railType: string }) {
  const workers = useWorkers()
  return (
    <Panel title="Circuit breakers" flush>
      <ResourceView from={workers} lines={3}>
        {({ workers: all }) => {
          const serving = all.flatMap(({ workerId, rails, lastSeenAt }) =>
            rails
              .filter((one) => one.railType === railType)
              .map(({ breaker, calls }) => ({ workerId, breaker, calls, lastSeenAt })),
          )
          if (serving.length === 0) return <Empty title="No worker serves this rail" />
          return (
            <Table label="Circuit breakers" columns={['Worker', 'Breaker', { number: 'Calls' }, 'Reported']}>
              {serving.map(({ workerId, breaker, calls, lastSeenAt }) => (
                <tr key={workerId}>
                  <td data-label="Worker">
                    <a href={pathTo(['workers', workerId])}>
                      <code>{workerId}</code>
                    </a>
                  </td>
                  <td data-label="Breaker">
                    <StateTag state={breaker} />
                  </td>
                  <td data-label="Calls" class="numeric">
                    {count(calls)}
                  </td>
                  <td data-label="Reported">
                    <RelativeTime at={lastSeenAt} />
                  </td>
                </tr>
              ))}
            </Table>
          )
        }}
      </ResourceView>
    </Panel>
  )
}

function RailLimits({ railType }: { readonly railType: string }) {
  const limits = useResource({ key: 'limits', load: listLimits, concerns: () => false, everyMs: 10_000 })
  return (
    <Panel title="Limits" aside={<a href={pathTo(['limits'])}>All limits</a>} flush>
      <ResourceView from={limits} lines={3}>
        {({ limits: all }) => {
          const shown = all.filter((limit) => limit.railType === null || limit.railType === railType)
          return shown.length === 0 ? <Empty title="No limit applies" /> : <LimitTable limits={shown} />
        }}
      </ResourceView>
    </Panel>
  )
}
