import { pathTo } from '../app/router.js'
import { readWorkerHistory } from '../data/api.js'
import { count } from '../data/format.js'
import { useResource } from '../data/useResource.js'
import { Empty } from './Empty.js'
import { Panel } from './Panel.js'
import { RelativeTime } from './RelativeTime.js'
import { ResourceView } from './ResourceView.js'
import { StateTag } from './StateTag.js'
import { Table } from './Table.js'

/**
 * Throughput and breaker changes of a rail or of a worker. They are read from the database, so they outlive the
 * processes.
 */
export function WorkerHistory({ of }: { readonly of: Parameters<typeof readWorkerHistory>[0] }) {
  const history = useResource({
    key: `history ${JSON.stringify(of)}`,
    load: (signal) => readWorkerHistory(of, signal),
    concerns: () => false,
    everyMs: 10_000,
  })
  return (
    <>
      <Panel title="Throughput" aside="sealed attempts of the last hour, per 5 minutes" flush>
        <ResourceView from={history} lines={3}>
          {({ throughput }) =>
            throughput.length === 0 ? (
              <Empty title="No attempt was recorded in the last hour" />
            ) : (
              <Table
                label="Throughput"
                columns={['From', { number: 'Dispatched' }, { number: 'Failed' }, { number: 'Retried' }]}
              >
                {throughput.map(({ from, dispatched, failed, retried }) => (
                  <tr key={from}>
                    <td data-label="From">
                      <RelativeTime at={from} />
                    </td>
                    <td data-label="Dispatched" class="numeric">
                      {count(dispatched)}
                    </td>
                    <td data-label="Failed" class="numeric">
                      {count(failed)}
                    </td>
                    <td data-label="Retried" class="numeric">
                      {count(retried)}
                    </td>
                  </tr>
                ))}
              </Table>
            )
          }
        </ResourceView>
      </Panel>
      <Panel title="Breaker history" aside="last 20 changes" flush>
        <ResourceView from={history} lines={3}>
          {({ breakerChanges }) =>
            breakerChanges.length === 0 ? (
              <Empty title="No breaker has opened" />
            ) : (
              <Table label="Breaker history" columns={['Changed', 'From', 'To', 'Rail', 'Worker']}>
                {breakerChanges.map(({ at, railType, workerId, from, to }) => (
                  <tr key={`${at} ${railType} ${workerId}`}>
                    <td data-label="Changed">
                      <RelativeTime at={at} />
                    </td>
                    <td data-label="From">
                      <StateTag state={from} />
                    </td>
                    <td data-label="To">
                      <StateTag state={to} />
                    </td>
                    <td data-label="Rail">
                      <a href={pathTo(['rails', railType])}>{railType}</a>
                    </td>
                    <td data-label="Worker">
                      <a href={pathTo(['workers', workerId])}>
                        <code>{workerId}</code>
                      </a>
                    </td>
                  </tr>
                ))}
              </Table>
            )
          }
        </ResourceView>
      </Panel>
    </>
  )
}
