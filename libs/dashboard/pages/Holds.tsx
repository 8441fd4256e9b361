import { useState } from 'preact/hooks'
import type { Hold, OutboxItem } from '../../http/index.js'
import { route } from '../app/router.js'
import { listHolds } from '../data/api.js'
import { hasScope } from '../data/me.js'
import { useFreshPages } from '../data/useFreshPages.js'
import { usePages } from '../data/usePages.js'
import { Empty } from '../parts/Empty.js'
import { ExportButton } from '../parts/ExportButton.js'
import { Filters } from '../parts/Filters.js'
import { FreezeNote } from '../parts/FreezeNote.js'
import { RelativeTime } from '../parts/RelativeTime.js'
import { PagedTable } from '../parts/PagedTable.js'
import { PaymentCells } from '../parts/PaymentCells.js'
import { KindFilter, listFilterOf, NoMatches, NameFilter, RailFilter, toQuery } from '../parts/PaymentFilters.js'
import { TimeRangeFilter } from '../parts/TimeRange.js'
import { ProposalNote } from '../parts/ProposalNote.js'
import { SelectionBar, useSelection, type Selection } from '../parts/Selection.js'
import { StateTag } from '../parts/StateTag.js'
import { ResolveDialog } from './payment/dialogs.js'

export function Holds() {
  const { assignee } = route.value.query
  const filter = { ...listFilterOf(route.value.query), ...(assignee ? { assignee } : {}) }
  const holds = usePages<Hold>(JSON.stringify(filter), (cursor, signal) =>
    listHolds({ ...toQuery(filter), ...(cursor === undefined ? {} : { cursor }) }, signal),
  )
  const [chosen, setChosen] = useState<OutboxItem | null>(null)
  const selection = useSelection(JSON.stringify(filter))
  useFreshPages(holds)
  return (
    <>
      <header class="page-head">
        <h1>Holds</h1>
        <p class="lead">
          Payments that no worker sends until an operator decides. A decision about money needs two people.
        </p>
        <div class="actions">
          <ExportButton path="/v1/holds" query={toQuery(filter)} />
        </div>
      </header>
      <Filters filter={filter}>
        <KindFilter kind={filter.kind} />
        <RailFilter rail={filter.rail} />
        <NameFilter label="Participant" value={filter.participant} />
        <NameFilter label="Assignee" value={assignee} />
        <TimeRangeFilter range={filter} of="Held" />
      </Filters>
      <section class="panel" aria-label="Holds">
        <SelectionBar rows={holds.state.value.rows} selection={selection} onDone={holds.refresh} />
        <PagedTable
          label="Held payments"
          from={holds}
          columns={['Payment', 'Amount', 'Rail', 'Held because', 'Since', '']}
          row={(hold) => (
            <HoldRow
              key={hold.item.outboxId}
              hold={hold}
              selection={selection}
              onChoose={() => setChosen(hold.item)}
              onDone={holds.refresh}
            />
          )}
          empty={
            Object.keys(filter).length > 0 ? (
              <NoMatches path="holds" />
            ) : (
              <Empty title="Nothing is held">
                <p>
                  A payment is held when its outcome is unknown and its rail can neither be asked about it nor receive
                  it twice, at the retry ceiling, or when an operator places a hold.
                </p>
              </Empty>
            )
          }
        />
      </section>
      {chosen === null ? null : (
        <ResolveDialog items={[chosen]} onClose={() => setChosen(null)} onDone={holds.refresh} />
      )}
    </>
  )
}

interface HoldRowProps {
  readonly hold: Hold
  readonly selection: Selection
  readonly onChoose: () => void
  readonly onDone: () => void
}

function HoldRow({ hold: { item, proposal, assignee, latestNote }, selection, onChoose, onDone }: HoldRowProps) {
  return (
    <tr>
      <PaymentCells item={item} selection={selection} />
      <td data-label="Held because" class="text">
        <bdi>{item.holdReason}</bdi> <span class="quiet">by {item.heldBy}</span>
        {item.outcomeUnknown ? (
          <div>
            <StateTag state="OUTCOME_UNKNOWN" />
          </div>
        ) : null}
        <FreezeNote freeze={item.freeze} />
        {assignee === null ? null : (
          <div>
            Assigned to <bdi>{assignee}</bdi>
          </div>
        )}
        {latestNote === null ? null : (
          <div>
            “<bdi>{latestNote.note}</bdi>”{' '}
            <span class="quiet">
              by {latestNote.actor}, <RelativeTime at={latestNote.createdAt} />
            </span>
          </div>
        )}
        {proposal === null ? null : (
          <ProposalNote key={proposal.proposalId} proposal={proposal} item={item} onDone={onDone} />
        )}
      </td>
      <td data-label="Since">
        <RelativeTime at={item.heldAt} />
      </td>
      <td class={hasScope('operate') && proposal === null ? 'actions' : 'empty-cell'}>
        {hasScope('operate') && proposal === null ? (
          <button type="button" class="button small" aria-label={`Resolve ${item.instructionId}`} onClick={onChoose}>
            Resolve
          </button>
        ) : null}
      </td>
    </tr>
  )
}
