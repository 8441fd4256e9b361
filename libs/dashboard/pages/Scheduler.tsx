import { useState } from 'preact/hooks'
import type { Job, JobRun, Timer } from '../../http/index.js'
import { pathTo } from '../app/router.js'
import { cancelTimer, listJobRuns, listJobs, listTimers, pauseJob, resumeJob, triggerJob } from '../data/api.js'
import { hasScope } from '../data/me.js'
import { useFreshPages } from '../data/useFreshPages.js'
import { usePages } from '../data/usePages.js'
import { useResource } from '../data/useResource.js'
import { ActionForm } from '../parts/ActionForm.js'
import { Empty } from '../parts/Empty.js'
import { Icon } from '../parts/Icon.js'
import { Id } from '../parts/Id.js'
import { ResourceView } from '../parts/ResourceView.js'
import { RelativeTime } from '../parts/RelativeTime.js'
import { PagedTable } from '../parts/PagedTable.js'
import { Panel } from '../parts/Panel.js'
import { ProblemNote } from '../parts/ProblemNote.js'
import { Dialog } from '../parts/Dialog.js'
import { StateTag } from '../parts/StateTag.js'
import { boundsOf, TimeRangeFilter, timeRangeOf, type TimeRange } from '../parts/TimeRange.js'
import { useAction } from '../parts/useAction.js'
import { Table } from '../parts/Table.js'
import { NewJobDialog, NewTimerDialog } from './scheduler/NewDialogs.js'

export function Scheduler() {
  return (
    <>
      <header class="page-head">
        <h1>Scheduler</h1>
        <p class="lead">Each occurrence becomes one message of the outbox, however many schedulers run.</p>
      </header>
      <div class="stack">
        <JobsPanel />
        <TimersPanel />
      </div>
    </>
  )
}

function JobsPanel() {
  const jobs = useResource({ key: 'jobs', load: listJobs, everyMs: 5_000 })
  const [shown, setShown] = useState<string | null>(null)
  const [isCreating, setIsCreating] = useState(false)
  const create = hasScope('operate') ? (
    <button type="button" class="button small" onClick={() => setIsCreating(true)}>
      New job
    </button>
  ) : undefined
  return (
    <Panel title="Jobs" flush aside={create}>
      <ResourceView from={jobs} lines={5}>
        {({ jobs: all }) =>
          all.length === 0 ? (
            <Empty title="No jobs">
              <p>
                A job sends a message at each time of its cron expression. Create one here, with{' '}
                <code>symphony jobs add</code>, or with <code>PUT /v1/jobs/NAME</code>.
              </p>
            </Empty>
          ) : (
            <Table label="Jobs" columns={['Job', 'State', 'When', 'Next run', 'Sends', '']}>
              {all.map((job) => (
                <JobRow key={job.name} job={job} onShow={() => setShown(job.name)} onDone={jobs.refresh} />
              ))}
            </Table>
          )
        }
      </ResourceView>
      {shown === null ? null : <RunsDialog name={shown} onClose={() => setShown(null)} />}
      {isCreating ? (
        <NewJobDialog
          taken={jobs.state.value.value?.jobs.map(({ name }) => name) ?? []}
          onClose={() => setIsCreating(false)}
          onDone={jobs.refresh}
        />
      ) : null}
    </Panel>
  )
}

interface JobRowProps {
  readonly job: Job
  readonly onShow: () => void
  readonly onDone: () => void
}

function JobRow({ job, onShow, onDone }: JobRowProps) {
  const { name, cron, timeZone, topic, state, nextDueAt, missedRuns, scheduleError } = job
  const { isRunning, problem, run } = useAction()
  const isPaused = state === 'PAUSED'
  const toggle = async () => {
    await (isPaused ? resumeJob(name) : pauseJob(name))
    onDone()
    return `${name} is ${isPaused ? 'running again' : 'paused'}.`
  }
  const trigger = async () => {
    await triggerJob(name)
    onDone()
    return `${name} runs now.`
  }
  return (
    <tr>
      <td data-label="Job">
        <strong>{name}</strong>
        {problem === null ? null : <ProblemNote problem={problem} />}
      </td>
      <td data-label="State">
        <StateTag state={state} />
        {scheduleError === null ? null : (
          <div class="state tone-bad">
            <Icon name="warning" />
            {scheduleError}
          </div>
        )}
      </td>
      <td data-label="When">
        <code>{cron}</code> <span class="quiet">{timeZone}</span>
        <div class="quiet">missed: {missedRuns}</div>
      </td>
      <td data-label="Next run">{isPaused ? <span class="quiet">–</span> : <RelativeTime at={nextDueAt} />}</td>
      <td data-label="Sends">{topic}</td>
      <td class="actions">
        <button type="button" class="button small" aria-label={`History of ${name}`} onClick={onShow}>
          History
        </button>
        {hasScope('operate') ? (
          <>
            <button
              type="button"
              class="button small"
              disabled={isRunning}
              aria-label={`Run now: ${name}`}
              onClick={() => run(trigger)}
            >
              Run now
            </button>
            <button
              type="button"
              class="button small"
              disabled={isRunning}
              aria-label={`${isPaused ? 'Resume' : 'Pause'} ${name}`}
              onClick={() => run(toggle)}
            >
              {isPaused ? 'Resume' : 'Pause'}
            </button>
          </>
        ) : null}
      </td>
    </tr>
  )
}

function RunsDialog({ name, onClose }: { readonly name: string; readonly onClose: () => void }) {
  const [range, setRange] = useState<TimeRange>({})
  const runs = usePages<JobRun>(JSON.stringify([name, range]), (cursor, signal) =>
    listJobRuns(name, { ...boundsOf(range), limit: 50, ...(cursor === undefined ? {} : { cursor }) }, signal),
  )
  useFreshPages(runs)
  return (
    <Dialog title={`History of ${name}`} onClose={onClose}>
      <div class="filters">
        <TimeRangeFilter
          range={range}
          of="Scheduled"
          onChange={(changes) => setRange(timeRangeOf({ ...range, ...changes }))}
        />
      </div>
      <PagedTable
        label={`Runs of ${name}`}
        from={runs}
        columns={['For', 'State', 'Message', 'By']}
        row={({ runId, scheduledFor, state, error, outboxId, outboxState, triggeredBy }) => (
          <tr key={runId}>
            <td data-label="For">
              <RelativeTime at={scheduledFor} />
            </td>
            <td data-label="State">
              <StateTag state={state} />
              {error === null ? null : <div class="quiet">{error}</div>}
            </td>
            <td data-label="Message">
              {outboxId === null ? (
                <span class="quiet">–</span>
              ) : (
                <a href={pathTo(['payments', outboxId])} onClick={onClose}>
                  {outboxState ?? 'open'}
                </a>
              )}
            </td>
            <td data-label="By">{triggeredBy ?? <span class="quiet">schedule</span>}</td>
          </tr>
        )}
        empty={
          <Empty title={Object.keys(range).length === 0 ? 'No runs yet' : 'No runs match'}>
            <p>Each occurrence appears here.</p>
          </Empty>
        }
      />
    </Dialog>
  )
}

function TimersPanel() {
  const timers = usePages<Timer>('timers', (cursor, signal) =>
    listTimers(cursor === undefined ? {} : { cursor }, signal),
  )
  const [chosen, setChosen] = useState<Timer | null>(null)
  const [isCreating, setIsCreating] = useState(false)
  useFreshPages(timers)
  const create = hasScope('ingest') ? (
    <button type="button" class="button small" onClick={() => setIsCreating(true)}>
      New timer
    </button>
  ) : undefined
  return (
    <Panel title="Pending timers" flush aside={create}>
      <PagedTable
        label="Timers"
        from={timers}
        columns={['Timer', 'State', 'Due', 'Sends', 'Created', '']}
        row={(timer) => <TimerRow key={timer.timerId} timer={timer} onChoose={() => setChosen(timer)} />}
        empty={
          <Empty title="No pending timers">
            <p>A timer sends one message at one time: a reminder, a timeout, a payment on a date.</p>
          </Empty>
        }
      />
      {chosen === null ? null : <CancelDialog timer={chosen} onClose={() => setChosen(null)} onDone={timers.refresh} />}
      {isCreating ? <NewTimerDialog onClose={() => setIsCreating(false)} onDone={timers.refresh} /> : null}
    </Panel>
  )
}

function TimerRow({ timer, onChoose }: { readonly timer: Timer; readonly onChoose: () => void }) {
  const { timerId, state, dueAt, topic, participantId, createdAt, error } = timer
  return (
    <tr>
      <td data-label="Timer">
        <Id value={timerId} label="timer id" />
      </td>
      <td data-label="State">
        <StateTag state={state} />
        {error === null ? null : <div class="quiet">{error}</div>}
      </td>
      <td data-label="Due">
        <RelativeTime at={dueAt} />
      </td>
      <td data-label="Sends">
        {topic}
        {participantId === null ? null : <div class="quiet">{participantId}</div>}
      </td>
      <td data-label="Created">
        <RelativeTime at={createdAt} />
      </td>
      <td class={hasScope('operate') ? 'actions' : 'empty-cell'}>
        {hasScope('operate') ? (
          <button type="button" class="button small" aria-label={`Cancel the timer ${timerId}`} onClick={onChoose}>
            Cancel
          </button>
        ) : null}
      </td>
    </tr>
  )
}

interface CancelDialogProps {
  readonly timer: Timer
  readonly onClose: () => void
  readonly onDone: () => void
}

/** Asks for confirmation, because a cancelled timer cannot be restored. */
function CancelDialog({ timer, onClose, onDone }: CancelDialogProps) {
  const act = async () => {
    const { changed } = await cancelTimer(timer.timerId)
    onDone()
    return changed ? 'The timer is cancelled.' : 'Nothing was cancelled: the timer had ended.'
  }
  return (
    <Dialog title="Cancel this timer" onClose={onClose}>
      <ActionForm action="Cancel the timer" onDone={onClose} act={act}>
        <p>
          The message to <strong>{timer.topic}</strong>, due <RelativeTime at={timer.dueAt} />, is never sent. A
          cancelled timer cannot be restored.
        </p>
      </ActionForm>
    </Dialog>
  )
}
