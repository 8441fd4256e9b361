import { readDatabases } from '../data/api.js'
import { count, duration } from '../data/format.js'
import { useResource } from '../data/useResource.js'
import { Empty } from '../parts/Empty.js'
import { Icon } from '../parts/Icon.js'
import { ResourceView } from '../parts/ResourceView.js'
import { Table } from '../parts/Table.js'

export function Databases() {
  const databases = useResource({ key: 'databases', load: readDatabases, everyMs: 5_000 })
  return (
    <>
      <header class="page-head">
        <h1>Databases</h1>
        <p class="lead">The databases that this process serves. The other pages show the first one.</p>
      </header>
      <section class="panel" aria-label="Databases">
        <ResourceView from={databases} lines={3}>
          {({ databases: all }) =>
            all.length === 0 ? (
              <Empty title="No database">
                <p>This process serves no database.</p>
              </Empty>
            ) : (
              <Table
                label="Databases"
                columns={[
                  'Database',
                  'State',
                  'Schema',
                  { number: 'Pending' },
                  { number: 'Oldest pending' },
                  { number: 'Held' },
                  'PostgreSQL',
                ]}
              >
                {all.map(({ name, state, schema, pendingCount, oldestPendingAgeSeconds, heldCount, serverVersion }) => (
                  <tr key={`${name} ${schema}`}>
                    <td data-label="Database">
                      <strong>{name}</strong>
                    </td>
                    <td data-label="State">
                      <span class={`state tone-${state === 'up' ? 'good' : 'bad'}`}>
                        <Icon name={state === 'up' ? 'done' : 'failed'} />
                        {state === 'up' ? 'Up' : 'Down'}
                      </span>
                    </td>
                    <td data-label="Schema" class="mono">
                      {schema}
                    </td>
                    <td data-label="Pending" class="numeric">
                      {pendingCount === null ? '–' : count(pendingCount)}
                    </td>
                    <td data-label="Oldest pending" class="numeric">
                      {oldestPendingAgeSeconds === null ? '–' : duration(oldestPendingAgeSeconds)}
                    </td>
                    <td data-label="Held" class="numeric">
                      {heldCount === null ? '–' : count(heldCount)}
                    </td>
                    <td data-label="PostgreSQL">{serverVersion ?? '–'}</td>
                  </tr>
                ))}
              </Table>
            )
          }
        </ResourceView>
      </section>
    </>
  )
}
