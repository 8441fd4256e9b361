import type { Timeline } from '../../../http/index.js'
import { pathTo } from '../../app/pathTo.js'
import { FindingCard } from '../../parts/FindingCard.js'
import { EntryFacts } from '../../parts/FindingSides.js'
import { Panel } from '../../parts/Panel.js'

/** Bank entries that name the payment, and findings about it. */
export function BankPanel({ bankEntries, findings }: Pick<Timeline, 'bankEntries' | 'findings'>) {
  return (
    <Panel title="Bank" aside={<a href={pathTo(['reconciliation'])}>Reconciliation</a>}>
      {bankEntries.length === 0 ? <p class="quiet">No statement shows this payment yet.</p> : null}
      <div class="entries">
        {bankEntries.map((entry) => (
          <EntryFacts key={JSON.stringify(entry)} entry={entry} />
        ))}
      </div>
      {findings.length === 0 ? null : (
        <ul class="findings">
          {findings.map((finding) => (
            <FindingCard key={finding.findingId} finding={finding} />
          ))}
        </ul>
      )}
    </Panel>
  )
}
