import { useState } from 'preact/hooks'
import type { DeadLetter, OutboxItem } from '../../http/index.js'
import { pathTo, route } from '../app/router.js'
import { listDlq } from '../data/api.js'
import { hasScope } from '../data/me.js'
import { useFreshPages } from '../data/useFreshPages.js'
import { usePages } from '../data/usePages.js'
import { ApproveAll } from '../parts/ApproveAll.js'
import { Empty } from '../parts/Empty.js'
import { Id } from '../parts/Id.js'
import { RelativeTime } from '../parts/RelativeTime.js'
import { PagedTable } from '../parts/PagedTable.js'
import { PaymentCells } from '../parts/PaymentCells.js'
import { KindFilter, listFilterOf, NoMatches, ParticipantFilter, RailFilter } from '../parts/PaymentFilters.js'
import { ProposalNote } from '../parts/ProposalNote.js'
import { BulkRedriveDialog, RedriveDialog } from './payment/dialogs.js'

export function DeadLetters() {
  const filter = listFilterOf(route.value.query)
  const dead = usePages<DeadLetter>(JSON.stringify(filter), (cursor, signal) =>
    listDlq({ ...filter, ...(cursor === undefined ? {} : { cursor }) }, signal),
  )
  const [chosen, setChosen] = useState<OutboxItem | null>(null)
  useFreshPages(dead)
  const { rows } = dead.state.value
  return (
    <>
      <header class="page-head">
        <h1>Dead letters</h1>
        <p class="lead">Payments that ended as failed. A redrive sends one again as a new payment.</p>
        <div class="actions">
          <RedriveAll dead={rows} onDone={dead.refresh} />
          <ApproveAll rows={rows} onDone={dead.refresh} />
        </div>
      </header>
      <search class="filters">
        <KindFilter kind={filter.kind} />
        <RailFilter rail={filter.rail} />
        <ParticipantFilter participant={filter.participant} />
      </search>
      <section class="panel" aria-label="Dead letters">
        <PagedTable
          label="Dead letters"
          from={dead}
          columns={['Payment', 'Amount', 'Rail', 'Why', 'Attempts', 'Ended', '']}
          row={(value) => (
            <DeadRow
              key={value.item.outboxId}
              dead={value}
              onChoose={() => setChosen(value.item)}
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
    </>
  )
}

/** Offers to redrive all payments shown, if there are several, e.g. after an outage of a rail. */
function RedriveAll({ dead, onDone }: { readonly dead: readonly DeadLetter[]; readonly onDone: () => void }) {
  // Rows at the time of the click: payments that fail later are not included.
  const [asked, setAsked] = useState<readonly DeadLetter[] | null>(null)
  const open = dead.filter(({ proposal, redrivenAs }) => proposal === null && redrivenAs.length === 0)
  if (!hasScope('operate') || (open.length < 2 && asked === null)) return null
  return (
    <>
      <button type="button" class="button" onClick={() => setAsked(open)}>
        Redrive {open.length} shown
      </button>
      {asked === null ? null : (
        <BulkRedriveDialog asked={asked.map(({ item }) => item)} onClose={() => setAsked(null)} onDone={onDone} />
      )}
    </>
  )
}

interface DeadRowProps {
  readonly dead: DeadLetter
  readonly onChoose: () => void
  readonly onDone: () => void
}

function DeadRow({ dead, onChoose, onDone }: DeadRowProps) {
  const { item, errorMessage, proposal, redrivenAs } = dead
  return (
    <tr>
      <PaymentCells item={item} />
      <td data-label="Why" class="text">
        <code>{item.lastErrorCode ?? item.lastRailCode ?? 'no code'}</code>
        {errorMessage === null ? null : <div class="quiet clamp">{errorMessage}</div>}
        {proposal === null ? null : <ProposalNote proposal={proposal} onDone={onDone} />}
      </td>
      <td data-label="Attempts">{item.lastAttemptNo ?? '–'}</td>
      <td data-label="Ended">
        <RelativeTime at={item.lastAttemptAt} />
      </td>
      <td class="actions">
        {redrivenAs.map((id) => (
          <span key={id} class="quiet">
            redriven as <Id value={id} label="id of the redrive" href={pathTo(['payments', id])} />
          </span>
        ))}
        {hasScope('operate') && proposal === null && redrivenAs.length === 0 ? (
          <button type="button" class="button small" aria-label={`Redrive ${item.instructionId}`} onClick={onChoose}>
            Redrive
          </button>
        ) : null}
      </td>
    </tr>
  )
}
