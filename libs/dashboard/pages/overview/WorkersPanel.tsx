import type { WorkerView } from '../../../http/index.js'
import { pathTo } from '../../app/router.js'
import { count } from '../../data/format.js'
import { useWorkers } from '../../data/useResource.js'
import { Empty } from '../../parts/Empty.js'
import { Icon } from '../../parts/Icon.js'
import { ResourceView } from '../../parts/ResourceView.js'
import { RelativeTime } from '../../parts/RelativeTime.js'
import { Panel } from '../../parts/Panel.js'
import { Table } from '../../parts/Table.js'

export function WorkersPanel() {
  const workers = useWorkers()
  return (
    <Panel title="Workers and their leases" flush>
      <ResourceView from={workers} lines={3}>
        {({ workers: all }) =>
          all.length === 0 ? (
            <Empty title="No worker">
              <p>
                Payments wait until one runs: <code>symphony worker</code>, or <code>symphony start</code> for
                everything in one process.
              </p>
            </Empty>
          ) : (
            <Table
              label="Workers"
              columns={[
                'Worker',
                'State',
                { number: 'Leases' },
                { number: 'At the rail' },
                { number: 'Waiting' },
                { number: 'Recording' },
              ]}
            >
              {all.map((worker) => (
                <WorkerRow key={worker.workerId} worker={worker} />
              ))}
            </Table>
          )
        }
      </ResourceView>
    </Panel>
  )
}

function WorkerRow({ worker }: { readonly worker: WorkerView }) {
  const { workerId, alive, deadSince, leases, running, waiting, completing, startedAt, lastSeenAt } = worker
  return (
    <tr>
      <td data-label="Worker">
        <a href={pathTo(['workers', workerId])}>
          <code>{workerId}</code>
        </a>
        <div class="quiet">
          started <RelativeTime at={startedAt} />
        </div>
      </td>
      <td data-label="State">
        <span class={`state tone-${alive ? 'good' : 'bad'}`}>
          <Icon name={alive ? 'done' : 'expired'} />
          {alive ? 'Alive' : 'Dead'}
        </span>
        <div class="quiet">
          {deadSince === null ? 'seen' : 'stopped'} <RelativeTime at={deadSince ?? lastSeenAt} />
        </div>
      </td>
      <td data-label="Leases" class="numeric">
        {count(leases)}
      </td>
      <td data-label="At the rail" class="numeric">
        {running === null ? '–' : count(running)}
      </td>
      <td data-label="Waiting" class="numeric">
        {waiting === null ? '–' : count(waiting)}
      </td>
      <td data-label="Recording" class="numeric">
        {completing === null ? '–' : count(completing)}
      </td>
    </tr>
  )
}
