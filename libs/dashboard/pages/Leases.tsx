import type { LeaseView } from '../../http/index.js'
import { route, setQuery } from '../app/router.js'
import { listLeases } from '../data/api.js'
import { useFreshPages } from '../data/useFreshPages.js'
import { usePages } from '../data/usePages.js'
import { Empty } from '../parts/Empty.js'
import { Icon } from '../parts/Icon.js'
import { RelativeTime } from '../parts/RelativeTime.js'
import { PagedTable } from '../parts/PagedTable.js'
import { StateTag } from '../parts/StateTag.js'

export function Leases() {
  const released = route.value.query['released'] === 'true'
  const leases = usePages<LeaseView>(String(released), (cursor, signal) =>
    listLeases({ ...(released ? { released: 'true' } : {}), ...(cursor === undefined ? {} : { cursor }) }, signal),
  )
  useFreshPages(leases)
  return (
    <>
      <header class="page-head">
        <h1>Leases</h1>
        <p class="lead">
          A lease has one holder at a time. Its fencing token grows with every holder, which reveals an outdated one.
        </p>
      </header>
      <div class="filters">
        <label class="check">
          <input
            type="checkbox"
            checked={released}
            onChange={({ currentTarget }) => setQuery({ released: currentTarget.checked ? 'true' : '' })}
          />
          Show released leases
        </label>
      </div>
      <section class="panel" aria-label="Leases">
        <PagedTable
          label="Leases"
          from={leases}
          columns={['Resource', 'State', 'Holder', { number: 'Token' }, 'Held since', 'Expires']}
          row={({ resource, owner, state, fencingToken, acquiredAt, expiresAt }) => (
            <tr key={resource}>
              <td data-label="Resource">
                <strong>{resource}</strong>
              </td>
              <td data-label="State">{state === 'HELD' ? <Taken /> : <StateTag state={state} />}</td>
              <td data-label="Holder" class="mono">
                {owner}
              </td>
              <td data-label="Token" class="numeric">
                {fencingToken}
              </td>
              <td data-label="Held since">
                <RelativeTime at={acquiredAt} />
              </td>
              <td data-label="Expires">
                <RelativeTime at={expiresAt} />
              </td>
            </tr>
          )}
          empty={
            <Empty title="No lease is held">
              <p>
                A lease lets one process at a time do something: <code>runAsLeader</code> in code, or{' '}
                <code>symphony leases</code> on the command line.
              </p>
            </Empty>
          }
        />
      </section>
    </>
  )
}

/** Tag of a lease that a holder has. Unlike a held payment this is normal, so the tag has another icon and colour. */
function Taken() {
  return (
    <span class="state tone-flight" data-state="HELD">
      <Icon name="leases" />
      Held
    </span>
  )
}
