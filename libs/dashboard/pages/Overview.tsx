import { signal } from '@preact/signals'
import type { Status } from '../../http/index.js'
import { route } from '../app/router.js'
import { LatencyScale } from '../charts/LatencyScale.js'
import { boundTo, hasScope, me } from '../data/me.js'
import { refreshStatus, status, statusProblem } from '../data/status.js'
import { Empty } from '../parts/Empty.js'
import { Panel } from '../parts/Panel.js'
import { KindFilter, listFilterOf, NameFilter, RailFilter } from '../parts/PaymentFilters.js'
import { ProblemNote } from '../parts/ProblemNote.js'
import { fetched } from '../parts/fetched.js'
import { Skeleton } from '../parts/Skeleton.js'
import { Alerts } from './overview/Alerts.js'
import { ErrorMix } from './overview/ErrorMix.js'
import { QueueStatsPanel } from './overview/QueueStatsPanel.js'
import { FirstVisit } from './overview/FirstVisit.js'
import { RailsPanel } from './overview/RailsPanel.js'
import { ParticipantPayments } from './overview/ParticipantPayments.js'
import { WatchedPayment } from './overview/WatchedPayment.js'
import { WorkersPanel } from './overview/WorkersPanel.js'

const SeriesPanel = fetched(
  async () => (await import('../parts/SeriesPanel.js')).SeriesPanel,
  () => <p>The chart was not loaded. Reload the page.</p>,
)

const watched = signal<string | null>(null)

export function Overview() {
  const now = status.value
  const problem = statusProblem.value
  const participants = boundTo()
  if (me.value !== null && !hasScope('read')) return <MissingReadScope />
  if (participants !== null) return <ParticipantPayments participants={participants} />
  return (
    <>
      <header class="page-head">
        <h1>Overview</h1>
        <p class="lead">{now === null ? null : <>Database {now.database}</>}</p>
      </header>
      <div class="stack">
        {problem === null ? null : <ProblemNote problem={problem} onRetry={() => void refreshStatus()} />}
        {now === null ? problem === null ? <Skeleton lines={12} /> : null : <StatusPanels status={now} />}
      </div>
    </>
  )
}

/** Shown for a credential without the scope read, such as one that only enqueues. */
function MissingReadScope() {
  return (
    <>
      <header class="page-head">
        <h1>Overview</h1>
      </header>
      <section class="panel" aria-label="Overview">
        <Empty title="This token cannot read">
          <p>
            This page needs the scope <code>read</code>. Yours has: {me.value?.scopes.join(', ')}.
          </p>
        </Empty>
      </section>
    </>
  )
}

function StatusPanels({ status: now }: { readonly status: Status }) {
  const rails = now.rails.map(({ railType }) => railType)
  const { kind, rail, participant } = listFilterOf(route.value.query)
  const filter = {
    ...(kind === undefined ? {} : { kind }),
    ...(rail === undefined ? {} : { rail }),
    ...(participant === undefined ? {} : { participant }),
  }
  return (
    <>
      {watched.value === null ? null : <WatchedPayment outboxId={watched.value} />}
      {watched.value === null && isUntouched(now) ? (
        <FirstVisit rails={rails} onAccepted={(outboxId) => (watched.value = outboxId)} />
      ) : null}
      <Alerts alerts={now.alerts} />
      <QueueStatsPanel status={now} />
      <div class="grid wide-narrow">
        <div class="stack">
          <SeriesPanel filter={filter}>
            <KindFilter kind={kind} />
            <RailFilter rail={rail} />
            <NameFilter label="Participant" value={participant} />
          </SeriesPanel>
          <WorkersPanel />
        </div>
        <div class="stack">
          <Panel title="Time at the rail">
            <LatencyScale latency={now.latency} />
          </Panel>
          <ErrorMix errors={now.errors} />
        </div>
      </div>
      <RailsPanel rails={now.rails} />
    </>
  )
}

function isUntouched({ queue }: Status): boolean {
  const { pendingCount, dispatchedTotal, failedTotal, retryableTotal, zombieRequeueTotal } = queue
  return [pendingCount, dispatchedTotal, failedTotal, retryableTotal, zombieRequeueTotal].every(
    (size) => Number(size) === 0,
  )
}
