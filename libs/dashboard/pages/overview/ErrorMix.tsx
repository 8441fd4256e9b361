import type { ErrorCount } from '../../../http/index.js'
import { count } from '../../data/format.js'
import { Empty } from '../../parts/Empty.js'
import { Panel } from '../../parts/Panel.js'
import { StateTag } from '../../parts/StateTag.js'
import { lookOf } from '../../parts/states.js'
import { Scrollable } from '../../parts/Scrollable.js'

const SHOWN_MAX = 5

/** What goes wrong, most frequent first. */
export function ErrorMix({ errors }: { readonly errors: readonly ErrorCount[] }) {
  const shown = errors.slice(0, SHOWN_MAX)
  const most = Math.max(1, ...shown.map((error) => error.count))
  return (
    <Panel title="What went wrong" aside="last hour" flush>
      {shown.length === 0 ? (
        <Empty title="Nothing">
          <p>No attempt of the last hour ended otherwise than with success.</p>
        </Empty>
      ) : (
        <Scrollable label="What went wrong">
          <table>
            <thead>
              <tr>
                <th>Code</th>
                <th>Ended as</th>
                <th class="numeric">Count</th>
              </tr>
            </thead>
            <tbody>
              {shown.map(({ railType, state, errorCode, count: size }) => (
                <tr key={`${railType} ${state} ${errorCode}`}>
                  <td>
                    <code>{errorCode ?? 'no code'}</code> <span class="quiet">{railType}</span>
                    <div class={`errorbar tone-${lookOf(state).tone}`} aria-hidden="true">
                      <span style={{ width: `${(100 * size) / most}%` }} />
                    </div>
                  </td>
                  <td>
                    <StateTag state={state} />
                  </td>
                  <td class="numeric">{count(size)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scrollable>
      )}
    </Panel>
  )
}
