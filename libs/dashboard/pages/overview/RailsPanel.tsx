import { useState } from 'preact/hooks'
import type { Rail } from '../../../http/index.js'
import { pathTo } from '../../app/router.js'
import { pauseOutbox, resumeOutbox } from '../../data/api.js'
import { count, duration, shortCount } from '../../data/format.js'
import { hasScope } from '../../data/me.js'
import { refreshStatus } from '../../data/status.js'
import { Empty } from '../../parts/Empty.js'
import { Panel } from '../../parts/Panel.js'
import { ReasonDialog } from '../../parts/ReasonDialog.js'
import { StateTag } from '../../parts/StateTag.js'
import { Table } from '../../parts/Table.js'

export function RailsPanel({ rails }: { readonly rails: readonly Rail[] }) {
  const [chosen, setChosen] = useState<Rail | null>(null)
  return (
    <Panel title="Rails" flush>
      {rails.length === 0 ? (
        <Empty title="No rail yet">
          <p>A rail appears here when a worker serves it or a payment waits for it.</p>
        </Empty>
      ) : (
        <Table
          label="Rails"
          columns={[
            'Rail',
            'State',
            'Breaker',
            { number: 'Pending' },
            { number: 'In flight' },
            { number: 'Held' },
            { number: 'Oldest due' },
            { number: 'Workers' },
            '',
          ]}
        >
          {rails.map((rail) => (
            <RailRow key={rail.railType} rail={rail} onChoose={() => setChosen(rail)} />
          ))}
        </Table>
      )}
      {chosen === null ? null : <PauseDialog rail={chosen} onClose={() => setChosen(null)} />}
    </Panel>
  )
}

function RailRow({ rail, onChoose }: { readonly rail: Rail; readonly onChoose: () => void }) {
  const { railType, pending, inFlight, held, oldestDueAgeSeconds, workers, pause } = rail
  return (
    <tr>
      <td data-label="Rail" class="name">
        <a href={pathTo(['rails', railType])}>{railType}</a>
      </td>
      <td data-label="State" class="text">
        <StateTag state={pause === null ? 'ACTIVE' : 'PAUSED'} />
        {pause === null ? null : (
          <div class="quiet">
            <bdi>{pause.reason}</bdi> · {pause.pausedBy}
          </div>
        )}
      </td>
      <td data-label="Breaker">
        {workers === 0 ? <span class="quiet">no worker</span> : <StateTag state={breakerOf(rail)} />}
      </td>
      <td data-label="Pending" class="numeric">
        {shortCount(pending)}
      </td>
      <td data-label="In flight" class="numeric">
        {shortCount(inFlight)}
      </td>
      <td data-label="Held" class="numeric">
        {shortCount(held)}
      </td>
      <td data-label="Oldest due" class="numeric">
        {duration(oldestDueAgeSeconds)}
      </td>
      <td data-label="Workers" class="numeric">
        {count(workers)}
      </td>
      <td class={hasScope('operate') ? 'actions' : 'empty-cell'}>
        {hasScope('operate') ? (
          <button
            type="button"
            class="button small"
            aria-label={`${pause === null ? 'Pause' : 'Resume'} the rail ${railType}`}
            onClick={onChoose}
          >
            {pause === null ? 'Pause' : 'Resume'}
          </button>
        ) : null}
      </td>
    </tr>
  )
}

/** Returns the worst breaker state of a rail, because each worker has its own breaker. */
function breakerOf({ breakers }: Rail): 'open' | 'half-open' | 'closed' {
  return breakers.open > 0 ? 'open' : breakers.halfOpen > 0 ? 'half-open' : 'closed'
}

export function PauseDialog({ rail, onClose }: { readonly rail: Rail; readonly onClose: () => void }) {
  const isPaused = rail.pause !== null
  const name = rail.railType
  return (
    <ReasonDialog
      title={`${isPaused ? 'Resume' : 'Pause'} ${name}`}
      action={isPaused ? 'Resume the rail' : 'Pause the rail'}
      explanation={
        isPaused
          ? 'Its payments may be claimed again, at once.'
          : 'No payment of this rail is claimed until it is resumed. Calls in flight continue.'
      }
      onClose={onClose}
      act={async (reason) => {
        const body = { kind: 'rail' as const, name, reason }
        await (isPaused ? resumeOutbox(body) : pauseOutbox(body))
        await refreshStatus()
        return `The rail ${name} is ${isPaused ? 'running again' : 'paused'}.`
      }}
    />
  )
}
