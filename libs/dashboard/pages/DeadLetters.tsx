import { useState } from 'preact/hooks'
import type { DeadLetter, OutboxItem } from '../../http/index.js'
import { pathTo, route } from '../app/router.js'
import { listDlq } from '../data/api.js'
import { useFreshPages } from '../data/useFreshPages.js'
import { usePages } from '../data/usePages.js'
import { Empty } from '../parts/Empty.js'
import { ExportButton } from '../parts/ExportButton.js'
import { Filters } from '../parts/Filters.js'
import { Id } from '../parts/Id.js'
import { RelativeTime } from '../parts/RelativeTime.js'
import { PagedTable } from '../parts/PagedTable.js'
import { PaymentCells } from '../parts/PaymentCells.js'
import { KindFilter, listFilterOf, NoMatches, NameFilter, RailFilter, toQuery } from '../parts/PaymentFilters.js'
import { TimeRangeFilter } from '../parts/TimeRange.js'
import { ProposalNote } from '../parts/ProposalNote.js'
import { SelectionBar, useSelection, type Selection } from '../parts/Selection.js'
import { actionsFor } from './payment/actionsFor.js'
import { RedriveDialog, ReplaceDialog } from './payment/dialogs.js'

export function DeadLetters() {
  const filter = listFilterOf(route.value.query)
  const dead = usePages<DeadLetter>(JSON.stringify(filter), (cursor, signal) =>
    listDlq({ ...toQuery(filter), ...(cursor === undefined ? {} : { cursor }) }, signal),
  )
  const [chosen, setChosen] = useState<OutboxItem | null>(null)
  const [replaced, setReplaced] = useState<OutboxItem | null>(null)
  const selection = useSelection(JSON.stringify(filter))
  useFreshPages(dead)
  return (
    <>
      <header class="page-head">
        <h1>Dead letters</h1>
        <p class="lead">Payments that ended as failed. A redrive sends one again as a new payment.</p>
        <div class="actions">
          <ExportButton path="/v1/dlq" query={toQuery(filter)} />
        </div>
      </header>
      <Filters filter={filter}>
        <KindFilter kind={filter.kind} />
        <RailFilter rail={filter.rail} />
        <NameFilter label="Participant" value={filter.participant} />
        <TimeRangeFilter range={filter} of="Ended" />
      </Filters>
      <section class="panel" aria-label="Dead letters">
        <SelectionBar rows={dead.state.value.rows} selection={selection} onDone={dead.refresh} />
        <PagedTable
          label="Dead letters"
          from={dead}
          columns={['Payment', 'Amount', 'Rail', 'Why', { number: 'Attempts' }, 'Ended', '']}
          row={(value) => (
            <DeadRow
              key={value.item.outboxId}
              dead={value}
              selection={selection}
              onChoose={() => setChosen(value.item)}
              onReplace={() => setReplaced(value.item)}
              onDone={dead.refresh}
            />
          )}
          empty={
            Object.keys(filter).length > 0 ? (
              <NoMatches path="dlq" />
            ) : (
              <Empty title="No dead letters">
                <p>
                  A payment is listed here when its rail refuses it, or when it reaches the retry ceiling and its
                  outcome is not unknown.
                </p>
              </Empty>
            )
          }
        />
      </section>
      {chosen === null ? null : <RedriveDialog item={chosen} onClose={() => setChosen(null)} onDone={dead.refresh} />}
      {replaced === null ? null : (
        <ReplaceDialog item={replaced} onClose={() => setReplaced(null)} onDone={dead.refresh} />
      )}
    </>
  )
}

interface DeadRowProps {
  readonly dead: DeadLetter
  readonly selection: Selection
  readonly onChoose: () => void
  readonly onReplace: () => void
  readonly onDone: () => void
}

function DeadRow({ dead, selection, onChoose, onReplace, onDone }: DeadRowProps) {
  const { item, errorMessage, proposal, redrivenAs, replacedBy } = dead
  const actions = redrivenAs.length > 0 || replacedBy !== null ? [] : actionsFor(item, proposal !== null)
  return (
    <tr>
      <PaymentCells item={item} selection={selection} />
      <td data-label="Why" class="text">
        <code>{item.lastErrorCode ?? item.lastRailCode ?? 'no code'}</code>
        {errorMessage === null ? null : <div class="quiet clamp">{errorMessage}</div>}
        {proposal === null ? null : <ProposalNote key={proposal.proposalId} proposal={proposal} onDone={onDone} />}
      </td>
      <td data-label="Attempts" class="numeric">
        {item.lastAttemptNo ?? '–'}
      </td>
      <td data-label="Ended">
        <RelativeTime at={item.lastAttemptAt} />
      </td>
      <td class="actions">
        {redrivenAs.map((id) => (
          <span key={id} class="quiet">
            redriven as <Id value={id} label="id of the redrive" href={pathTo(['payments', id])} />
          </span>
        ))}
        {replacedBy === null ? null : (
          <span class="quiet">
            replaced by <Id value={replacedBy} label="id of the replacement" href={pathTo(['payments', replacedBy])} />
          </span>
        )}
        {actions.includes('redrive') ? (
          <button type="button" class="button small" aria-label={`Redrive ${item.instructionId}`} onClick={onChoose}>
            Redrive
          </button>
        ) : null}
        {actions.includes('replace') ? (
          <button
            type="button"
            class="button small"
            aria-label={`Correct and replace ${item.instructionId}`}
            onClick={onReplace}
          >
            Correct
          </button>
        ) : null}
      </td>
    </tr>
  )
}
