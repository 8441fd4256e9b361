import type { WorkerView } from '../../http/index.js'
import { pathTo } from '../app/router.js'
import { count } from '../data/format.js'
import { useWorkers } from '../data/useResource.js'
import { Empty } from '../parts/Empty.js'
import { Icon } from '../parts/Icon.js'
import { Panel } from '../parts/Panel.js'
import { RelativeTime } from '../parts/RelativeTime.js'
import { ResourceView } from '../parts/ResourceView.js'
import { StateTag } from '../parts/StateTag.js'
import { Table } from '../parts/Table.js'
import { Tile } from '../parts/Tile.js'
import { WorkerHistory } from '../parts/WorkerHistory.js'

/** One worker, by its last report, and its history. */
export function Worker({ workerId }: { readonly workerId: string }) {
  const workers = useWorkers()
  return (
    <>
      <header class="page-head">
        <h1 class="payment-title">{workerId}</h1>
        <p class="lead">One worker process, as it last reported.</p>
      </header>
      <div class="stack">
        <ResourceView from={workers} lines={8}>
          {({ workers: all }) => {
            const worker = all.find((one) => one.workerId === workerId)
            return worker === undefined ? <Gone /> : <Report worker={worker} />
          }}
        </ResourceView>
        <WorkerHistory of={{ worker: workerId }} />
      </div>
    </>
  )
}

function Gone() {
  return (
    <section class="panel" aria-label="Worker">
      <Empty title="This worker does not run">
        <p>It stopped and released its leases, or it did not report for a day. Its history is below.</p>
      </Empty>
    </section>
  )
}

function Report({ worker }: { readonly worker: WorkerView }) {
  const { alive, deadSince, startedAt, lastSeenAt, leases, running, waiting, completing, rails } = worker
  return (
    <>
      <section class="panel" aria-label="Worker">
        <dl class="figures">
          <Tile name="Leases" value={count(leases)} href={pathTo(['payments'], { state: 'LEASED' })}>
            items leased to it now
          </Tile>
          <Tile name="At the rail" value={numberOf(running)}>
            calls in progress
          </Tile>
          <Tile name="Waiting" value={numberOf(waiting)}>
            leased, without a slot yet
          </Tile>
          <Tile name="Recording" value={numberOf(completing)}>
            outcomes to record
          </Tile>
        </dl>
      </section>
      <Panel title="Facts">
        <dl class="facts">
          <dt>State</dt>
          <dd>
            <span class={`state tone-${alive ? 'good' : 'bad'}`}>
              <Icon name={alive ? 'done' : 'expired'} />
              {alive ? 'Alive' : 'Dead'}
            </span>
          </dd>
          <dt>Started</dt>
          <dd>
            <RelativeTime at={startedAt} />
          </dd>
          <dt>{deadSince === null ? 'Last report' : 'Stopped'}</dt>
          <dd>
            <RelativeTime at={deadSince ?? lastSeenAt} />
          </dd>
        </dl>
      </Panel>
      <Panel title="Rails" flush>
        {rails.length === 0 ? (
          <Empty title="It has reported no rail" />
        ) : (
          <Table label="Rails" columns={['Rail', 'Breaker', { number: 'Calls' }]}>
            {rails.map(({ railType, breaker, calls }) => (
              <tr key={railType}>
                <td data-label="Rail">
                  <a href={pathTo(['rails', railType])}>{railType}</a>
                </td>
                <td data-label="Breaker">
                  <StateTag state={breaker} />
                </td>
                <td data-label="Calls" class="numeric">
                  {count(calls)}
                </td>
              </tr>
            ))}
          </Table>
        )}
      </Panel>
    </>
  )
}

function numberOf(value: number | null): string {
  return value === null ? '–' : count(value)
}
