import type { ErrorCount } from '../../../http/index.js'
import { count } from '../../data/format.js'
import { Empty } from '../../parts/Empty.js'
import { Panel } from '../../parts/Panel.js'
import { StateTag } from '../../parts/StateTag.js'
import { styleOfState, shownState } from '../../parts/states.js'
import { Table } from '../../parts/Table.js'

const SHOWN_MAX = 5

export function ErrorMix({ errors }: { readonly errors: readonly ErrorCount[] }) {
  const shown = errors.slice(0, SHOWN_MAX)
  const most = Math.max(1, ...shown.map((error) => error.count))
  return (
    <Panel title="Errors" aside="last hour" flush>
      {shown.length === 0 ? (
        <Empty title="No errors">
          <p>No attempt of the last hour failed.</p>
        </Empty>
      ) : (
        <Table label="Errors" columns={['Code', { number: 'Count' }]} cards={false}>
          {shown.map((error) => (
            <ErrorLine key={keyOf(error)} error={error} most={most} />
          ))}
        </Table>
      )}
    </Panel>
  )
}

function keyOf({ railType, errorCode, ...error }: ErrorCount): string {
  return `${railType} ${shownState(error)} ${error.state} ${errorCode}`
}

function ErrorLine({ error, most }: { readonly error: ErrorCount; readonly most: number }) {
  const state = shownState(error)
  return (
    <tr>
      <td>
        <code>{error.errorCode ?? 'no code'}</code> <span class="quiet">{error.railType}</span>
        <div>
          <StateTag state={state} />
        </div>
        <div class={`errorbar tone-${styleOfState(state).tone}`} aria-hidden="true">
          <span style={{ width: `${(100 * error.count) / most}%` }} />
        </div>
      </td>
      <td class="numeric">{count(error.count)}</td>
    </tr>
  )
}
